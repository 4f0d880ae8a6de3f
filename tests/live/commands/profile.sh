#!/usr/bin/env bash
# `millrace profile` measures, keeps what it has measured, and mends a file that is no good; `explain` and `run` take it
# from there.
# usage: profile.sh MILLRACE SOURCE
set -u
millrace=$(realpath "$1") source=$2
# shellcheck source=tests/live/own_folder.sh
. "$(dirname "${BASH_SOURCE[0]}")/../own_folder.sh"
export XDG_CACHE_HOME=$folder/cache
kept=$XDG_CACHE_HOME/millrace/bus-simulated-gpu.json
cd "$folder" || exit 1
explain() { "$millrace" explain "$source/examples/gateway.yaml" --device sim --output "$folder" > said 2>&1 ||
    fail "explain ends with $?"; }

explain
grep -q "by built-in figures" said || fail "without a profile, explain does not say that its figures are built in"
"$millrace" profile --device sim --for 0.0005 --json figures.json > said 2>&1 || fail "profile ends with $?"
grep -q "Kept in $kept" said || fail "profile does not say where its figures are"
grep -q '"samples"' figures.json || fail "no measurements are in the JSON"
explain
grep -q "by $kept" said || fail "explain does not take the figures of the profile"
for frames in "64 B" "128 B" "256 B" "512 B" "1024 B" "1518 B" IMIX; do
    [[ $(grep -c "^ *$frames  " said) -ge 2 ]] || fail "explain says nothing of frames of $frames"
done
grep -qE "would cost .*(more|as much)" said || fail "explain gives no reason"
"$millrace" run "$source/examples/gateway.yaml" --device sim --output "$folder/out" > said 2>&1 ||
    fail "run ends with $?"
grep -q "ways  *in: .*; back: region .* batches" said || fail "run does not say by which ways its batches went"

# What is no profile of this device is refused with its place, and stops nothing.
sed -i 's/"device": "[^"]*"/"device": "NVIDIA H200"/' "$kept"
explain
grep -q "bus-simulated-gpu.json:3:12.*NVIDIA H200" said ||
    fail "a profile of another device is not refused with its place"
grep -q "millrace profile" said || fail "the remedy is not named"
grep -q "by built-in figures" said || fail "the figures are not built in then"
"$millrace" profile --device sim --for 0.0005 > said 2>&1 || fail "profile ends with $?"
explain
grep -q "by $kept" said || fail "profile does not mend the file"

# Promises of chains are held against what was measured of them.
cat > promises.yaml <<'YAML'
version: 1
device: sim
ports: {in: {source: {count: 10}}, out: {sink: {}}}
chains: {a: {input: in, output: out, rate: 1k, latency: 500ms, weight: 2, nfs: [mirror]}}
YAML
"$millrace" check promises.yaml > said 2>&1 || fail "a chain that nobody has measured is refused"
grep -q "was not measured on this device" said || fail "check does not say that nobody has measured the chain"
"$millrace" profile --device sim --chain promises.yaml --for 0.0005 --json chains.json > said 2>&1 ||
    fail "profile --chain ends with $?"
grep -q "R²" said || fail "profile does not say how well the lines fit"
grep -q '"chain-profiles"' chains.json || fail "no coefficients are in the JSON"
"$millrace" check promises.yaml > said 2>&1 || fail "a promise that can be kept is refused"
"$millrace" explain promises.yaml > said 2>&1 || fail "explain ends with $?"
grep -qE "^a +64 .*1000/s.*500000.0 us" said || fail "explain does not show what the chain gets"
sed -i 's/rate: 1k/rate: 900G/' promises.yaml
if "$millrace" check promises.yaml > said 2>&1; then fail "a promise that nobody can keep is made"; fi
grep -q "promises.yaml:4:44: error: .*rate: 9e+11 packets a second were asked for, and 64 SMs do" said ||
    fail "the figure that stops it is not named"

if "$millrace" run promises.yaml > said 2>&1; then fail "a run makes a promise that nobody can keep"; fi
grep -q "promises.yaml:4:44: error: .*64 SMs do" said || fail "the run does not name the figure that stops it"
sed -i 's/rate: 900G/rate: 1k/' promises.yaml
"$millrace" run promises.yaml > said 2>&1 || fail "a run with a promise that can be kept ends with $?"
grep -qE "promised +1.00 kpkt/s within 500.0 ms: not looked at yet" said ||
    fail "the closing table says nothing of the promise"

if "$millrace" profile --device cpu > said 2>&1; then fail "the cpu has no bus"; fi
if XDG_CACHE_HOME=/dev/null "$millrace" profile --device sim --for 0.0005 > said 2>&1; then fail "figures that can't be kept went unnoticed"; fi
grep -q XDG_CACHE_HOME said || fail "the message does not say what would help"
echo "profiles are measured, kept, refused and mended"
