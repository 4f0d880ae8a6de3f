#!/usr/bin/env bash
# How neighbours of a router on Linux' tables are found and move.
# usage: router_neighbours.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
# shellcheck source=tests/live/linux_network.sh
. "$here/../linux_network.sh"

pings() { in_client ping -c 2 -i 0.1 -W 0.3 "$@"; }
has_neighbour() { ip -n $middle neigh show "$1" dev wan0 | grep -q "$2"; }
shows() { "$millrace" show "$1" --socket "$folder/out/millrace.sock" | grep -q "$2"; }
mac_of() { ip -n $middle -json link show "$1" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)[0]["address"])'; }

# gratuitous_arp ADDRESS...: the server tells everybody that these are at its MAC address (RFC 826, RFC 5227).
gratuitous_arp() {
    in_server python3 - "$@" << 'PYTHON'
import socket, sys
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind(("eth0", 0))
mac = s.getsockname()[4]
for address in map(socket.inet_aton, sys.argv[1:]):
    s.send(b"\xff" * 6 + mac + b"\x08\x06" + b"\x00\x01\x08\x00\x06\x04\x00\x01" + mac + address + bytes(6) + address)
PYTHON
}

start_router
expect "the server is found" within 15 in_client ping -c 1 -W 0.5 192.0.2.10

settle

# --- packets wait for an address ---
ip -n $server address add 192.0.2.50/24 dev eth0 && ip -n $server address add 2001:db8:20::50/64 dev eth0 nodad
refuse "nobody knows a new neighbour" has_neighbour 192.0.2.50 lladdr
expect "the first packet to it is answered" in_client ping -c 1 -W 3 192.0.2.50
expect "and with IPv6" in_client ping -c 1 -W 3 2001:db8:20::50
settle
expect "what has been found is forwarded without the kernel" within 20 without_kernel pings 192.0.2.50

# --- a neighbour that tells of a new address ---
sleep 1.2  # Linux lets no entry change twice in a second (locktime)
# Nobody else may tell of it: the server's own questions would.
ip -n $server neigh replace 192.0.2.1 lladdr "$(mac_of wan0)" dev eth0 nud permanent
ip -n $server link set eth0 address 02:00:00:00:20:77
refuse "packets go to its old address" without_kernel pings 192.0.2.10
expect "gratuitous ARP is sent" gratuitous_arp 192.0.2.10 192.0.2.50
expect "it moves the entry" within 2 has_neighbour 192.0.2.10 02:00:00:00:20:77
expect "of the data plane, too" within 2 shows neighbours '192.0.2.10 *wan0 *02:00:00:00:20:77'
settle
expect "and packets arrive without the kernel" within 20 without_kernel pings 192.0.2.10

# --- proxy ARP ---
ip -n $client route add 203.0.113.0/24 dev eth0
ip -n $middle route add 203.0.113.0/24 via 192.0.2.10
refuse "who asks for an address behind the router hears nothing" in_client ping -c 1 -W 1 203.0.113.10
in_middle sysctl -qw net.ipv4.conf.lan0.proxy_arp=1 net.ipv4.neigh.lan0.proxy_delay=0
ip -n $client neigh flush dev eth0
expect "with proxy_arp packets arrive" within 3 in_client ping -c 1 -W 0.5 203.0.113.10
expect "as the router has answered" bash -c "ip -n $client neigh show 203.0.113.10 dev eth0 | grep -q $(mac_of lan0)"
settle
expect "without the kernel" within 20 without_kernel pings 203.0.113.10
ip -n $client route del 203.0.113.0/24 && ip -n $middle route del 203.0.113.0/24

expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["router"]["in-flight"] == 0'
expect "the kernel was followed" report \
    's["malformed-messages"] == 0 and c["router"]["punts"]["router.no-neighbour"] > 0'
conclude
