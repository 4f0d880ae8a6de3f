#!/usr/bin/env bash
# Hosts inside that share an external address, a port that is forwarded to one of them, and a host outside: NAT and a
# router, between network namespaces, with `millrace run` as the only way.
# usage: nat.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2

# shellcheck source=tests/live/namespaces.sh
. "$(dirname "${BASH_SOURCE[0]}")/../namespaces.sh"
need ip curl python3 ping

inside=mr-$$-inside middle=mr-$$-middle outside=mr-$$-outside
namespaces=("$inside" "$middle" "$outside")

make_network() {
    two_hosts $inside $middle $outside || return 1
    ip -n $inside address add 10.0.0.10/24 dev eth0 && ip -n $inside address add 10.0.0.11/24 dev eth0 || return 1
    ip -n $outside address add 192.0.2.10/24 dev eth0 || return 1
    routed $inside 10.0.0.1 02:00:00:00:00:01 && routed $outside 192.0.2.1 02:00:00:00:00:02
}

configuration() {
    cat > "$folder/home.yaml" << YAML
version: 1
ports:
  lan: {af_packet: mr-lan}
  wan: {af_packet: mr-wan}
chains:
  home:
    input: [lan, wan]
    output: wan
    max-delay: 100us
    reassemble: true
    nfs:
      - nat:
          inside: 10.0.0.0/24
          pool: 198.51.100.1
          ports: 1024-9215
          forwards: [{protocol: tcp, address: 198.51.100.1, port: 80, to: 10.0.0.10, to-port: 8081}]
      - router:
          routes:
            - {prefix: 10.0.0.0/24, via: inside}
            - {prefix: 192.0.2.0/24, via: outside}
          next-hops:
            inside: {port: lan, mac: "02:00:00:00:10:10", src-mac: "02:00:00:00:00:01"}
            outside: {port: wan, mac: "02:00:00:00:20:10", src-mac: "02:00:00:00:00:02"}
YAML
}

in_inside() { ip netns exec $inside "$@"; }
in_outside() { ip netns exec $outside "$@"; }
start_servers() {
    head -c 8000000 /dev/urandom > "$folder/large"
    ip netns exec $outside python3 -u -m http.server --directory "$folder" \
        8080 > "$folder/http.log" 2>&1 & processes+=($!)
    ip netns exec $inside python3 -u -m http.server --directory "$folder" \
        8081 > "$folder/inside.log" 2>&1 & processes+=($!)
    # Tells who asks by which address it sees them.
    ip netns exec $outside python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("192.0.2.10", 7000))
while True:
    data, peer = s.recvfrom(4000)
    s.sendto(f"{peer[0]} {peer[1]} {len(data)}".encode(), peer)' & processes+=($!)
    within 30 in_outside curl -sf http://192.0.2.10:8080/home.yaml &&
        within 30 in_inside curl -sf http://10.0.0.10:8081/home.yaml
}
fetch() { in_inside curl -sf --max-time 20 "http://192.0.2.10:8080/$1"; }
large_arrives() { fetch large > "$folder/got" && cmp -s "$folder/got" "$folder/large"; }
sent_large_arrives() {
    in_outside curl -sf --max-time 20 http://198.51.100.1/large > "$folder/got" && cmp -s "$folder/got" "$folder/large"
}
many_connections() { local n; for ((n = 0; n < 40; ++n)); do fetch home.yaml > "$folder/got" || return 1; done; }
all_come_from_the_pool() {
    grep -q '^198.51.100.1 .*GET /large' "$folder/http.log" && ! grep -q '^10\.' "$folder/http.log"
}
# Endpoints of two addresses with one port ask a server who they are, then talk to each other by what it has said.
peers_meet() {
    in_inside python3 -c '
import socket
def endpoint(address):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(2)
    s.bind((address, 5000))
    s.sendto(b"who am I?", ("192.0.2.10", 7000))
    host, port, _ = s.recv(100).decode().split()
    assert host == "198.51.100.1", host
    return s, (host, int(port))
a, at_a = endpoint("10.0.0.10")
b, at_b = endpoint("10.0.0.11")
assert at_a != at_b
a.sendto(b"hello", at_b)
data, seen = b.recvfrom(100)
assert data == b"hello" and seen[0] == "198.51.100.1", (data, seen)
b.sendto(b"hello yourself", seen)
assert a.recvfrom(100) == (b"hello yourself", at_b)'
}
# It leaves in fragments, which Millrace puts together before it translates them.
fragments_pass() {
    in_inside python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(2)
s.sendto(bytes(3500), ("192.0.2.10", 7000))
assert s.recv(100).split()[2] == b"3500"'
}
flows_have_it() {
    "$millrace" show flows --socket "$folder/millrace.sock" --match 'tcp from 10.0.0.10 to any port 8080' \
        --limit 3 > "$folder/shown" &&
        cat "$folder/shown" && grep -q 'tcp *10.0.0.10 .*198.51.100.1 .*192.0.2.10 *8080' "$folder/shown"
}

make_network || skip "this machine does not allow network namespaces with virtual interfaces"
configuration
start_servers || { failed "the servers start"; cat "$folder"/*.log; exit 1; }
ip netns exec $middle "$millrace" run "$folder/home.yaml" --device "$device" \
    --socket "$folder/millrace.sock" --output "$folder/out" \
    --json "$folder/report.json" > "$folder/millrace.out" 2> "$folder/millrace.log" &
running=$!
processes+=($running)
within 15 fetch home.yaml || { failed "Millrace comes up"; cat "$folder"/millrace.*; exit 1; }

expect "a ping from inside is answered" in_inside ping -c 3 -i 0.2 -W 2 192.0.2.10
expect "a large page arrives whole" large_arrives
expect "forty connections one after the other" many_connections
expect "the server has seen the external address alone" all_come_from_the_pool
expect "an ICMP error comes back to who has sent what it is about" port_is_unreachable $inside 192.0.2.10 9
expect "who is outside reaches the forwarded port" sent_large_arrives
expect "who is inside, too, by the external address" in_inside curl -sf --max-time 5 http://198.51.100.1/home.yaml
expect "two inside meet by their external ports" peers_meet
expect "a datagram in fragments passes" fragments_pass
refuse "no other port leads inside" in_outside curl -sf --max-time 1 http://198.51.100.1:81/home.yaml
refuse "nor does a ping" in_outside ping -c 1 -W 1 198.51.100.1
expect "'millrace show flows' has the mappings" flows_have_it
expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["in-flight"] == 0 and c["received-packets"] > 1000'
expect "drops have the reasons that they should" report \
    'c["drops"].get("nat.no-mapping", 0) >= 2 and not {"nat.exhausted", "nat.fragment"} & set(c["drops"])'
conclude
