#!/bin/bash
# Runs the cmocka programs given after BUILD, each within a time limit, and counts their tests.
# The output of a program is shown when something in it failed, and kept in BUILD/unit/NAME.log.
# Leaves "PASSED FAILED SKIPPED" in BUILD/unit/counts; exit 1 when a test failed or none ran.
set -u

build=$1
shift
limit=${UNIT_TIMEOUT:-120}
logs=$build/unit
mkdir -p "$logs"
rm -f "$logs"/*.log "$logs/counts"

# Sums the numbers N of cmocka's lines "[  WORD  ] N test(s)...".
sum() {
	sed -n "s/^\[  $1 *\] *\(GROUP: \)\{0,1\}\([0-9][0-9]*\) test(s).*/\2/p" "$2" | awk '{ n += $1 } END { print n + 0 }'
}

passed=0 failed=0 skipped=0
for program in "$@"; do
	name=$(basename "$program")
	log=$logs/$name.log
	timeout "$limit" "$program" >"$log" 2>&1 </dev/null
	code=$?
	p=$(sum PASSED "$log") f=$(sum FAILED "$log") s=$(sum SKIPPED "$log")
	note=''
	if [ "$code" -ne 0 ] && [ "$f" -eq 0 ]; then
		f=1
		note=" (exit code $code)"
		[ "$code" -eq 124 ] && note=" (not done in $limit s)"
	elif [ $((p + f + s)) -eq 0 ]; then
		f=1
		note=' (ran no test)'
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	if [ "$f" -gt 0 ]; then
		printf '  FAIL  %s: %d of %d%s\n' "$name" "$f" "$((p + f))" "$note"
		grep -v '^\[ *\(RUN\|OK\) *\]' "$log" | tail -n 120
	else
		printf '  OK    %s: %d tests\n' "$name" "$p"
	fi
done
echo "$passed $failed $skipped" >"$logs/counts"
echo "unit tests: $passed ok, $failed not ok, $skipped left out"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
