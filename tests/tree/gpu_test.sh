#!/usr/bin/env bash
# scripts/gpu-test tells what fails, ends what it has begun when it is stopped, and shares tests out, by programs that
# only say that they ran.
# usage: gpu_test.sh ROOT
set -u
root=$1
folder=$(mktemp -d /tmp/millrace-gpu-test-XXXXXX)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/build/tests" "$folder/tools"
export BUILD=$folder/build MILLRACE_TEST_DEVICES=sim MILLRACE_DATA=$folder PATH=$folder/tools:$PATH
fail() { echo "FAILED: $1"; cat "$folder/said"; exit 1; }
# A program of that name does what standard input says.
program() {
    { echo '#!/usr/bin/env bash'; echo "folder=$folder"; cat; } > "$1"
    chmod +x "$1"
}
gpu_test() {
    rm -rf "$folder/logs"
    (cd "$root" && exec scripts/gpu-test --logs "$folder/logs" "$@") > "$folder/said" 2>&1
}
says() { grep -q -- "$1" "$folder/said" || fail "nothing says: $1"; }

for name in test_exec test_good test_bad test_slow test_empty; do
    program "$folder/build/tests/$name" << 'PROGRAM'
name=$(basename "$0")
case $* in *--gtest_list_tests*)
    [[ $name == test_empty ]] || printf 'Suite.\n  One\n  Two\n'
    exit 0 ;;
esac
echo "$name ${GTEST_SHARD_INDEX:-0} of ${GTEST_TOTAL_SHARDS:-1} $*" >> "$folder/ran"
case $name in
test_bad) exit 1 ;;
test_slow) exec -a "$folder/slow" sleep 600 ;;
esac
echo '[==========] 2 tests'
echo '[  PASSED  ] 2 tests.'
PROGRAM
done
program "$folder/tools/compute-sanitizer" << 'PROGRAM'
echo "$2" >> "$folder/tools-used"
while [[ $1 == --* ]]; do shift 2; done
exec "$@"
PROGRAM

# Seven seconds of a run, of which five are over when it is told of the first change.
program "$folder/build/millrace" << 'PROGRAM'
if [[ $1 == bench ]]; then
    [[ ! -e $folder/exhausted ]] || echo "9 packets found their tunnel's sequence numbers used up, see --tunnels"
    echo "the table"
    exit 0
fi
trap 'echo "generation 2 is at work"' HUP
for ((i = 0; i < 70; ++i)); do sleep 0.1; done
exit "$(cat "$folder/status")"
PROGRAM

gpu_test test_good test_exec || fail "what passes does not pass"
says "all passed on sim"
[[ $(grep -c '^test_exec . of 5' "$folder/ran") == 5 && $(grep -c '^test_good' "$folder/ran") == 1 ]] ||
    fail "tests are not shared out: $(cat "$folder/ran")"
gpu_test test_good test_bad && fail "what fails passes"
says "1 failed: test_bad"
gpu_test test_absent && fail "a program that is not there passes"

gpu_test --jobs 2 test_slow test_good &
for ((tenth = 0; tenth < 100; ++tenth)); do
    pgrep -f "^$folder/slow" > /dev/null && break
    sleep 0.1
done
pgrep -f "^$folder/slow" > /dev/null || fail "the slow program does not run"
kill -TERM "$(pgrep -f "scripts/gpu-test --logs $folder/logs" | head -1)"
wait $! && fail "what was stopped passes"
says "stopped before its end"
for ((tenth = 0; tenth < 50; ++tenth)); do
    pgrep -f "^$folder/slow" > /dev/null || break
    sleep 0.1
done
pgrep -f "^$folder/slow" > /dev/null && fail "what it had begun goes on"

gpu_test --sanitizer --tools memcheck,initcheck test_exec || fail "the sanitizers' run does not pass"
[[ $(sort "$folder/tools-used" | uniq -c | tr -s ' ' | tr '\n' ';') == ' 5 initcheck; 5 memcheck;' ]] ||
    fail "other tools were asked for: $(cat "$folder/tools-used")"
gpu_test --sanitizer test_bad && fail "a report does not fail the run"
gpu_test --sanitizer test_empty && fail "a filter that no test matches passes"
for wrong in "--tools memcheck test_good" "--sanitizer --tools valgrind test_good" "--soak" "--colour"; do
    # shellcheck disable=SC2086
    gpu_test $wrong && fail "taken: $wrong"
done

echo 0 > "$folder/status"
gpu_test --soak 1 || fail "a soak in which all is well does not pass"
says "the counters add up over [1-9]"
echo 1 > "$folder/status"
gpu_test --soak 1 && fail "a soak whose changes lose packets passes"
touch "$folder/exhausted"
gpu_test --soak 1 && fail "a soak without sequence numbers passes"
says "more --tunnels"
echo "gpu-test tells what fails, and stops what it has begun"
