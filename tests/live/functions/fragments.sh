#!/usr/bin/env bash
# Linux cuts packets, Millrace puts them together, judges them by their ports and cuts them again for a smaller MTU,
# Linux puts them together: three network namespaces, IPv4 and IPv6, datagrams of all sizes and both ways.
# usage: fragments.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2

# shellcheck source=tests/live/namespaces.sh
. "$(dirname "${BASH_SOURCE[0]}")/../namespaces.sh"
need ip ping python3

client=mr-$$-client middle=mr-$$-middle server=mr-$$-server
namespaces=("$client" "$middle" "$server")

make_network() {
    ip netns add $client && ip netns add $middle && ip netns add $server || return 1
    ip netns exec $middle sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 2> /dev/null
    ip -n $middle link add mr-lan type veth peer name eth0 netns $client || return 1
    ip -n $middle link add mr-wan mtu 1400 type veth peer name eth0 mtu 1400 netns $server || return 1
    ip -n $client link set eth0 address 02:00:00:00:10:10 && ip -n $server link set eth0 address 02:00:00:00:20:10
    local name
    for name in mr-lan mr-wan; do ip -n $middle link set $name up || return 1; done
    for name in $client $server; do ip -n $name link set lo up; ip -n $name link set eth0 up || return 1; done
    ip -n $client address add 10.0.0.1/24 dev eth0 && ip -n $server address add 10.0.0.2/24 dev eth0
    ip -n $client address add fd00::1/64 dev eth0 nodad && ip -n $server address add fd00::2/64 dev eth0 nodad
    local to
    for to in 10.0.0.2 fd00::2; do ip -n $client neigh replace $to lladdr 02:00:00:00:20:10 dev eth0 nud permanent ||
        return 1; done
    for to in 10.0.0.1 fd00::1; do ip -n $server neigh replace $to lladdr 02:00:00:00:10:10 dev eth0 nud permanent ||
        return 1; done
    # What Linux has found out of a path's MTU is not what this is about: it cuts as its own interface says.
    ip netns exec $client sysctl -qw net.ipv4.ip_no_pmtu_disc=1
}

cat > "$folder/live.yaml" << 'YAML'
version: 1
ports:
  lan: {af_packet: mr-lan}
  wan: {af_packet: mr-wan}
chains:
  there:
    input: lan
    output: wan
    reassemble: {timeout: 1s}
    nfs: &rules
      - firewall:
          default: deny
          non-ip: permit
          rules: [permit udp from any to any port 7000, permit udp from any port 7000, permit icmp, permit icmpv6]
  back: {input: wan, output: lan, reassemble: true, nfs: *rules}
YAML

cat > "$folder/echo.py" << 'PYTHON'
# echo.py serve: gives datagrams back.  echo.py ask HOST PORT: sends datagrams of all sizes there and back, and compares.
import random, socket, sys
if sys.argv[1] == "serve":
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    s.bind(("::", int(sys.argv[2])))
    while True:
        data, sender = s.recvfrom(65535)
        s.sendto(data, sender)
host, port = sys.argv[2], int(sys.argv[3])
s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(5 if port == 7000 else 0.2)
random.seed(1)
# Around the MTUs, and the longest that a buffer holds.
sizes = [1, 1352, 1353, 1372, 1373, 1452, 1453, 1472, 1473, 2800, 8000, 30000, 64000] + [random.randint(1, 60000) for _ in range(60)]
if port != 7000: sizes = [8000]
for size in sizes:
    # The sender of IPv6 that goes unfragmented, and is too long for a link on its way, would have to be told.
    if ":" in host and 1400 < size + 48 <= 1500: continue
    data = random.randbytes(size)
    s.sendto(data, (host, port))
    if s.recv(65535) != data: sys.exit(f"other bytes came back of {size}")
PYTHON

# ask HOST PORT
ask() { ip netns exec $client python3 "$folder/echo.py" ask "$1" "$2"; }
# report CONDITION: holds for the closing table (r).
report() {
    python3 - "$folder/report.json" "$1" << 'PYTHON'
import json, sys
r = json.load(open(sys.argv[1]))
there, back = r["chains"]
if not eval(sys.argv[2]): sys.exit(json.dumps(r, indent=1))
PYTHON
}

make_network || skip "there are no namespaces or virtual interfaces here"
for port in 7000 7001; do ip netns exec $server python3 "$folder/echo.py" serve $port & processes+=($!); done
ip netns exec $middle "$millrace" run "$folder/live.yaml" --device "$device" --output "$folder/out" \
    --json "$folder/report.json" > "$folder/run.log" 2>&1 &
run=$!
processes+=("$run")
within 20 ip netns exec $client ping -c 1 -W 1 10.0.0.2 || failed "nothing goes through: $(cat "$folder/run.log")"

expect "pings of 8,000 bytes pass (IPv4)" ip netns exec $client ping -c 5 -i 0.05 -W 2 -s 8000 10.0.0.2
expect "pings of 8,000 bytes pass (IPv6)" ip netns exec $client ping -c 5 -i 0.05 -W 2 -s 8000 fd00::2
expect "datagrams of all sizes come back as they were (IPv4)" ask 10.0.0.2 7000
expect "datagrams of all sizes come back as they were (IPv6)" ask fd00::2 7000
refuse "datagrams for another port are dropped whole (IPv4)" ask 10.0.0.2 7001
refuse "datagrams for another port are dropped whole (IPv6)" ask fd00::2 7001

kill -INT "$run"
wait "$run" || failed "the run ended badly: $(tail -5 "$folder/run.log")"
expect "every packet is accounted for" report 'r["conserved"]'
expect "fragments were put together both ways" report 'min(there["reassembled"], back["reassembled"]) > 130'
expect "and cut again" report 'there["split"] > 1000 and back["split"] > 500'
expect "none was lost on the way" report 'not any(k.startswith("fragments.") for c in r["chains"] for k in c["drops"])'
expect "no packet was too long" report 'not any("over-mtu" in p["drops"] for p in r["ports"])'
expect "what is denied is denied as a whole" report 'there["drops"]["firewall.deny"] == 2'
((failures == 0))
