#!/usr/bin/env bash
# Hosts that have IPv6 alone, and one outside that has IPv4 alone: NAT64 and a router between network namespaces, with
# `millrace run` of the example as the only way.
# usage: nat64.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
need ip curl python3 ping

inside=mr-$$-inside middle=mr-$$-middle outside=mr-$$-outside
namespaces=("$inside" "$middle" "$outside")
server=64:ff9b::192.0.2.10

make_network() {
    two_hosts $inside $middle $outside || return 1
    ip netns exec $inside sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.eth0.disable_ipv6=0 || return 1
    local last
    for last in 10 11; do ip -n $inside address add 2001:db8:10::$last/64 dev eth0 nodad || return 1; done
    ip -n $outside address add 192.0.2.10/24 dev eth0 || return 1
    routed $inside 2001:db8:10::1 02:00:00:00:00:01 && routed $outside 192.0.2.1 02:00:00:00:00:02
}
configuration() { sed "s/^output: .*/output: out/; /^device:/d" "$here/../../../examples/nat64.yaml"; }

in_inside() { ip netns exec $inside "$@"; }
in_outside() { ip netns exec $outside "$@"; }
start_servers() {
    head -c 8000000 /dev/urandom > "$folder/large"
    ip netns exec $outside python3 -u -m http.server --directory "$folder" \
        8080 > "$folder/http.log" 2>&1 & processes+=($!)
    ip netns exec $inside python3 -u -m http.server --bind 2001:db8:10::10 --directory "$folder" \
        8081 > "$folder/inside.log" 2>&1 &
    processes+=($!)
    # Tells who asks by which address it sees them, and sends back what it got.
    ip netns exec $outside python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, 10, 1)  # IP_MTU_DISCOVER, IP_PMTUDISC_WANT
s.bind(("192.0.2.10", 7000))
while True:
    data, peer = s.recvfrom(70000)
    s.sendto(f"{peer[0]} {peer[1]} ".encode() + data, peer)' & processes+=($!)
    within 30 in_outside curl -sf http://192.0.2.10:8080/nat64.yaml &&
        within 30 in_inside curl -sf "http://[2001:db8:10::10]:8081/nat64.yaml"
}
fetch() { in_inside curl -sf --max-time 20 "http://[$server]:8080/$1"; }
large_arrives() { fetch large > "$folder/got" && cmp -s "$folder/got" "$folder/large"; }
sent_large_arrives() {
    in_outside curl -sf --max-time 20 http://198.51.100.1/large > "$folder/got" && cmp -s "$folder/got" "$folder/large"
}
many_connections() { local n; for ((n = 0; n < 40; ++n)); do fetch nat64.yaml > "$folder/got" || return 1; done; }
all_come_from_the_pool() { grep -q '^198.51.100.1 .*GET /large' "$folder/http.log"; }
# echoes BYTES...: datagrams of so many come back as they went; long ones in fragments, of IPv6 here and of IPv4 there.
echoes() {
    in_inside python3 - "$@" << 'PYTHON'
import os, socket, sys
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.settimeout(2)
for size in map(int, sys.argv[1:]):
    data = os.urandom(size)
    s.sendto(data, ("64:ff9b::192.0.2.10", 7000))
    host, port, back = s.recv(70000).split(b" ", 2)
    assert host == b"198.51.100.1" and back == data, (size, host, len(back))
PYTHON
}
# floods COUNT: so many packets, each too long for inside; the sender does not listen.
floods() {
    in_outside python3 - "$1" << 'PYTHON'
import socket, sys
IP_MTU_DISCOVER, PROBE = 10, 3
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, PROBE)
for _ in range(int(sys.argv[1])): s.sendto(bytes(1472), ("198.51.100.1", 2000))
PYTHON
}
# Endpoints of two addresses with one port ask a server who they are, then talk to each other by what it has said.
peers_meet() {
    in_inside python3 << 'PYTHON'
import socket
def endpoint(address):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.settimeout(2)
    s.bind((address, 5000))
    s.sendto(b"", ("64:ff9b::192.0.2.10", 7000))
    host, port, _ = s.recv(100).split(b" ")
    return s, ("64:ff9b::" + host.decode(), int(port))
def same(seen, wanted):
    pack = lambda address: socket.inet_pton(socket.AF_INET6, address)
    return pack(seen[0]) == pack(wanted[0]) and seen[1] == wanted[1]
a, at_a = endpoint("2001:db8:10::10")
b, at_b = endpoint("2001:db8:10::11")
assert at_a != at_b
a.sendto(b"hello", at_b)
data, seen = b.recvfrom(100)
assert data == b"hello" and seen[0].startswith("64:ff9b::"), (data, seen)
b.sendto(b"hello yourself", seen)
data, seen = a.recvfrom(100)
assert data == b"hello yourself" and same(seen, at_b), (data, seen)
PYTHON
}
flows_have_it() {
    "$millrace" show flows --socket "$folder/millrace.sock" --match 'tcp from 2001:db8:10::/64 to 64:ff9b::/96 port 8080' \
        --limit 3 > "$folder/shown" && cat "$folder/shown" &&
        grep -q 'tcp *2001:db8:10::1.*198.51.100.1 .*192.0.2.10 *8080' "$folder/shown"
}
make_network || skip "this machine does not allow network namespaces with virtual interfaces"
configuration > "$folder/nat64.yaml"
start_servers || { failed "the servers start"; cat "$folder"/*.log; exit 1; }
ip netns exec $middle "$millrace" run "$folder/nat64.yaml" --device "$device" \
    --socket "$folder/millrace.sock" --output "$folder/out" \
    --json "$folder/report.json" > "$folder/millrace.out" 2> "$folder/millrace.log" &
running=$!
processes+=($running)
within 15 fetch nat64.yaml || { failed "Millrace comes up"; cat "$folder"/millrace.*; exit 1; }

expect "a ping from inside is answered" in_inside ping -6 -c 3 -i 0.2 -W 2 $server
expect "a large ping, too, in fragments of both families" in_inside ping -6 -c 2 -i 0.2 -W 2 -s 4000 $server
expect "a large page arrives whole" large_arrives
expect "forty connections one after the other" many_connections
expect "the server has seen the external address alone" all_come_from_the_pool
# What comes back is longer by who has sent it.
expect "datagrams of any length come back" echoes 0 1 31 32 33 1231 1232 1233 1400
expect "those in fragments, too" echoes 1500 3500 9000 60000
refuse "an answer that does not fit inside is lost" echoes 1450
expect "but the server is told so, and sends the next in fragments" within 5 echoes 1450
expect "an ICMP error comes back to who has sent what it is about" port_is_unreachable $inside $server 9
expect "who is outside reaches the forwarded port" sent_large_arrives
expect "two inside meet by their external ports" peers_meet
refuse "no other port leads inside" in_outside curl -sf --max-time 1 http://198.51.100.1:81/nat64.yaml
refuse "nor does a ping" in_outside ping -c 1 -W 1 198.51.100.1
expect "who floods from outside does so" floods 200
expect "'millrace show flows' has the mappings" flows_have_it
expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["in-flight"] == 0 and c["received-packets"] > 1000'
expect "drops have the reasons that they should" report 'c["drops"].get("nat64.no-mapping", 0) >= 2 and c["nfs"][0]["outcomes"]["too-big-answered"]["packets"] >= 200 and r["chains"][1]["drops"]["policer.over"] >= 150 and not {"nat64.exhausted", "nat64.fragment", "nat64.too-big", "nat64.no-room"} & set(c["drops"])'
conclude
