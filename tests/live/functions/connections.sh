#!/usr/bin/env bash
# Who is inside opens connections to a server outside, and nobody the other way: connection tracking, a firewall with
# rules for states and a router, between network namespaces, with `millrace run` as the only way.
# usage: connections.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2

# shellcheck source=tests/live/namespaces.sh
. "$(dirname "${BASH_SOURCE[0]}")/../namespaces.sh"
need ip curl python3 ping iperf3

inside=mr-$$-inside middle=mr-$$-middle outside=mr-$$-outside
namespaces=("$inside" "$middle" "$outside")

make_network() {
    routed_hosts $inside 10.0.0.10/24 $middle $outside 192.0.2.10/24
}

configuration() {
    cat > "$folder/border.yaml" << YAML
version: 1
ports:
  lan: {af_packet: mr-lan}
  wan: {af_packet: mr-wan}
chains:
  border:
    input: [lan, wan]
    output: wan
    max-delay: 100us
    nfs:
      - conntrack: {max-flows: 4k}
      - firewall:
          default: deny
          rules:
            - permit ip state established,related
            - permit ip from 10.0.0.0/24 state new
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
    ip netns exec $outside iperf3 --server > "$folder/iperf3.log" 2>&1 & processes+=($!)
    within 30 in_outside curl -sf http://192.0.2.10:8080/border.yaml &&
        within 30 in_inside curl -sf http://10.0.0.10:8081/border.yaml
}
fetch() { in_inside curl -sf --max-time 20 "http://192.0.2.10:8080/$1"; }
large_arrives() { fetch large > "$folder/got" && cmp -s "$folder/got" "$folder/large"; }
many_connections() { local n; for ((n = 0; n < 40; ++n)); do fetch border.yaml > "$folder/got" || return 1; done; }
# stream OPTION...: more than 10 Mb/s.
stream() {
    in_inside iperf3 --client 192.0.2.10 --time 1 --json "$@" > "$folder/stream.json" &&
        python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["end"]["sum_received"]["bits_per_second"] < 1e7)' "$folder/stream.json"
}
# Datagrams both ways, once who is inside has begun.
datagrams_come_back() {
    ip netns exec $outside python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("192.0.2.10", 7000))
while True:
    data, peer = s.recvfrom(100)
    s.sendto(data[::-1], peer)' & processes+=($!)
    within 20 in_inside python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(1)
s.sendto(b"there", ("192.0.2.10", 7000))
assert s.recv(100) == b"ereht"'
}
flows() { "$millrace" show flows --socket "$folder/millrace.sock" "$@"; }
flows_have_it() {
    in_inside ping -c 1 -W 2 192.0.2.10 > "$folder/shown" &&
        flows --match 'tcp from 10.0.0.10 to any port 8080' --by packets --limit 5 > "$folder/shown" &&
            cat "$folder/shown" &&
        grep -q 'tcp *10.0.0.10 .*192.0.2.10 *8080' "$folder/shown" &&
        flows --match 'icmp' --json | python3 -c '
import json, sys
rows = json.load(sys.stdin)["flows"][0]["rows"]
assert rows and all(row["protocol"] == "icmp" and row["source"] == "10.0.0.10" for row in rows if row["state"] == "established"), rows'
}

make_network || skip "this machine does not allow network namespaces with virtual interfaces"
configuration
start_servers || { failed "the servers start"; cat "$folder"/*.log; exit 1; }
run_millrace() {
    ip netns exec $middle "$millrace" run "$folder/border.yaml" --device "$device" \
        --socket "$folder/millrace.sock" --output "$folder/out" \
        --json "$folder/report.json" > "$folder/millrace.out" 2> "$folder/millrace.log" &
    running=$!
    processes+=($running)
}
# A stream that began before Millrace was started has megabytes in the last of its seconds: nobody has seen by how much
# its windows are scaled.
stream_goes_on() {
    wait "$streaming" && python3 -c '
import json, sys
intervals = json.load(open(sys.argv[1]))["intervals"]
sys.exit(intervals[-1]["sum"]["bytes"] < 1e6)' "$folder/long.json"
}

run_millrace
within 15 fetch border.yaml || { failed "Millrace comes up"; cat "$folder"/millrace.*; exit 1; }

expect "who is inside is answered" in_inside ping -c 3 -i 0.2 -W 2 192.0.2.10
expect "a large page arrives whole" large_arrives
expect "forty connections one after the other" many_connections
expect "a stream leaves" stream
expect "a stream comes, of a connection that began inside" stream --reverse
expect "an answer by UDP comes back" datagrams_come_back
expect "an error about a connection of who is inside comes back" port_is_unreachable $inside 192.0.2.10 9
refuse "nobody outside gets a connection" in_outside curl -sf --max-time 2 http://10.0.0.10:8081/border.yaml
refuse "nor an answer to a ping" in_outside ping -c 2 -i 0.2 -W 1 10.0.0.10
expect "'millrace show flows' has the connections" flows_have_it
ip netns exec $inside iperf3 --client 192.0.2.10 --time 9 --json > "$folder/long.json" &
streaming=$!
processes+=($streaming)
sleep 1.5
expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["in-flight"] == 0 and c["received-packets"] > 1000'
expect "drops are those of the firewall" report \
    'c["drops"].get("firewall.deny", 0) >= 3 and c["drops"].get("conntrack.invalid", 0) < c["received-packets"] / 1000'
run_millrace
expect "a stream goes on that began before Millrace was started" stream_goes_on
expect "that run ends in order, too" ends_in_order $running
expect "and none of its segments is invalid" report \
    'r["conserved"] and c["received-packets"] > 1000 and c["drops"].get("conntrack.invalid", 0) == 0'
conclude
