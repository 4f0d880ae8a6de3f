#!/usr/bin/env bash
# A router without Linux behind it tells senders by ICMP why their packets do not arrive, as traceroute, ping and a
# host that looks for the MTU of a way see it; a policer limits how often.
# usage: reject.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2

# shellcheck source=tests/live/namespaces.sh
. "$(dirname "${BASH_SOURCE[0]}")/../namespaces.sh"
need ip ping traceroute python3

client=mr-$$-client middle=mr-$$-middle server=mr-$$-server
namespaces=("$client" "$middle" "$server")
in_client() { ip netns exec $client "$@"; }

make_network() {
    routed_hosts $client 10.0.10.10/24 $middle $server 192.0.2.10/24
}
configuration() {
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
      - firewall: {default: permit, rules: ["deny tcp from any to any port 23"]}
        on: {deny: chain denied}
      - router: &router
          routes: [{prefix: 10.0.10.0/24, via: client}, {prefix: 192.0.2.0/24, via: server}]
          next-hops:
            client: {port: lan, mac: "02:00:00:00:10:10", src-mac: "02:00:00:00:00:01"}
            server: {port: wan, mac: "02:00:00:00:20:10", src-mac: "02:00:00:00:00:02", mtu: 1400}
        on: {ttl-expired: chain late, no-route: chain lost, too-big: chain long}
  denied: {output: wan, nfs: [reject: {with: prohibited, from: 10.0.10.1}, router: *router]}
  late: {output: wan, nfs: [reject: {with: time-exceeded, from: 10.0.10.1}, router: *router]}
  lost:
    output: wan
    nfs: [reject: {with: no-route, from: 10.0.10.1}, policer: {rate: 10pps, burst: 10, per: destination}, router: *router]
  long: {output: wan, nfs: [reject: {with: too-big, mtu: 1400, from: 10.0.10.1}, router: *router]}
YAML
}
# says TEXT COMMAND...: the command's output has the text, whether or not it succeeds.
says() { local text=$1; shift; "$@" 2>&1 | tee "$folder/last" | grep -q -- "$text"; }
# few_errors: a hundred packets in a second get ten errors at once, and ten a second behind them.
few_errors() {
    local answers
    answers=$(in_client ping -i 0.01 -c 100 -W 1 203.0.113.10 | grep -c 'From 10.0.10.1 .*Destination Net Unreachable')
    echo "$answers errors"
    ((answers >= 10 && answers <= 40))
}
connect() {
    in_client python3 -c '
import socket, sys
s = socket.socket()
s.settimeout(2)
s.connect(("192.0.2.10", 23))'
}

make_network > "$folder/last" 2>&1 || { cat "$folder/last"; skip "this machine has no namespaces with interfaces"; }
configuration > "$folder/reject.yaml"
ip netns exec $middle "$millrace" run "$folder/reject.yaml" --device "$device" --output "$folder/out" \
    --json "$folder/report.json" > "$folder/millrace.out" 2> "$folder/millrace.log" &
running=$!
processes+=($running)

expect "the server is reached" within 20 in_client ping -c 1 -W 0.5 192.0.2.10
expect "ping is told where the time runs out" \
    says "From 10.0.10.1 .*Time to live exceeded" in_client ping -c 1 -W 1 -t 1 192.0.2.10
expect "and traceroute sees the router" says '^ *1 *10.0.10.1 ' in_client traceroute -n -w 1 -q 1 192.0.2.10
expect "ping is told that there is no route" \
    says "From 10.0.10.1 .*Destination Net Unreachable" in_client ping -c 1 -W 1 203.0.113.10
expect "connections are told what is prohibited" says "No route to host" connect
expect "what is too long is told the MTU" \
    says "From 10.0.10.1 .*Frag needed and DF set (mtu = 1400)" in_client ping -c 1 -W 1 -M do -s 1400 192.0.2.10
expect "so that Linux knows it" says "mtu 1400" ip -n $client route get 192.0.2.10
expect "what just fits arrives" in_client ping -c 1 -W 1 -M do -s 1372 192.0.2.10
sleep 1.1
expect "errors are limited" few_errors
expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"]'
conclude
