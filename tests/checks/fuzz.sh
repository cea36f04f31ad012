#!/bin/bash
# Each fuzzer for a moment, from its corpus: enough to see that it builds, that nothing known comes back, and a little more.
# Arguments: the folder with the fuzzers, seconds for each (default 5).
set -u
cd "$(dirname "$0")/../.." || exit 1
folder=$1 seconds=${2:-5}
code=0

fuzz() { # fuzz NAME DICT CORPUS...
	local name=$1 dict=$2 fresh
	shift 2
	fresh=$folder/corpus-$name # what is found new is not for the project's own folders
	mkdir -p "$fresh"
	echo "== $name"
	"$folder/$name" -dict="tests/fuzz/$dict" -max_len=4096 -timeout=10 -max_total_time="$seconds" -print_final_stats=1 \
		-artifact_prefix="$folder/$name-" "$fresh" "$@" 2>&1 | tail -n 40
	[ "${PIPESTATUS[0]}" -eq 0 ] || code=1
}

fuzz fuzz_config config.dict tests/policies/good tests/policies/bad
fuzz fuzz_http http.dict tests/fuzz/corpus/http
fuzz fuzz_explain config.dict tests/fuzz/corpus/explain
exit "$code"
