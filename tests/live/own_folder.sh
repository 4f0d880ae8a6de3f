# shellcheck shell=bash
# What live tests begin with: a folder of their own and processes, all gone when the test ends, however it does; and a
# way to fail. To be sourced.
folder=$(mktemp -d "${TMPDIR:-/tmp}/millrace-live-XXXXXX")
processes=()            # ended with the test, as are all in the background
clean_up_more() { :; }  # first, of tests that leave something else
clean_up() {
    local process
    {
        clean_up_more
        for process in "${processes[@]}" $(jobs -p); do kill -KILL "$process"; done
        wait
    } 2> /dev/null
    rm -rf "$folder"
}
trap clean_up EXIT
trap 'exit 1' INT TERM HUP

skip() { echo "SKIPPED: $*"; exit 77; }
# fail WHAT: ends the test, showing what the program said into `said`, `answer` and `warned…` of the current folder.
fail() {
    local file
    echo "FAILED: $1"
    for file in said answer warned*; do [[ ! -e $file ]] || { echo "--- $file"; cat "$file"; }; done
    exit 1
}
