#!/usr/bin/env bash
# A client and a server in their default settings, offloads and all, with firewall -> router on af_xdp ports between
# them; and what is left of these ports when the program is killed.
# usage: af_xdp.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2

# shellcheck source=tests/live/namespaces.sh
. "$(dirname "${BASH_SOURCE[0]}")/../namespaces.sh"
need ip ping iperf3 python3
python3 -c 'import socket; socket.socket(44, socket.SOCK_RAW)' 2> /dev/null || skip "this kernel has no AF_XDP"

client=mr-$$-client middle=mr-$$-middle server=mr-$$-server
namespaces=("$client" "$middle" "$server")
in_client() { ip netns exec $client "$@"; }
in_server() { ip netns exec $server "$@"; }

make_network() {
    routed_hosts $client 10.0.10.10/24 $middle $server 192.0.2.10/24
}

cat > "$folder/live.yaml" << 'YAML'
version: 1
ports:
  lan: {af_xdp: mr-lan}
  wan: {af_xdp: mr-wan}
chains:
  border:
    input: [lan, wan]
    max-delay: 100us
    nfs:
      - firewall: {default: permit, rules: ["deny tcp from any to any port 25", "deny udp from any to any port 25"]}
      - router:
          routes:
            - {prefix: 10.0.10.0/24, via: client}
            - {prefix: 192.0.2.0/24, via: server}
          next-hops:
            client: {port: lan, mac: "02:00:00:00:10:10", src-mac: "02:00:00:00:00:01"}
            server: {port: wan, mac: "02:00:00:00:20:10", src-mac: "02:00:00:00:00:02"}
YAML

start() {
    ip netns exec $middle "$millrace" run "$folder/live.yaml" --device "$device" --output "$folder/out" \
        --json "$folder/report.json" > "$folder/millrace.out" 2> "$folder/millrace.log" &
    running=$!
    processes+=($running)
    within 15 in_client ping -c 1 -W 0.3 192.0.2.10 && return
    grep -q "CAP_BPF" "$folder/millrace.log" && skip "XDP programs are not allowed here"
    failed "Millrace comes up"; cat "$folder"/millrace.*; exit 1
}
second() { ip netns exec $middle "$millrace" run "$folder/live.yaml" \
    --output "$folder/second" > "$folder/second.log" 2>&1; }
# The interfaces, but for counters and what changes by itself.
interfaces() { ip -n $middle -details link show type veth; }
unchanged() { interfaces | diff "$folder/before" -; }
# stream SECONDS OPTION...: TCP to the server; figures go to $folder/stream.json.
stream() { in_client iperf3 --client 192.0.2.10 --json --time "$@" > "$folder/stream.json"; }
figure() { python3 -c "import json, sys; e = json.load(open(sys.argv[1]))['end']; print($1)" "$folder/stream.json"; }
# big_pings: lengths from the first that is cut into fragments to the longest.
big_pings() {
    local length
    for length in 1472 1473 2952 2953 8191 16384 65507; do
        in_client ping -c 2 -i 0.02 -W 2 -s $length 192.0.2.10 | grep -q ' 2 received' ||
            { echo "not with $length"; return 1; }
    done
}

make_network || skip "this machine does not allow network namespaces with virtual interfaces"
ip netns exec $server iperf3 --server > "$folder/iperf3.log" 2>&1 &
processes+=($!)
interfaces > "$folder/before"

start
expect "an XDP program is at the interfaces" bash -c "ip -n $middle link show mr-lan | grep -q xdp && ip -n $middle link show mr-wan | grep -q xdp"
refuse "no second one gets them" second
expect "and says why" grep "live.yaml:3:.*another XDP program is at the interface 'mr-lan'" "$folder/second.log"
expect "fragments pass, up to the longest ping" big_pings
expect "pings from the server pass" in_server ping -c 5 -i 0.05 -W 1 10.0.10.10
expect "TCP passes with the offloads as they are" stream 2
expect "and not at a crawl" test "$(figure "int(e['sum_received']['bits_per_second'] / 1e6)")" -gt 30
text="f\"{e['sum_received']['bits_per_second'] / 1e6:.0f} Mb/s, {e['sum_sent']['retransmits']} retransmissions\""
echo "        $(figure "$text")"

kill -KILL $running
wait $running 2> /dev/null
expect "killed, it leaves the interfaces as they were" within 2 unchanged
start
expect "and another takes them again" in_client ping -c 3 -i 0.05 -W 1 192.0.2.10
expect "TCP passes the other way" stream 1 --reverse
expect "and not at a crawl, either" test "$(figure "int(e['sum_received']['bits_per_second'] / 1e6)")" -gt 30
expect "SIGTERM ends the run in order" ends_in_order $running
expect "which leaves the interfaces as they were, too" within 2 unchanged
expect "every packet is accounted for" report 'r["conserved"] and c["in-flight"] == 0 and c["received-packets"] > 1000'
expect "what the hosts left to a card was finished" report \
    'all(p["kind"] == "af_xdp" and p["details"]["checksum-finished"] > 0 for p in r["ports"])'
conclude
