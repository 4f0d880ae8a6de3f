# shellcheck shell=bash
# What live tests have in common: network namespaces that go away again, and steps that hold or do not. To be sourced.
skip() { echo "SKIPPED: $*"; exit 77; }
# need TOOL...: leaves the test out where it cannot run.
need() {
    local tool
    [[ $EUID -eq 0 ]] || skip "network namespaces need root"
    for tool in "$@"; do command -v "$tool" > /dev/null || skip "there is no '$tool' on this machine"; done
}

folder=$(mktemp -d /tmp/millrace-live-XXXXXX)
processes=()   # ended with the test
namespaces=()  # deleted with it
clean_up() {
    local process name
    for process in "${processes[@]}"; do kill -KILL "$process" 2> /dev/null; done
    wait 2> /dev/null
    for name in "${namespaces[@]}"; do ip netns del "$name" 2> /dev/null; done
    rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

failures=0
passed() { echo "ok      $*"; }
failed() { echo "FAILED  $*"; failures=$((failures + 1)); }
# expect WHAT COMMAND...: the command succeeds;  refuse WHAT COMMAND...: it does not.
expect() { local what=$1; shift; if "$@" > "$folder/last" 2>&1; then passed "$what"; else failed "$what: $*"; cat "$folder/last"; fi; }
refuse() { local what=$1; shift; if "$@" > "$folder/last" 2>&1; then failed "$what: $*"; cat "$folder/last"; else passed "$what"; fi; }
# within SECONDS COMMAND...: tries until it succeeds.
within() {
    local end=$((SECONDS + $1)); shift
    until "$@" > /dev/null 2>&1; do ((SECONDS < end)) || return 1; sleep 0.1; done
}
