#!/usr/bin/env bash
# Taps that stand for ports have their MTU and link: what is too long is told, and routes go with the cable. Two ports
# lead to the server, one of them with long frames.
# usage: stand_ins.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
# shellcheck source=tests/live/linux_network.sh
. "$here/../linux_network.sh"

# A second cable to the server, of frames of 9000 bytes.
make_more() {
    ip -n $middle link add mr-far type veth peer name eth1 netns $server || return 1
    ip -n $middle link set mr-far mtu 9000 up && ip -n $server link set eth1 mtu 9000 up || return 1
    ip -n $server address add 198.51.100.10/24 dev eth1 || return 1
    ip -n $server route add local 203.0.113.0/24 dev lo
}
configuration() {
    sed "s/^output: .*/output: out/; s/\[lan, wan\]/[lan, wan, far]/; s/^chains:/  far: {af_packet: mr-far, linux: far0}\n&/" \
        "$here/../../../examples/linux-router.yaml"
}
# What the server forgets when its end of the cable goes down.
plug() {
    ip -n $server link set eth0 up && ip -n $server route replace default via 192.0.2.1 &&
        ip -n $server address replace 2001:db8:20::10/64 dev eth0 nodad &&
            ip -n $server route replace default via 2001:db8:20::1
}
unplug() { ip -n $server link set eth0 down; }

pings() { in_client ping -c 3 -i 0.1 -W 1 "$@"; }
says() { local text=$1; shift; "$@" 2>&1 | tee "$folder/last" | grep -q -- "$text"; }
link_of() { ip -n $middle -json link show "$1"; }
# has INTERFACE CONDITION: of the interface, `i`, as `ip` describes it.
has() { link_of "$1" | python3 -c 'import json, sys; i = json.load(sys.stdin)[0]; sys.exit(not eval(sys.argv[1]))' "$2"; }
has_mtu() { has "$1" "i['mtu'] == $2"; }
has_carrier() { has "$1" "'LOWER_UP' in i['flags']"; }
has_none() { has "$1" "'NO-CARRIER' in i['flags'] and 'UP' in i['flags']"; }
# within_ms MILLISECONDS COMMAND...
within_ms() {
    local end=$(($(date +%s%N) + $1 * 1000000)); shift
    until "$@" > /dev/null 2>&1; do (($(date +%s%N) < end)) || return 1; sleep 0.02; done
}
port_says() {
    "$millrace" show ports --json --socket "$folder/out/millrace.sock" |
        python3 -c 'import json, sys; p = {p["name"]: p for p in json.load(sys.stdin)["ports"]}; print(p); sys.exit(not eval(sys.argv[1]))' "$1"
}
cat_mac() { link_of "$1" | python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["address"])'; }
all_answer() {
    local last
    for last in {10..29}; do in_client ping -c 1 -W 0.5 203.0.113.$last > /dev/null ||
        { echo "no answer from $last"; return 1; }; done
}

start_router
expect "all taps are there" within 5 ip -n $middle address add 198.51.100.1/24 dev far0
ip -n $server route add default via 198.51.100.1 metric 2000
expect "the server is found" within 15 in_client ping -c 1 -W 0.5 192.0.2.10
expect "and its IPv6 address" within 5 in_client ping -c 1 -W 0.5 2001:db8:20::10

# --- MTU ---
expect "a tap begins with its port's MTU" has_mtu far0 9000
expect "and has room for such packets, both ways" within 5 ip netns exec $server ping -c 1 -W 1 \
    -M do -s 8972 198.51.100.1
ip -n $middle link set mr-wan mtu 1300
ip -n $server link set eth0 mtu 1300
expect "a lower MTU is the tap's, too" within_ms 1000 has_mtu wan0 1300
settle  # until devices have it
expect "the sender is told the right one" says "mtu *= *1300" in_client ping -c 3 -i 0.2 -W 1 -M do -s 1400 192.0.2.10
expect "with IPv6, too" says "mtu *= *1300" in_client ping -c 3 -i 0.2 -W 1 -M do -s 1400 2001:db8:20::10
in_client ip route flush cache
expect "what may be cut arrives in pieces" in_client ping -c 1 -W 1 -M dont -s 1400 192.0.2.10
expect "nothing was lost in silence" port_says \
    '"over-mtu" not in p["wan"]["drops"] and p["wan"]["details"]["mtu-changes"] == 1'
ip -n $middle link set mr-wan mtu 1500
ip -n $server link set eth0 mtu 1500
in_client ip route flush cache; in_client ip -6 route flush cache
expect "the tap gets back what it had" within_ms 1000 has_mtu wan0 1500
expect "and long packets pass" within 3 in_client ping -c 1 -W 0.3 -M do -s 1400 192.0.2.10
ip -n $middle link set wan0 mtu 1400
settle
expect "who gives the tap less keeps it so" has_mtu wan0 1400
ip -n $middle link set wan0 mtu 1600
expect "more than its port's goes back" within_ms 1000 has_mtu wan0 1500

# --- link ---
ip -n $middle route add 203.0.113.0/24 nexthop via 192.0.2.10 nexthop via 198.51.100.10
expect "two ways are shared" within 3 all_answer
unplug
expect "a port without a link has a tap without one" within_ms 3000 has_none wan0
expect "the other way takes all" within_ms 2000 all_answer
settle
expect "without the kernel" without_kernel all_answer
expect "the network that was there is told to be gone" within 4 says "From 10.0.10.1 .*Net Unreachable" in_client ping -c 1 -W 1 192.0.2.10
begin=$(date +%s%N)
plug
expect "with the link the tap has one again" within_ms 1000 has_carrier wan0
expect "and packets arrive" within_ms 2000 in_client ping -c 1 -W 0.1 192.0.2.10
took=$((($(date +%s%N) - begin) / 1000000))
expect "within a second, $took ms" test $took -lt 1000
expect "and those of IPv6" within 5 in_client ping -c 1 -W 0.5 2001:db8:20::10
settle
expect "without the kernel" within 20 without_kernel pings 192.0.2.10
ip -n $middle link set wan0 down
ip -n $middle link set wan0 up
expect "a tap that was down has its port's link again" within_ms 1000 has_carrier wan0
ip -n $middle route replace 203.0.113.0/24 nexthop via 192.0.2.10 nexthop via 198.51.100.10
ip -n $middle address replace 2001:db8:20::1/64 dev wan0 nodad

for _ in {1..100}; do unplug; plug; done
expect "after a hundred flaps there is a link" within_ms 3000 has_carrier wan0
expect "and packets arrive" within 3 in_client ping -c 1 -W 0.3 192.0.2.10
expect "by both ways" within 3 all_answer
for _ in {1..100}; do plug; unplug; done
expect "after a hundred more there is none" within_ms 3000 has_none wan0
expect "as its port has none" port_says 'p["wan"]["link"] == "down" and p["wan0"]["link"] == "down"'
expect "the changes are counted" port_says 'p["wan"]["details"]["link-changes"] >= 3'
expect "and packets go the other way" within 3 all_answer
plug
expect "it comes back from that" within_ms 2000 in_client ping -c 1 -W 0.1 192.0.2.10

# --- what `show ports` has of the interface ---
expect "a port has its interface's address and speed" port_says \
    'p["far"]["mac"] == "'"$(cat_mac mr-far)"'" and p["far"]["speed-mbps"] == 10000'
ip -n $middle link set mr-far address 02:00:00:00:99:01
expect "and its new address" within_ms 1000 port_says 'p["far"]["mac"] == "02:00:00:00:99:01"'
expect "the tap has it, too, as Linux sees nothing at the port" within_ms 1000 has far0 "i['address'] == '02:00:00:00:99:01'"
expect "the table has the speed" bash -c "'$millrace' show ports --socket '$folder/out/millrace.sock' | grep -q '^far .* up 10.0 Gb/s .* 9,000'"

# --- redirects ---
# The client learns nothing of a gateway in its own network: Linux sees the first packets to it, and would tell.
ip -n $client address add 10.0.10.20/24 dev eth0
ip -n $middle route add 203.0.113.77/32 via 10.0.10.20
# Tells the types of ICMP that the client's card sees for three seconds.
in_client python3 - > "$folder/heard" << 'PYTHON' &
import socket, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(("eth0", 0))
s.settimeout(0.2)
end = time.time() + 3
while time.time() < end:
    try: frame = s.recv(2000)
    except TimeoutError: continue
    if frame[12:14] == b"\x08\x00" and frame[23] == 1: print("type", frame[34])
PYTHON
listener=$!
settle
in_client ping -c 3 -i 0.3 -W 0.5 203.0.113.77 > /dev/null
wait $listener
expect "packets went to and fro" grep -q 'type 8' "$folder/heard"
refuse "no redirect came" grep 'type 5' "$folder/heard"

expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["router"]["in-flight"] == 0'
conclude
