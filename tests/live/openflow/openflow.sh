#!/usr/bin/env bash
# Two hosts that reach each other through Millrace's switch because a controller, os-ken with a learning switch, tells
# it how: three network namespaces, two pairs of virtual interfaces, af_packet ports.
# usage: openflow.sh MILLRACE DEVICE PYTHON
set -u
millrace=$1 device=$2 python=$3
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
need ip ping iperf3
"$python" -c "import os_ken" 2> /dev/null || skip "there is no os-ken for $python; scripts/setup installs it"

one=mr-$$-one middle=mr-$$-middle two=mr-$$-two
namespaces=("$one" "$middle" "$two")
in_one() { ip netns exec $one "$@"; }
in_two() { ip netns exec $two "$@"; }

make_network() {
    local name
    for name in $one $middle $two; do
        ip netns add $name || return 1
        ip netns exec $name sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
            net.ipv6.conf.default.disable_ipv6=1 2> /dev/null
        ip -n $name link set lo up
    done
    ip -n $middle link add mr-one type veth peer name eth0 netns $one || return 1
    ip -n $middle link add mr-two type veth peer name eth0 netns $two || return 1
    ip -n $one address add 192.0.2.1/24 dev eth0 && ip -n $two address add 192.0.2.2/24 dev eth0
    for name in mr-one mr-two; do ip -n $middle link set $name up || return 1; done
    ip -n $one link set eth0 up && ip -n $two link set eth0 up
}

results() { grep -q -- "$1" "$folder/results"; }
# report CONDITION: holds for the closing table (r), its only chain (c) and its switch (s).
report() {
    "$python" - "$folder/report.json" "$1" << 'PYTHON'
import json, sys
r = json.load(open(sys.argv[1]))
c = r["chains"][0]
s = c["nfs"][0]
if not eval(sys.argv[2]): sys.exit(json.dumps(r, indent=1))
PYTHON
}

make_network || skip "this machine does not allow network namespaces with virtual interfaces"
port=$((20000 + $$ % 20000))
cat > "$folder/switch.yaml" << YAML
version: 1
ports:
  one: {af_packet: mr-one}
  two: {af_packet: mr-two}
chains:
  bridge:
    input: [one, two]
    max-delay: 100us
    nfs:
      - switch: {controller: ["tcp:127.0.0.1:$port", "ptcp:$((port + 1))"], datapath-id: 0x2a, dump: flows.txt}
YAML
# Millrace comes first: it tries until a controller is there.
ip netns exec $middle "$millrace" run "$folder/switch.yaml" --device "$device" --output "$folder/out" \
    --json "$folder/report.json" > "$folder/millrace.out" 2> "$folder/millrace.log" &
running=$!
processes+=($running)
sleep 1
refuse "without a controller nobody reaches anybody" in_one ping -c 1 -W 1 192.0.2.2
touch "$folder/results"
ip netns exec $middle "$python" "$here/learning_switch.py" "$port" "$folder/results" > "$folder/controller.log" 2>&1 &
controller=$!
processes+=($controller)

expect "the controller asks all it wants to know" within 40 results "^ok all checks"
expect "two hosts find each other" within 10 in_one ping -c 1 -W 1 192.0.2.2
expect "and know each other from then on" in_one ping -c 5 -i 0.1 -W 1 192.0.2.2
expect "both ways" in_two ping -c 5 -i 0.1 -W 1 192.0.2.1
ip netns exec $two iperf3 --server --one-off > "$folder/iperf3.log" 2>&1 &
processes+=($!)
sleep 0.5
expect "iperf3 moves data" in_one iperf3 --client 192.0.2.2 --time 2
grep -E "receiver" "$folder/last" | sed 's/^/        /'
expect "the controller sees what the flows counted" within 10 results "^ok the learned flows count"
expect "and what the ports counted" within 10 results "^ok the ports count"
expect "the first packet came to the controller" results "^ok packet-in"
expect "flows come and go one by one, each at work when its barrier is answered" \
    ip netns exec $middle "$python" "$here/barriers.py" $((port + 1)) 2000
cat "$folder/last"
ip -n $middle link set mr-two down
expect "the controller is told of a link that goes down" within 10 results "^ok two is down"
ip -n $middle link set mr-two up
expect "and of one that comes up" within 10 results "^ok two is up"
expect "which carries packets again" within 10 in_one ping -c 1 -W 1 192.0.2.2
kill -TERM $controller
expect "what was learned stays without the controller" in_one ping -c 3 -i 0.1 -W 1 192.0.2.2
while read -r line; do
    case $line in ok*) passed "controller: ${line#ok }" ;; *) failed "controller: $line" ;; esac
done < <(sort -u "$folder/results")

expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["in-flight"] == 0 and c["received-packets"] > 100'
expect "what the controller sent is counted" report \
    'c["injected"] >= 2 and s["statistics"]["packet-outs"] == c["injected"] and s["statistics"]["flows"] >= 3'
expect "what went to it is counted" report 'c["punts"]["switch.controller"] == s["statistics"]["packet-ins"] + s["statistics"]["lost-packet-ins"] and s["statistics"]["packet-ins"] >= 2'
expect "its flows are listed" grep -q "cookie=0x1ea4.*eth_dst=.*actions=output:" "$folder/out/flows.txt"
if ((failures > 0)); then
    echo "--- millrace said:"
    cat "$folder"/millrace.*
    echo "--- the controller said:"
    tail -n 40 "$folder/controller.log"
fi
echo "$device: $failures failures, $SECONDS s"
((failures == 0))
