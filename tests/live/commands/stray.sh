#!/usr/bin/env bash
# What the program does about network functions that misbehave: outcomes that they did not declare, loops without end.
# usage: stray.sh MILLRACE PLUGIN DEVICE
set -u
millrace=$(realpath "$1") plugin=$(realpath "$2") device=$3
# shellcheck source=tests/live/own_folder.sh
. "$(dirname "${BASH_SOURCE[0]}")/../own_folder.sh"
cd "$folder" || exit 1

chain() {
    cat << YAML
version: 1
plugins: [$plugin]
ports: {a: {source: {count: $2}}, b: {sink: {}}}
chains:
  x: {input: a, output: b, nfs: [probe: {$1}]}
YAML
}
# Waits until `said` has the words.
await() {
    for ((i = 0; i < 200; ++i)); do
        grep -q "$1" said && return
        sleep 0.1
    done
    fail "it never said: $1"
}

# Waits until process $1 takes signals by itself, and is busy from then on.
await_loop() {
    local mask ticks
    for ((i = 0; i < 200; ++i)); do
        mask=$(sed -n 's/^SigCgt:\s*//p' "/proc/$1/status")
        (( 0x${mask:-0} & 2 )) && break
        sleep 0.1
    done
    ticks=$(cut -d' ' -f14 "/proc/$1/stat")
    for ((i = 0; i < 200; ++i)); do
        (( $(cut -d' ' -f14 "/proc/$1/stat") > ticks + 20 )) && return
        sleep 0.1
    done
    fail "it is not at work"
}

chain "outcome: 7" 1000 > outcome.yaml
"$millrace" run outcome.yaml -d "$device" --json report.json > said 2>&1
[[ $? -eq 1 ]] || fail "an undeclared outcome does not fail the run"
grep -q "'probe' of chain 'x' gave 1,000 packets an outcome that it does not declare" said || fail "it is not said"
grep -q '"probe.undeclared-outcome": 1000' report.json || fail "it is no drop reason"

# A checked run finds what is not declared, says it once, and keeps the packet.
if [[ $device == sim ]]; then
    checked() {
        chain "$1" 20 > checked.yaml
        rm -rf out
        "$millrace" run checked.yaml --checked -q > said 2>&1
        [[ $? -eq $2 ]] || fail "a checked run of {$1} does not end with status $2"
        [[ -z $3 ]] && return
        [[ $(grep -c "'probe' of chain 'x': probe, packet 1: $3" said) -eq 1 ]] || fail "{$1}: '$3' is not said once"
        [[ -s out/checked.pcap ]] || fail "{$1}: the packet was not kept"
    }
    checked "" 0 ""
    grep -q "20 times a function got a packet, and kept to what it declares" said || fail "it does not say what it did"
    [[ ! -e out/checked.pcap ]] || fail "a capture of nothing"
    checked "looks: true" 1 "it reads ip.ttl and does not declare it"
    checked "writes: true" 1 "it writes ip.ttl and does not declare it"
    checked "beyond: true" 1 "it writes beyond the packet"
    checked "outcome: 7" 1 "outcome 7 is not declared"
    "$millrace" run checked.yaml --checked -d cpu > said 2>&1 && fail "--checked goes with cpu"
    grep -q -- "--checked: runs chains on sim, and not on cpu" said || fail "it does not say why not"
    "$millrace" run checked.yaml --checked -w 2 > said 2>&1 && fail "--checked goes with two workers"
    # The check gets to the loop before the chain does.
    chain "loops: true" 20 > checked.yaml
    "$millrace" run checked.yaml --checked > said 2>&1 &
    running=$!
    await_loop $running
    kill -INT $running
    await "'probe' of chain 'x' has not come back"
    wait $running
    [[ $? -eq 1 ]] || fail "a loop without an end does not fail a checked run"
fi

# A table of golden packets ends at a function that does not come back, says in which case, and leaves nothing behind.
if [[ $device == cpu ]]; then
    cat > golden.yaml << 'YAML'
- {name: comes back, packet: {ipv4: {}, udp: {}}, expect: {outcome: seen}}
- {name: stays, options: {loops: true}, packet: {ipv4: {}, udp: {}}, expect: {outcome: seen}}
YAML
    mkdir scratch
    TMPDIR=$folder/scratch timeout 100 "$millrace" nf test "$plugin" golden.yaml > said 2>&1
    [[ $? -eq 1 ]] || fail "a loop without an end does not fail a table"
    grep -q "'probe' in case 'stays' has not come back for 10 s, in the midst of packets: the process ends" said ||
        fail "it is not said where"
    [[ -z $(ls -A scratch) ]] || fail "temporary files are left"
fi

# A first signal asks for an end in order; the process ends, naming the function, although that never comes back.
chain "loops: true" 1000 > loop.yaml
"$millrace" run loop.yaml -d "$device" > said 2>&1 &
running=$!
await_loop $running
kill -INT $running
await "'probe' of chain 'x' has not come back"
wait $running
[[ $? -eq 1 ]] || fail "a loop without an end does not fail the run"

# A second one ends it at once.
"$millrace" run loop.yaml -d "$device" > said 2>&1 &
running=$!
await_loop $running
kill -INT $running
# Two of which the first has not been taken are one.
for ((i = 0; i < 200; ++i)); do
    [[ $(sed -n 's/^ShdPnd:\s*//p' /proc/$running/status) =~ ^0+$ ]] && break
    sleep 0.01
done
kill -INT $running
wait $running
[[ $? -eq 130 ]] || fail "a second signal does not end the process"
grep -q "a thread is in the network function 'probe' of chain 'x'" said || fail "it is not said where it was"
