#!/usr/bin/env bash
# A client and a server that real programs talk between, with `millrace run` as the only way from one to the other:
# three network namespaces, two pairs of virtual interfaces, firewall -> router on af_packet ports.
# usage: live.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2

# shellcheck source=tests/live/namespaces.sh
. "$(dirname "${BASH_SOURCE[0]}")/namespaces.sh"
need ip ping curl iperf3 python3

client=mr-$$-client middle=mr-$$-middle server=mr-$$-server
namespaces=("$client" "$middle" "$server")
in_client() { ip netns exec $client "$@"; }
in_server() { ip netns exec $server "$@"; }

make_network() {
    two_hosts $client $middle $server || return 1
    ip -n $client address add 10.0.10.10/24 dev eth0 && ip -n $client address add 10.0.10.66/24 dev eth0 || return 1
    ip -n $server address add 192.0.2.10/24 dev eth0 || return 1
    routed $client 10.0.10.1 02:00:00:00:00:01 && routed $server 192.0.2.1 02:00:00:00:00:02
}

# configuration RULE...: writes the chain with these firewall rules.
configuration() {
    {
        cat << 'YAML'
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
      - firewall:
          default: permit
          rules:
YAML
        printf '            - %s\n' "$@"
        cat << 'YAML'
      - router:
          routes:
            - {prefix: 10.0.10.0/24, via: client}
            - {prefix: 192.0.2.0/24, via: server}
          next-hops:
            client: {port: lan, mac: "02:00:00:00:10:10", src-mac: "02:00:00:00:00:01"}
            server: {port: wan, mac: "02:00:00:00:20:10", src-mac: "02:00:00:00:00:02"}
YAML
    } > "$folder/next.yaml"
    mv "$folder/next.yaml" "$folder/live.yaml"
}

start_servers() {
    local port  # a function in the background would be a shell of its own, whose end leaves the server running
    for port in 8080 8081; do
        mkdir "$folder/$port" && echo "the page of $port" > "$folder/$port/page.html"
        ip netns exec $server python3 -u -m http.server --directory "$folder/$port" $port > "$folder/$port.log" 2>&1 &
        processes+=($!)
    done
    ip netns exec $server iperf3 --server > "$folder/iperf3.log" 2>&1 &
    processes+=($!)
    within 10 in_server curl -sf http://192.0.2.10:8080/page.html &&
        within 10 in_server curl -sf http://192.0.2.10:8081/page.html
}

# page PORT FROM: fetches the page of a port from one of the client's addresses.
page() { in_client curl -sf --max-time 1 --interface "$2" "http://192.0.2.10:$1/page.html" | grep -q "the page of $1"; }

# transfer SECONDS FILE: a TCP stream to the server; its figures go to the file.
transfer() { in_client iperf3 --client 192.0.2.10 --time "$1" --interval 0.5 --json > "$2"; }

# figures FILE: what iperf3 measured; fails when any half second moved nothing.
figures() {
    python3 - "$1" << 'PYTHON'
import json, sys
result = json.load(open(sys.argv[1]))
if "error" in result: sys.exit("iperf3: " + result["error"])
end = result["end"]
# A last interval of some milliseconds says nothing.
idle = [i["sum"]["start"] for i in result["intervals"] if i["sum"]["bytes"] == 0 and i["sum"]["seconds"] > 0.3]
print(f"{end['sum_received']['bits_per_second'] / 1e6:.0f} Mb/s in {end['sum_received']['seconds']:.1f} s, "
      f"{end['sum_sent'].get('retransmits', 0)} retransmissions")
if idle or end["sum_received"]["bytes"] < 1_000_000: sys.exit(f"too little arrived; idle from second {idle}")
PYTHON
}


log_says() { grep -q -- "$1" "$folder/millrace.log"; }

make_network || { cat "$folder/last" 2> /dev/null; skip "this machine does not allow network namespaces with virtual interfaces"; }
start_servers || { failed "the servers start"; cat "$folder"/*.log; exit 1; }
refuse "without Millrace there is no way" in_client ping -c 1 -W 1 192.0.2.10

configuration "deny tcp from any to any port 8081 name closed-port" "deny ip from 10.0.10.66/32 to any name banned-host"
ip netns exec $middle "$millrace" run "$folder/live.yaml" --device "$device" --output "$folder/out" \
    --json "$folder/report.json" > "$folder/millrace.out" 2> "$folder/millrace.log" &
running=$!
processes+=($running)
within 15 in_client ping -c 1 -W 0.3 192.0.2.10 || { failed "Millrace comes up"; cat "$folder"/millrace.*; exit 1; }

expect "ping from client to server" in_client ping -c 5 -i 0.05 -W 1 192.0.2.10
expect "ping from server to client" in_server ping -c 5 -i 0.05 -W 1 10.0.10.10
expect "datagrams in fragments pass" in_client ping -c 3 -i 0.05 -W 1 -s 4000 192.0.2.10
expect "full-size frames pass both ways" in_client ping -c 3 -i 0.05 -W 1 -M do -s 1472 192.0.2.10
expect "a page arrives" page 8080 10.0.10.10
refuse "a denied port does not answer" page 8081 10.0.10.10
refuse "a denied host gets no page" page 8080 10.0.10.66
refuse "a denied host gets no answer to pings" in_client ping -c 2 -i 0.1 -W 0.5 -I 10.0.10.66 192.0.2.10
refuse "packets whose time is up get no answer" in_client ping -c 3 -i 0.05 -W 0.5 -t 1 192.0.2.10
refuse "the server never heard of the denied host" grep -q 10.0.10.66 "$folder/8080.log"
refuse "nor of the denied port's client" grep -q 10.0.10.10 "$folder/8081.log"

expect "iperf3 moves data for 2 s" transfer 2 "$folder/first.json"
expect "and never stands still" figures "$folder/first.json"
echo "        $(figures "$folder/first.json")"

transfer 4 "$folder/second.json" 2> /dev/null &
stream=$!
sleep 0.7
cp "$folder/live.yaml" "$folder/good.yaml"
echo "    speed: fast" >> "$folder/live.yaml"
kill -HUP $running
expect "a broken configuration is refused under load" within 5 log_says "nothing was changed"
configuration "deny tcp from any to any port 8080 name closed-port"
kill -HUP $running
expect "a changed rule is taken in under load" within 5 log_says "generation 2 is at work"
expect "what was closed is open" page 8081 10.0.10.10
refuse "what was open is closed" page 8080 10.0.10.10
expect "who was banned is welcome" in_client ping -c 2 -i 0.05 -W 1 -I 10.0.10.66 192.0.2.10
if kill -0 $stream 2> /dev/null; then passed "all that while iperf3 was running"
else failed "iperf3 ended too early"; fi
expect "iperf3 ends well" wait $stream
expect "and never stood still" figures "$folder/second.json"
echo "        $(figures "$folder/second.json")"

expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["in-flight"] == 0 and c["received-packets"] > 1000'
# Two lost SYNs or more, two pings.
expect "the firewall's drops stand under firewall.deny" report 'c["drops"]["firewall.deny"] >= 5'
expect "packets whose time was up stand under router.ttl-expired" report 'c["punts"]["router.ttl-expired"] == 3'
expect "nothing else was dropped" report \
    'set(c["drops"]) <= {"exit.no-punt-port", "firewall.deny", "router.multicast", "router.martian"}'
expect "long frames passed whole and checksums were finished" report 'all(r["ports"][i]["details"]["checksum-finished"] > 0 for i in (0, 1)) and r["ports"][0]["details"]["uncut-received"] > 10'
expect "the report is of the second generation" report 'r["generation"] == 2'
conclude
