#!/usr/bin/env bash
# Promises of chains that have no room: `check` and `run` refuse them in the same words, with the run's workers, and a
# file that is read again and promises too much changes nothing. What was measured is made up. usage: admission.sh
# MILLRACE
set -u
millrace=$(realpath "$1")
# shellcheck source=tests/live/own_folder.sh
. "$(dirname "${BASH_SOURCE[0]}")/../own_folder.sh"
export XDG_CACHE_HOME=$folder/cache
cd "$folder" || exit 1

# As if each multiprocessor did a million packets a second.
mkdir -p cache/millrace
cat > cache/millrace/chains-simulated-gpu.json <<'JSON'
{"version": 1, "device": "simulated GPU", "sms": 64, "least-sms": 8, "grain-sms": 8, "chains": [{"functions": "[mirror]", "frame-bytes": 512,
 "kernel": {"start-ns": 20000, "packet-ns": 1000, "r2": 1}, "transfer": {"start-ns": 1000, "packet-ns": 0.02, "r2": 1},
 "most-packets-of-sm": 4096, "points": []}]}
JSON
write() {
    cat > run.yaml <<YAML
version: 1
device: sim
${2:-}
ports:
  a: {source: {size: 128, rate: 1000}}
  b: {source: {size: 128, rate: 1000}}
  out: {sink: {}}
chains:
  first: {input: a, output: out, rate: 40M, latency: 1ms, nfs: [mirror]}
  second: {input: b, output: out, rate: $1, latency: 1ms, nfs: [mirror]}
YAML
}

write 30M
cat > expected <<TEXT
run.yaml:10:41: error: chain 'second' can't keep this; SMs: 40 are needed, and of 64 there are 16 left; promised besides: chain 'first' in line 9, 40000000 packets a second within 1 ms, for which 48 SMs are needed
      second: {input: b, output: out, rate: 30M, latency: 1ms, nfs: [mirror]}
                                            ^
    hint: 'rate: 14M' has room; 'admission: warn' lets it in all the same; by $folder/cache/millrace/chains-simulated-gpu.json
1 mistake
TEXT
for command in check run; do
    if "$millrace" $command run.yaml > said 2>&1; then fail "$command: a promise that has no room is made"; fi
    diff expected said || fail "$command says it in other words"
done
write 14M
"$millrace" check run.yaml > said 2>&1 || fail "what check says to have room has none"
if "$millrace" check run.yaml --workers 8 > said 2>&1; then fail "check does not reckon with the run's workers"; fi
if "$millrace" run run.yaml --workers 8 > said 2>&1; then fail "the run makes what check refuses"; fi
write 30M "admission: warn"
"$millrace" check run.yaml > said 2>&1 || fail "a promise that the file admits is refused"
grep -q "run.yaml:10:41: warning: chain 'second' can't keep this" said || fail "nothing warns of it"

write 10M
"$millrace" run run.yaml --quiet --json end.json > said 2>&1 &
running=$!
for ((tenth = 0; tenth < 300; ++tenth)); do
    "$millrace" show chains --socket out/millrace.sock > shown 2>&1 && break
    sleep 0.1
done
# Waits until the run has said something, for 30 s at most.
is_said() {
    for ((tenth = 0; tenth < 300; ++tenth)); do
        grep -q "$1" said && return
        sleep 0.1
    done
    return 1
}
write 30M
kill -HUP "$running"
is_said "nothing was changed" || fail "a reload that has no room is not refused"
grep -q "chain 'second' can't keep this; SMs: 40 are needed" said || fail "a reload makes a promise that has no room"
write 12M
kill -HUP "$running"
is_said "generation .* is at work" || fail "what has room does not come to work"
kill -INT "$running"
wait "$running" || fail "the run ends with $?"
running=
python3 - <<'PY' || fail "packets are not accounted for"
import json
for chain in json.load(open("end.json"))["chains"]:
    assert chain["received-packets"] == chain["sent-packets"] + chain["dropped"] + chain["in-flight"] and chain["sent-packets"] > 0, chain
PY
echo "promises that have no room are refused"
