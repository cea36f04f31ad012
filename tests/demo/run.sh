#!/usr/bin/env bash
# Shows Evenkeel at work: a small origin that fails on purpose, the proxy on its built-in defaults, real calls with
# curl, and what the proxy's log and metrics say about each. Then both are left running until Ctrl-C.
#
# DEMO_ONCE=1: end after the show (exit 1 when something was not as it should be).
# DEMO_LISTEN, DEMO_ADMIN: other addresses than 127.0.0.1:3128 and 127.0.0.1:9128.
set -u
cd "$(dirname "$0")/../.." || exit 1
program=${EVENKEEL_BIN:-build/evenkeel}
python=${PYTHON:-/usr/bin/python3}
[ -x "$program" ] || {
	echo "$program is not there: run \`make\` first" >&2
	exit 1
}

folder=$(mktemp -d)
origin_pid='' proxy_pid=''
finish() {
	trap - EXIT INT TERM
	[ -n "$proxy_pid" ] && kill "$proxy_pid" 2>/dev/null && wait "$proxy_pid" 2>/dev/null
	[ -n "$origin_pid" ] && kill "$origin_pid" 2>/dev/null && wait "$origin_pid" 2>/dev/null
	rm -rf "$folder"
}
trap 'finish; exit 130' INT TERM
trap finish EXIT

bold='' plain=''
if [ -t 1 ]; then
	bold=$'\e[1m' plain=$'\e[0m'
fi

# wait_for FILE PATTERN: until the file has such a line.
wait_for() {
	for _ in $(seq 100); do
		grep -qE "$2" "$1" 2>/dev/null && return 0
		sleep 0.05
	done
	return 1
}

is_free() { # is_free HOST:PORT
	! (exec 3<>"/dev/tcp/${1%:*}/${1##*:}") 2>/dev/null
}

"$python" tests/origin/flaky_origin.py --port 0 >"$folder/origin.log" 2>&1 &
origin_pid=$!
wait_for "$folder/origin.log" '^flaky origin on' || {
	cat "$folder/origin.log" >&2
	exit 1
}
origin=$(sed -n 's/^flaky origin on //p' "$folder/origin.log")

listen=${DEMO_LISTEN:-127.0.0.1:3128}
admin=${DEMO_ADMIN:-127.0.0.1:9128}
taken=''
is_free "$listen" || taken+=" $listen" listen=127.0.0.1:0
is_free "$admin" || taken+=" $admin" admin=127.0.0.1:0
log=$folder/evenkeel.log
"$program" run --listen "$listen" --admin "$admin" 2>"$log" &
proxy_pid=$!
if ! { wait_for "$log" '"role":"proxy"' && wait_for "$log" '"role":"admin"'; }; then
	cat "$log" >&2
	exit 1
fi
# address ROLE: where that listener is, from the log.
address() {
	sed -n "/\"role\":\"$1\"/s/.*\"address\":\"\([^\"]*\)\".*/\1/p" "$log" | tail -n 1
}
proxy=http://$(address proxy)
admin=http://$(address admin)

for place in $taken; do
	echo "$place is taken, another process listens there: a free port is used in its place."
done
printf '%s\n' "An origin that fails on purpose is on $origin." \
	"Evenkeel is on $proxy with its built-in defaults, its admin port on $admin."

faults=0
# scene ID TITLE EXPECTED-STATUS EXPECTED-ATTEMPTS LOG-PATTERN CURL-ARGUMENTS...
scene() {
	local id=$1 title=$2 status=$3 attempts=$4 pattern=$5 code
	shift 5
	printf '\n%s%s%s\n' "$bold" "$title" "$plain"
	printf '$ curl -x %s' "$proxy"
	printf ' %q' "$@"
	echo
	curl -sS -m 20 -x "$proxy" -H "X-Request-Id: $id" -D "$folder/head" -o "$folder/body" -w '%{http_code}' "$@" \
		>"$folder/code" 2>"$folder/error"
	code=$(cat "$folder/code")
	cat "$folder/error"
	grep -iE '^(HTTP/|evenkeel-|proxy-status)' "$folder/head" | tr -d '\r' | sed 's/^/  /'
	head -c 600 "$folder/body" | sed 's/^/  /'
	[ -n "$(tail -c 1 "$folder/body")" ] && echo
	wait_for "$log" "\"event\":\"request\".*\"id\":\"$id\"" || echo "  no access line for $id"
	echo '  the log:'
	grep -F "\"id\":\"$id\"" "$log" | sed 's/^/    /'
	if [ "$code" != "$status" ]; then
		echo "  NOT AS IT SHOULD BE: status $code, expected $status"
		faults=$((faults + 1))
	fi
	if ! grep -F "\"id\":\"$id\"" "$log" | grep '"event":"request"' | grep -q "\"attempts\":$attempts\b"; then
		echo "  NOT AS IT SHOULD BE: expected $attempts attempts"
		faults=$((faults + 1))
	fi
	if ! grep -F "\"id\":\"$id\"" "$log" | grep -qE "$pattern"; then
		echo "  NOT AS IT SHOULD BE: no line like $pattern"
		faults=$((faults + 1))
	fi
}

scene demo-1 'A plain request: one attempt.' 200 1 '"verdict":"ok"' "$origin/ok"
scene demo-2 'A 503, mended: the second attempt is answered.' 200 2 '"reason":"?503' "$origin/flaky"
scene demo-3 'Two resets, mended: one hit a kept-alive connection, replaced at once; the other one cost an attempt.' \
	200 2 '"reason":"reset"' "$origin/reset?n=2"
scene demo-4 'A body that breaks off half-way, mended: it was held back, so the client never saw it.' \
	200 2 '"reason":"incomplete_body"' "$origin/cut"
scene demo-5 'An origin that asks for a second of quiet (Retry-After) gets it.' 200 2 '"event":"retry"' "$origin/wait?s=1"
scene demo-6 'A 503 for a POST: not repeated, since the origin may have acted on it.' 503 1 '"verdict":"method"' \
	-X POST -d 'amount=5' "$origin/flaky"
scene demo-7 'The same with an Idempotency-Key: repeated.' 200 2 '"verdict":"ok"' \
	-X POST -d 'amount=5' -H 'Idempotency-Key: order-7' "$origin/flaky"
scene demo-8 'A slow answer, ended: this caller gives it 700 ms in all.' 504 1 '"error":"http_response_timeout"' \
	-H 'Evenkeel-Timeout: 700ms' "$origin/slow?ms=5000"
scene demo-9 'An origin that fails for good: three attempts, then its own last answer.' 503 3 '"verdict":"attempts"' \
	"$origin/status/503"

printf '\n%sWhat the metrics say%s (%s/metrics)\n' "$bold" "$plain" "$admin"
curl -sS -m 5 "$admin/metrics" >"$folder/metrics"
grep -E '^evenkeel_(requests|attempts|retries|retries_suppressed|timeouts)_total\{' "$folder/metrics" |
	grep -v ' 0$' | sed 's/^/  /'
grep -qE '^evenkeel_retries_total\{.*reason="503".*\} [1-9]' "$folder/metrics" || {
	echo '  NOT AS IT SHOULD BE: no retries counted'
	faults=$((faults + 1))
}

if [ "${DEMO_ONCE:-0}" = 1 ]; then
	kill "$proxy_pid"
	wait "$proxy_pid"
	code=$?
	proxy_pid=''
	printf '\nevenkeel ended with code %d; %d things were not as they should be\n' "$code" "$faults"
	[ "$code" -eq 0 ] && [ "$faults" -eq 0 ]
	exit
fi

printf '\n%sBoth are left running; Ctrl-C ends them.%s Try it:\n' "$bold" "$plain"
printf '  curl -x %s -i %s/flaky\n  export http_proxy=%s; curl -i %s/reset\n' "$proxy" "$origin" "$proxy" "$origin"
printf '  a dashboard in the browser: %s/\n\nThe log from here on:\n' "$admin"
tail -n 0 -f "$log" --pid="$proxy_pid" &
tail_pid=$!
trap 'kill $tail_pid 2>/dev/null; finish; exit 0' INT TERM
wait "$proxy_pid"
kill "$tail_pid" 2>/dev/null
