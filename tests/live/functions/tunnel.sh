#!/usr/bin/env bash
# Tunnels whose other end is Linux' own: a host with a VXLAN interface, as the system makes it, reaches another host
# through Millrace, which takes its packets out, routes them and puts the answers in; and two wires are joined by
# frames.
# usage: tunnel.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
need ip ping iperf3 python3

client=mr-$$-client middle=mr-$$-middle server=mr-$$-server
namespaces=("$client" "$middle" "$server")
in_client() { ip netns exec $client "$@"; }
in_server() { ip netns exec $server "$@"; }

# The client's outer address is 192.0.2.10, Millrace's end 192.0.2.1; inside the client is 10.9.0.10, or 10.8.0.10 where
# frames are carried. The server knows nothing of tunnels.
make_network() {
    two_hosts $client $middle $server || return 1
    ip -n $client address add 192.0.2.10/24 dev eth0
    ip -n $client neigh replace 192.0.2.1 lladdr 02:00:00:00:10:01 dev eth0 nud permanent
    ip -n $client link add routed type vxlan id 100 remote 192.0.2.1 local 192.0.2.10 dstport 4789 dev eth0 || return 1
    ip -n $client link set routed address 02:00:00:00:09:10 up
    ip -n $client address add 10.9.0.10/24 dev routed
    ip -n $client neigh replace 10.9.0.1 lladdr 02:00:00:00:09:01 dev routed nud permanent
    ip -n $client route add 203.0.113.0/24 via 10.9.0.1
    ip -n $client link add joined type vxlan id 200 remote 192.0.2.1 local 192.0.2.10 dstport 4789 dev eth0 || return 1
    ip -n $client link set joined up
    ip -n $client address add 10.8.0.10/24 dev joined
    ip -n $server address add 203.0.113.10/24 dev eth0
    routed $server 203.0.113.1 02:00:00:00:20:01
    # A port of its own for frames: an untagged wire to the server.
    ip -n $middle link add mr-wire type veth peer name wire netns $server || return 1
    ip -n $middle link set mr-wire up && ip -n $server link set wire up
    ip -n $server address add 10.8.0.20/24 dev wire
}
configuration() {
    cat << YAML
version: 1
output: out
ports:
  lan: {af_packet: mr-lan}
  wan: {af_packet: mr-wan}
  wire: {af_packet: mr-wire}
chains:
  all:
    input: [lan, wan, wire]
    output: lan
    nfs:
      - tunnel:
          local: 192.0.2.1
          tunnels:
            hosts: {kind: vxlan, remote: 192.0.2.10, vni: 100, to: 10.9.0.0/24,
                    macs: {dst: "02:00:00:00:09:10", src: "02:00:00:00:09:01"}}
            wires: {kind: vxlan, remote: 192.0.2.10, vni: 200, port: wire}
        on: {joined: output}
      - router:
          routes: [{prefix: 192.0.2.0/24, via: client}, {prefix: 203.0.113.0/24, via: server}]
          next-hops:
            client: {port: lan, mac: "02:00:00:00:10:10", src-mac: "02:00:00:00:10:01"}
            server: {port: wan, mac: "02:00:00:00:20:10", src-mac: "02:00:00:00:20:01"}
        on: {not-ip: drop, ttl-expired: drop, too-big: drop}
YAML
}
# stream ADDRESS: TCP both ways, with the offloads that the system sets; megabits a second, of the slower way.
stream() {
    local way slowest=1000000 rate
    for way in "" --reverse; do
        in_client iperf3 --client "$1" --time 1 --json $way > "$folder/iperf.json" ||
            { cat "$folder/iperf.json"; return 1; }
        rate=$(python3 -c "import json, sys; print(int(json.load(open(sys.argv[1]))['end']['sum_received']['bits_per_second'] / 1e6))" "$folder/iperf.json")
        ((rate < slowest)) && slowest=$rate
    done
    echo "$slowest Mb/s"
    ((slowest > 20))
}
# pings ADDRESS BYTES...: one of each length.
pings() {
    local address=$1 bytes; shift
    for bytes in "$@"; do
        in_client ping -c 1 -W 1 -M do -s "$bytes" "$address" > /dev/null ||
            in_client ping -c 1 -W 1 -M do -s "$bytes" "$address" > /dev/null ||
            { echo "not with $bytes"; return 1; }
    done
}

make_network > "$folder/last" 2>&1 || { cat "$folder/last"; skip "this machine has no network namespaces with VXLAN"; }
configuration > "$folder/tunnel.yaml"
ip netns exec $middle "$millrace" run "$folder/tunnel.yaml" --device "$device" --output "$folder/out" \
    --json "$folder/report.json" \
    > "$folder/millrace.out" 2> "$folder/millrace.log" &
running=$!
processes+=($running)
ip netns exec $server iperf3 --server > "$folder/iperf3.log" 2>&1 &
processes+=($!)
expect "a host in a tunnel of Linux reaches one that knows of none" within 20 in_client ping -c 1 -W 0.5 203.0.113.10
expect "with packets of all lengths that fit" pings 203.0.113.10 0 1 31 32 33 1000 1421 1422
expect "and TCP, both ways" stream 203.0.113.10
expect "a wire is joined to a tunnel: ARP finds the other host" within 10 in_client ping -c 1 -W 0.5 10.8.0.20
expect "with packets of all lengths that fit" pings 10.8.0.20 0 1 31 32 33 1000 1421 1422
expect "and TCP, both ways" stream 10.8.0.20

expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["in-flight"] == 0'
expect "both tunnels were used, both ways" report \
    'all(c["nfs"][0]["outcomes"][k]["packets"] > 100 for k in ("wrapped", "unwrapped", "joined"))'
expect "nothing was taken for malformed" report 'not any(k.startswith("tunnel.") for k in c["drops"])'
conclude
