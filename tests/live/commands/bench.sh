#!/usr/bin/env bash
# `millrace bench` told to stop: what it has measured by then is checked and written, and its exit status says that it
# is not all.
# usage: bench.sh MILLRACE
set -u
millrace=$(realpath "$1")
# shellcheck source=tests/live/own_folder.sh
. "$(dirname "${BASH_SOURCE[0]}")/../own_folder.sh"
export TMPDIR=$folder/scratch
mkdir "$TMPDIR"
cd "$folder" || exit 1

# Sends signal $1 when `bench`, with the options that follow, says $2; it ends with 1 and says why.
stop() {
    local signal=$1 said=$2 pid status tenth
    shift 2
    : > said  # what the one before has said is no word of this one's
    # Only with job control does a script's child in the background hear SIGINT.
    set -m
    "$millrace" bench chain --chain mirror --device cpu --workers 1 --sizes 64 --json figures.json "$@" > said 2>&1 &
    pid=$!
    set +m
    for ((tenth = 0; tenth < 600; ++tenth)); do
        if grep -q "$said" said; then break; fi
        kill -0 "$pid" || fail "it ended by itself"
        sleep 0.1
    done
    kill "-$signal" "$pid"
    wait "$pid"
    status=$?
    [[ $status -eq 1 ]] || fail "SIG$signal: the exit status is $status, not 1"
    grep -q "stopped before its end" said || fail "SIG$signal: nothing says that it was stopped"
    if grep -q WRONG said; then fail "SIG$signal: what it measured is wrong"; fi
    [[ -z $(ls -A "$TMPDIR") ]] || fail "SIG$signal: temporary files are left"
}
# The figures are as the Python expression $1 wants them.
figures() {
    python3 -c "import json, sys; figures = json.load(open('figures.json')); results = figures['results']; sys.exit(not ($1))" \
        || fail "the JSON does not tell what was measured: $(cat figures.json)"
}

stop INT " of 300 s" --warm-up 0 --for 300
figures "figures['stopped'] and len(results) == 1 and 5 < results[0]['seconds'] < 120 and results[0]['packets-per-second'] > 0"
figures "results[0]['conserved'] and results[0]['check']['equal'] > 0 and results[0]['check']['different'] == 0"
rm figures.json
stop TERM "mirror on cpu, 64" --warm-up 300 --for 300
figures "figures['stopped'] and results == []"
echo "a benchmark that is stopped tells what it has measured"
