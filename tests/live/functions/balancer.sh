#!/usr/bin/env bash
# Clients of a service that two web servers share, between network namespaces, with `millrace run` as the only way: the
# load balancer and a router on af_packet ports.
# usage: balancer.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2

# shellcheck source=tests/live/namespaces.sh
. "$(dirname "${BASH_SOURCE[0]}")/../namespaces.sh"
need ip curl python3

client=mr-$$-client middle=mr-$$-middle server=mr-$$-server
namespaces=("$client" "$middle" "$server")

make_network() {
    two_hosts $client $middle $server || return 1
    ip -n $client address add 198.51.100.10/24 dev eth0 || return 1
    ip -n $server address add 10.0.0.11/24 dev eth0 && ip -n $server address add 10.0.0.12/24 dev eth0 || return 1
    routed $client 198.51.100.1 02:00:00:00:00:01 && routed $server 10.0.0.1 02:00:00:00:00:02
}

# configuration WEIGHT: the second back end has this weight.
configuration() {
    cat > "$folder/next.yaml" << YAML
version: 1
ports:
  lan: {af_packet: mr-lan}
  wan: {af_packet: mr-wan}
chains:
  site:
    input: [lan, wan]
    output: wan
    max-delay: 100us
    nfs:
      - balancer:
          services:
            - address: 192.0.2.10
              protocol: tcp
              port: 80
              back-ends: [{address: 10.0.0.11, port: 8091}, {address: 10.0.0.12, port: 8092, weight: $1}]
            - {address: 192.0.2.10, protocol: udp, port: 53, back-ends: [{address: 10.0.0.11, port: 5353}]}
      - router:
          routes:
            - {prefix: 198.51.100.0/24, via: client}
            - {prefix: 10.0.0.0/24, via: server}
          next-hops:
            client: {port: lan, mac: "02:00:00:00:10:10", src-mac: "02:00:00:00:00:01"}
            server: {port: wan, mac: "02:00:00:00:20:10", src-mac: "02:00:00:00:00:02"}
YAML
    mv "$folder/next.yaml" "$folder/site.yaml"
}

start_servers() {
    local number  # each on a port of its own, as one that is bound to an address looks for that address's name
    for number in 11 12; do
        mkdir "$folder/$number" && echo "server $number" > "$folder/$number/name"
        head -c 8000000 /dev/urandom > "$folder/$number/large"
        ip netns exec $server python3 -u -m http.server --directory "$folder/$number" $((8080 + number)) > "$folder/$number.log" 2>&1 &
        processes+=($!)
    done
    within 10 ip netns exec $server curl -sf http://10.0.0.11:8091/name &&
        within 10 ip netns exec $server curl -sf http://10.0.0.12:8092/name
}

in_client() { ip netns exec $client "$@"; }
fetch() { in_client curl -sf --max-time 5 "http://192.0.2.10/$1"; }
# names COUNT: who answers so many connections.
names() { local n; for ((n = 0; n < $1; ++n)); do fetch name || return 1; done | sort | uniq -c; }
both_answer() {
    names 60 > "$folder/names" && cat "$folder/names" &&
        awk '/server/ { ++servers; if ($1 < 12) few = 1 } END { exit !(servers == 2 && !few) }' "$folder/names"
}
only_first_answers() { names 20 > "$folder/names" && cat "$folder/names" &&
    grep -q '^ *20 server 11$' "$folder/names"; }
show_has_both() {
    "$millrace" show back-ends --socket "$folder/millrace.sock" > "$folder/shown" && cat "$folder/shown" &&
        grep -q '10.0.0.11:8091' "$folder/shown" && grep -q '10.0.0.12:8092' "$folder/shown"
}
large_arrives() { fetch large > "$folder/got" && { cmp -s "$folder/got" "$folder/11/large" ||
    cmp -s "$folder/got" "$folder/12/large"; }; }
log_says() { grep -q -- "$1" "$folder/millrace.log"; }

make_network || skip "this machine does not allow network namespaces with virtual interfaces"
start_servers || { failed "the servers start"; cat "$folder"/*.log; exit 1; }
configuration 1
ip netns exec $middle "$millrace" run "$folder/site.yaml" --device "$device" --socket "$folder/millrace.sock" --output "$folder/out" \
    --json "$folder/report.json" > "$folder/millrace.out" 2> "$folder/millrace.log" &
running=$!
processes+=($running)
within 15 fetch name || { failed "Millrace comes up"; cat "$folder"/millrace.*; exit 1; }

expect "both servers answer for the service" both_answer
expect "'millrace show' has both back ends" show_has_both
expect "a large page arrives whole" large_arrives
expect "the servers see the client's address" grep -q '^198.51.100.10 .*GET /name' "$folder/12.log"
expect "an ICMP error of a back end comes from the service" port_is_unreachable $client 192.0.2.10 53
refuse "a port that is no service's does not answer" in_client curl -sf --max-time 1 http://192.0.2.10:81/name
configuration 0
kill -HUP $running
expect "a back end is taken out under way" within 5 log_says "generation 2 is at work"
expect "and gets no connection any more" only_first_answers
expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["in-flight"] == 0 and c["received-packets"] > 1000'
expect "drops are those of the port that is no service's" report 'set(c["drops"]) <= {"balancer.no-service", "exit.no-punt-port", "router.multicast", "router.martian"} and c["drops"]["balancer.no-service"] >= 1'
conclude
