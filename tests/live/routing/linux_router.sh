#!/usr/bin/env bash
# A client and a server that reach each other by a router whose routes, neighbours and addresses are the Linux kernel's:
# three network namespaces, two pairs of virtual interfaces, a tap for each port, and `ip` that changes things.
# usage: linux_router.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
# shellcheck source=tests/live/linux_network.sh
. "$here/../linux_network.sh"

pings() { in_client ping -c 3 -i 0.1 -W 1 "$@"; }
# says TEXT COMMAND...: the command's output has the text, whether or not it succeeds.
says() { local text=$1; shift; "$@" 2>&1 | tee "$folder/last" | grep -q -- "$text"; }
# The kernel says so about once a second, after the first few times.
says_unreachable() { within 8 says "From 10.0.10.1 .*$1 Unreachable" in_client ping -c 1 -W 1 "$2"; }
log_says() { grep -q -- "$1" "$folder/millrace.log"; }

start_router

expect "the router answers pings" within 5 in_client ping -c 1 -W 0.5 10.0.10.1
expect "and IPv6's" within 5 in_client ping -c 1 -W 0.5 2001:db8:10::1
expect "and by the address of its other side" pings 192.0.2.1
expect "the server is found" within 15 in_client ping -c 1 -W 0.5 192.0.2.10
expect "and its IPv6 address" within 5 in_client ping -c 1 -W 0.5 2001:db8:20::10
settle
expect "what has been found is forwarded without the kernel" within 20 without_kernel pings 192.0.2.10
expect "and with IPv6" within 20 without_kernel pings 2001:db8:20::10
expect "the kernel answers where the TTL runs out" says "From 10.0.10.1 .*Time to live exceeded" pings -t 1 192.0.2.10
expect "and with IPv6" says "From 2001:db8:10::1 .*Time exceeded" pings -t 1 2001:db8:20::10
expect "packets with two hops left arrive" pings -t 2 192.0.2.10

expect "an unknown network is refused by the kernel" says_unreachable Net 203.0.113.10
ip -n $middle route add 203.0.113.0/24 via 192.0.2.10
expect "a route by a gateway works at once" within 2 in_client ping -c 1 -W 0.3 203.0.113.10
settle
expect "without the kernel" within 20 without_kernel pings 203.0.113.10
ip -n $middle route add blackhole 203.0.113.10/32
settle
refuse "a blackhole swallows packets" pings 203.0.113.10
ip -n $middle route replace unreachable 203.0.113.10/32
settle
expect "unreachable is told by the kernel" says_unreachable Host 203.0.113.10
ip -n $middle route del 203.0.113.10/32
settle
expect "without it the gateway's route holds again" within 20 without_kernel pings 203.0.113.10
ip -n $middle nexthop add id 7 via 192.0.2.10 dev wan0 2> /dev/null &&
    ip -n $middle route add 203.0.113.10/32 nhid 7 && ip -n $middle route del 203.0.113.0/24
expect "a route by a nexthop object works" without_kernel within 2 in_client ping -c 1 -W 0.3 203.0.113.10
ip -n $middle nexthop del id 7
expect "and goes with it" says_unreachable Net 203.0.113.10

# soon MEDIAN: a change from a blackhole to a gateway and back lets packets through within so many milliseconds.
soon() {
    in_middle python3 "$here/convergence.py" change $client $middle $server 203.0.113.10 \
        192.0.2.10 20 > "$folder/changes" || return 1
    cat "$folder/changes"
    python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["median-ms"] > float(sys.argv[2]))' \
        "$folder/changes" "$1"
}
# A device gets new tables every 50 ms at most.
case $device in cpu) bound=10 ;; *) bound=100 ;; esac
expect "a change of a route is soon at work" without_kernel soon $bound
ip -n $middle route del 203.0.113.10/32

ip -n $middle neigh replace 192.0.2.10 lladdr 02:00:00:00:99:99 dev wan0 nud permanent
settle
refuse "packets go to the MAC address that the kernel names" pings 192.0.2.10
shows() { "$millrace" show "$1" --socket "$folder/out/millrace.sock" | grep -q "$2"; }
expect "'millrace show' has the kernel's neighbours" within 5 shows neighbours \
    '192.0.2.10 *wan0 *02:00:00:00:99:99 *reachable'
expect "'millrace show' has the kernel's routes" within 5 shows routes '192.0.2.0/24 *wan0 .*254'
ip -n $middle neigh replace 192.0.2.10 lladdr 02:00:00:00:20:10 dev wan0 nud permanent
settle
expect "and to the right one again" within 20 without_kernel pings 192.0.2.10
ip -n $middle neigh del 192.0.2.10 dev wan0
ip -n $server link set eth0 address 02:00:00:00:20:11
expect "a neighbour is found under a new address" within 10 in_client ping -c 1 -W 0.3 192.0.2.10
settle
expect "and served without the kernel" within 20 without_kernel pings 192.0.2.10

ip -n $middle link set wan0 mtu 1300
expect "the kernel says which packets are too big" says "mtu *= *1300" in_client ping -c 3 -i 0.1 -W 1 \
    -M do -s 1400 192.0.2.10
ip -n $middle link set wan0 mtu 1500
in_client ip route flush cache
expect "they pass again" within 3 in_client ping -c 1 -W 0.3 -M do -s 1400 192.0.2.10

kill -HUP $running
expect "the configuration is read again" within 10 log_says "is at work"
expect "and the kernel followed as before" within 20 without_kernel pings 192.0.2.10

ip -n $middle link set wan0 down
expect "routes go with their link" says_unreachable Net 192.0.2.10
ip -n $middle link set wan0 up
ip -n $middle address replace 2001:db8:20::1/64 dev wan0 nodad
expect "and come back with it" within 10 in_client ping -c 1 -W 0.3 192.0.2.10
expect "those of IPv6, too" within 10 in_client ping -c 1 -W 0.3 2001:db8:20::10
settle
expect "without the kernel" within 20 without_kernel pings 2001:db8:20::10

expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["router"]["in-flight"] == 0'
expect "most were forwarded by Millrace" report 'c["to-wan"]["received-packets"] < c["router"]["received-packets"]'
expect "punts have their reasons" report 'all(c["router"]["punts"].get("router." + k, 0) > 0 for k in ("not-ip", "local", "ttl-expired", "no-neighbour", "too-big", "kernel", "no-route"))'
expect "the kernel was followed" report 's["generations"] >= 10 and s["resyncs"] >= 1 and s["malformed-messages"] == 0'
conclude
