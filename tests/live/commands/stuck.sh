#!/usr/bin/env bash
# Whatever command runs a function of a developer tells of one that does not come back, and what it was doing.
# usage: stuck.sh MILLRACE PLUGIN
set -u
millrace=$(realpath "$1") plugin=$(realpath "$2")
# shellcheck source=tests/live/own_folder.sh
. "$(dirname "${BASH_SOURCE[0]}")/../own_folder.sh"
declare -A words status running
export TMPDIR=$folder/scratch XDG_CACHE_HOME=$folder/cache
mkdir "$TMPDIR"
cd "$folder" || exit 1

for place in making half summary packets; do
    cat > $place.yaml << YAML
version: 1
plugins: [$plugin]
ports: {a: {source: {count: 100}}, b: {sink: {}}}
chains:
  x: {input: a, output: b, nfs: [probe: {loops-in: $place}]}
YAML
done
echo "- {name: stays, options: {loops-in: making}, packet: {ipv4: {}, udp: {}}, expect: {outcome: seen}}" > golden.yaml

# stuck NAME STATUS WORDS COMMAND…: `millrace COMMAND…` says WORDS, and ends with STATUS by itself unless that is -.
stuck() {
    local name=$1
    status[$name]=$2 words[$name]=$3
    shift 3
    "$millrace" "$@" > "$name.said" 2>&1 &
    running[$name]=$!
}
function="the network function 'probe' of chain 'x' has not come back for"
made="$function 10 s, while it is made: is there an endless loop in it?"
tells="$function 10 s, while it tells of its tables: is there an endless loop in it?"
packets="$function 30 s, in the midst of packets: the process ends"
loaded="the plugin '$plugin' has not come back for 10 s, while it is loaded: is there an endless loop in it?"
stuck check-making - "$made" check making.yaml --plugins
stuck check-summary - "$tells" check summary.yaml --plugins
stuck explain-making - "$made" explain making.yaml
stuck explain-summary - "$tells" explain summary.yaml
stuck run-making - "$made" run making.yaml -o run-making
stuck run-half - "$made" run half.yaml -d cpu -o run-half
stuck profile-making - "$made" profile -d sim --chain making.yaml
stuck profile-packets 1 "$packets" profile -d sim --chain packets.yaml
stuck bench-making - "$made" bench chain --config making.yaml --for 0.1
stuck bench-packets 1 "$packets" bench chain --config packets.yaml --for 0.1
stuck kernels-packets 1 "$packets" bench nf --config packets.yaml --for 0.1 --device sim --kernels 64 --kernels-only
stuck test-making - "the network function 'probe' in case 'stays' has not come back for 10 s, while it is made" nf test "$plugin" golden.yaml
export PROBE_LOOPS_AS_IT_IS_LOADED=1
stuck nf-check - "$loaded" nf check "$plugin"
stuck verify - "$loaded" verify --function "$plugin"
stuck nf-list - "$loaded" --nf "$plugin" nf list
stuck tenant - "$loaded" tenant --name x --manager none --nf "$plugin"
# Unasked, a check runs no code of a plugin: it would loop as it is loaded.
timeout 60 "$millrace" check making.yaml > said 2>&1
code=$?
[[ $code -eq 2 ]] || fail "a check without --plugins: the exit status is $code, not 2"
unasked="hint: plugins are not loaded, as their code would run: '--plugins' does"
grep -qF "$unasked" said || fail "a check without --plugins never said: $unasked"
unset PROBE_LOOPS_AS_IT_IS_LOADED

for name in "${!words[@]}"; do
    for ((tenth = 0; ; ++tenth)); do
        if grep -qF "${words[$name]}" "$name.said"; then break; fi
        if ((tenth >= 1200)) || ! kill -0 "${running[$name]}" 2> /dev/null; then
            cat "$name.said"
            fail "$name: it never said: ${words[$name]}"
        fi
        sleep 0.1
    done
    if [[ ${status[$name]} == - ]]; then
        kill -KILL "${running[$name]}"
        wait "${running[$name]}" 2> /dev/null
        continue
    fi
    wait "${running[$name]}"
    code=$?
    [[ $code -eq ${status[$name]} ]] || fail "$name: the exit status is $code, not ${status[$name]}"
    [[ $(grep -cF "${words[$name]}" "$name.said") -eq 1 ]] || fail "$name: it is said more than once"
done
echo "${#words[@]} commands tell of a function that does not come back"
