#!/usr/bin/env bash
# `millrace nf watch` as somebody has it who writes a function: an installed Millrace, the tutorial's sources, an
# editor.
# usage: watch.sh MILLRACE BUILD ROOT
set -u
millrace=$(realpath "$1") build=$(realpath "$2") root=$(realpath "$3")
# shellcheck source=tests/live/own_folder.sh
. "$(dirname "${BASH_SOURCE[0]}")/../own_folder.sh"
watch=
clean_up_more() { if [[ -n $watch ]]; then kill "$watch" && wait "$watch"; fi 2> /dev/null; }
export TMPDIR=$folder/scratch
mkdir "$TMPDIR"
cd "$folder" || exit 1
touch said

cmake --install "$build" --prefix "$folder/installed" > said 2>&1 || fail "it can't be installed"
cp -r "$root/examples/nf-ttl-guard" sources
cmake -S sources -B ttl -DCMAKE_PREFIX_PATH="$folder/installed" > said 2>&1 || fail "cmake finds no Millrace"
grep -q "^CMAKE_BUILD_TYPE:STRING=Release$" ttl/CMakeCache.txt || fail "who names no build type does not get Release"

# Starts a watch with these options.
start() {
    : > said
    mark=0
    "$millrace" nf watch ttl/ttl-guard.so "$@" > said 2>&1 &
    watch=$!
}
# What has been said since `note` was called last.
news() { tail -c +$((mark + 1)) said; }
note() { mark=$(stat -c %s said); }
await() {
    local tenth
    for ((tenth = 0; tenth < 900; ++tenth)); do
        if news | grep -q -- "$1"; then return; fi
        kill -0 "$watch" 2> /dev/null || fail "it ended, and did not say: $1"
        sleep 0.1
    done
    fail "it never said: $1"
}
# Ends the watch by signal $1: in order, and with all that it has started.
stop() {
    kill "-$1" "$watch"
    wait "$watch"
    local status=$?
    [[ $status -eq 0 ]] || fail "SIG$1: the exit status is $status"
    pgrep -f "$folder/" > /dev/null && fail "SIG$1: something runs on: $(pgrep -af "$folder/")"
    watch=
    [[ -z $(ls -A "$TMPDIR") ]] || fail "SIG$1: temporary files are left"
}
device=sources/ttl_guard/device.hpp
cp $device sound.hpp
cp sources/golden.yaml sound.yaml

# A table: with each build, and with each change of its own.
start --test sources/golden.yaml
await "5 cases on cpu, sim.*: all passed"
grep -q "built ttl-guard in" said || fail "it does not say that it built"
note
sed -i 's/ttl < least/ttl <= least/' $device
await "ttl-guard did not pass golden.yaml"
news | grep -q "outcome too-low, expected pass" || fail "it does not say what differs"
note
echo "nonsense" >> $device
await "ttl-guard was not built"
news | grep -q "device.hpp:.*error:.*nonsense" || fail "the compiler's words are not shown"
note
cp sound.hpp $device
await "all passed"
note
sed -i 's/explain: TTL 4/explain: TTL 3/' sources/golden.yaml
await "did not pass"
news | grep -q "built ttl-guard" && fail "the plugin did not change, and it says that it was built"
note
cp sound.yaml sources/golden.yaml
await "all passed"
# What editors leave beside files is nothing to build for, and a file that is no part of the plugin changes nothing.
note
touch "sources/ttl_guard/device.hpp~" sources/ttl_guard/.device.hpp.swp sources/notes
sleep 3
[[ -z $(news) ]] || fail "it builds for what is no source"
# A folder that comes later counts, too.
mkdir sources/ttl_guard/more
cp sound.hpp sources/ttl_guard/more/device.hpp
echo '#include "ttl_guard/more/device.hpp"' > $device
await "all passed"
note
sed -i 's/ttl < least/ttl <= least/' sources/ttl_guard/more/device.hpp
await "did not pass"
note
cp sound.hpp $device
await "all passed"
# One that never comes back ends by itself, and the next one is tried.
note
sed 's/ttl < least/[\&] { for (volatile bool on = true; on;); return ttl < least; }()/' sound.hpp > $device
await "in case '.*' has not come back for 10 s"
await "ttl-guard did not pass golden.yaml"
note
cp sound.hpp $device
await "all passed"
stop INT

# A chain that runs takes in what passes, and only that.
cat > guarded.yaml << 'YAML'
version: 1
ports: {a: {source: {rate: 20k}}, b: {sink: {}}}
chains:
  guarded: {input: a, output: b, nfs: [ttl-guard: {least: 1}]}
YAML
start --run guarded.yaml --test sources/golden.yaml --device sim
await "all passed"
for ((tenth = 0; tenth < 300; ++tenth)); do
    chain=$(pgrep -P "$watch" -f "run .*guarded.yaml") && break
    sleep 0.1
done
[[ -n $chain ]] || fail "no chain runs"
note
echo "nonsense" >> $device
await "was not built; the chain runs on with what it has"
note
sed 's/ttl < least/ttl <= least/' sound.hpp > $device
await "did not pass golden.yaml; the chain runs on with what it has"
news | grep -q "is at work" && fail "what did not pass came into the chain"
note
# Drops what the source makes, and nothing else of the table's packets.
sed 's/ttl < least/ttl < least || ttl == 64/' sound.hpp > $device
await "generation 2 is at work"
sleep 1
note
sed -i 's/least: 1/least: 2/' guarded.yaml
await "generation 3 is at work"
[[ $(pgrep -P "$watch" -f "run .*guarded.yaml") == "$chain" ]] || fail "the chain was started again"

# From save to packets it takes 3 s at most. Where no processor is idle meanwhile, as others keep them busy, it is the
# processors' time that counts.
ticks_idle() { awk '/^cpu / { print $5 + $6 }' /proc/stat; }
ticks_spent() { sed 's/.*) //' "/proc/$watch/stat" | awk '{ print $12 + $13 + $14 + $15 }'; }
soon=
for attempt in 1 2 3 4 5; do
    note
    idle=$(ticks_idle) spent=$(ticks_spent) begin=${EPOCHREALTIME/[.,]/}
    sed "s/ttl < least/ttl < least || ttl == 64 || ttl == 24$attempt/" sound.hpp > $device
    await "is at work"
    took=$(((${EPOCHREALTIME/[.,]/} - begin) / 1000))
    spent=$((($(ticks_spent) - spent) * 1000 / $(getconf CLK_TCK))) idle=$((($(ticks_idle) \
        - idle) * 1000 / $(getconf CLK_TCK)))
    echo "from save to packets: $took ms; $spent ms of a processor, and $idle ms idle"
    if [[ $took -le 3000 || ($idle -lt $((took / 4)) && $spent -le 3000) ]]; then soon=yes && break; fi
done
[[ -n $soon ]] || fail "from save to packets it takes more than 3 s"
note
stop TERM
news | grep -q "too-low" || fail "the chain does not do what the new build does"
kill -0 "$chain" 2> /dev/null && fail "the chain runs on"

# A chain that ends by itself starts again with the next change.
sed -i "s/source: {rate: 20k}/source: {count: 100}/" guarded.yaml
start --run guarded.yaml
await "the chain ended with status 0; the next change starts it again"
note
cp sound.hpp $device
await "the chain ended with status 0"
news | grep -q "built ttl-guard in" || fail "it did not build before"
sed -i 's/least: 2/most: 2/' guarded.yaml
await "the chain ended with status 2"
kill -INT "$watch"
wait "$watch"
[[ $? -eq 1 ]] || fail "a chain that ended badly is no failure"
watch=
exit 0
