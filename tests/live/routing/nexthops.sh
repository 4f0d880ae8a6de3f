#!/usr/bin/env bash
# A router on Linux' tables whose routes name nexthop objects: they are followed whether or not the kernel tells of
# their hops with each route (net.ipv4.nexthop_compat_mode); as `ip` sets them, by thousands, and as FRR does.
# usage: nexthops.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
# shellcheck source=tests/live/linux_network.sh
. "$here/../linux_network.sh"
PATH=$PATH:/usr/sbin:/usr/lib/frr

pings() { in_client ping -c 2 -i 0.1 -W 0.3 "$@"; }
nexthop() { ip -n $middle nexthop "$@"; }
route() { ip -n $middle route "$@"; }
shows() { "$millrace" show routes --limit 2000 --socket "$folder/out/millrace.sock" | grep -q "$1"; }
shows_no() { ! shows "$1"; }
# statistic NAME: of the router.
statistic() {
    "$millrace" show chains --json --socket "$folder/out/millrace.sock" | python3 -c '
import json, sys
print(json.load(sys.stdin)["chains"][0]["nfs"][0]["statistics"][sys.argv[1]])' "$1"
}
statistic_is() { (($(statistic "$1") == $2)); }
# arrives ADDRESS: pings do, by Millrace alone, as soon as it has heard of what leads there.
arrives() { settle; within 20 without_kernel pings "$1"; }

objects_of_ip() {
    expect "the kernel has nexthop objects" nexthop add id 1 via 192.0.2.10 dev wan0
    nexthop add id 2 via 192.0.2.99 dev wan0 && nexthop add id 10 group 1
    route add 203.0.113.0/24 nhid 10
    expect "a route by a group works" arrives 203.0.113.10
    nexthop replace id 10 group 2
    expect "it goes where the group's new member is" within 2 shows '203.0.113.0/24 .*192.0.2.99'
    refuse "where nobody is" without_kernel pings 203.0.113.10
    nexthop replace id 10 group 1,3/2
    expect "a group of two has both, by weight" within 2 \
        shows '203.0.113.0/24 .*192.0.2.10 on wan0 weight 3, 192.0.2.99 on wan0 weight 1'
    nexthop replace id 2 via inet6 2001:db8:20::10 dev wan0
    expect "a member that is replaced is so in its group, by one of the other family, too" within 2 \
        shows '203.0.113.0/24 .*192.0.2.10.*2001:db8:20::10'
    expect "and all packets arrive" arrives 203.0.113.10
    nexthop del id 1
    expect "a member that goes leaves its group" within 2 shows '203.0.113.0/24  *2001:db8:20::10 on wan0 '
    expect "and packets arrive" arrives 203.0.113.10
    in_middle ip link set lo up
    nexthop add id 4 blackhole && nexthop replace id 10 group 4
    expect "a group may be a blackhole" within 2 shows '203.0.113.0/24 *blackhole'
    refuse "where packets end" pings 203.0.113.10
    nexthop del id 10
    expect "a route goes with its object" within 2 shows_no 203.0.113.0
    nexthop flush > /dev/null 2>&1
}

# A thousand objects, and a thousand groups of two of them with a route each.
many_objects() {
    local before resyncs
    before=$(statistic kernel-routes) resyncs=$(statistic resyncs)
    python3 -c '
for i in range(1000): print(f"nexthop add id {1000 + i} via 192.0.2.10 dev wan0")
for i in range(1000): print(f"nexthop add id {3000 + i} group {1000 + i},2/{1000 + (i + 1) % 1000}")
for i in range(1000): print(f"route add 198.18.{i // 250}.{i % 250 + 1}/32 nhid {3000 + i}")' > "$folder/batch"
    expect "Linux takes a thousand groups" ip -n $middle -batch "$folder/batch"
    expect "they are followed" within 5 statistic_is kernel-routes $((before + 1000))
    expect "and lead to the server" arrives 198.18.3.250
    nexthop replace id 1499 via 192.0.2.99 dev wan0
    expect "one that changes does so in its two groups" within 2 \
        shows '198.18.1.249/32 *192.0.2.10 on wan0 weight 2, 192.0.2.99 on wan0 weight 1'
    expect "of which it is the first in one" within 2 \
        shows '198.18.1.250/32 *192.0.2.99 on wan0 weight 2, 192.0.2.10 on wan0 weight 1'
    nexthop flush > /dev/null 2>&1
    expect "all routes go with them" within 5 statistic_is kernel-routes "$before"
    expect "without a question to the kernel" statistic_is resyncs "$resyncs"
}

start_frr() {
    local own=(-u frr -g frr -z "$folder/frr/zserv.api" --vty_socket "$folder/frr" -A 127.0.0.1) name
    chmod 755 "$folder" && mkdir "$folder/frr" && chown frr:frr "$folder/frr" || return 1
    echo "hostname frr" > "$folder/frr/zebra.conf"
    printf '%s\n' "ip route 203.0.113.0/24 192.0.2.10" "ip route 203.0.113.0/24 192.0.2.50" \
        "ipv6 route 2001:db8:99::/64 2001:db8:20::10" > "$folder/frr/staticd.conf"
    for name in zebra staticd; do
        ip netns exec $middle $name "${own[@]}" -i "$folder/frr/$name.pid" -f "$folder/frr/$name.conf" \
            > "$folder/$name.out" 2>&1 &
        processes+=($!)
        within 10 test -S "$folder/frr/$name.vty" || return 1
    done
}
vty() { vtysh --vty_socket "$folder/frr" -c "configure terminal" -c "$1"; }
frr_misses_the_link() { vtysh --vty_socket "$folder/frr" -c "show interface wan0" | grep -q "line protocol is down"; }
is_by_object() { route show 203.0.113.0/24 | grep -q 'nhid .*proto static'; }

change_objects_of_frr() {
    vty "no ip route 203.0.113.0/24 192.0.2.10"
    expect "a hop that it takes away is not taken any more" within 5 shows '203.0.113.0/24 *192.0.2.50 on wan0 '
    vty "ip route 203.0.113.0/24 192.0.2.10"
    expect "until it is back" within 5 shows '203.0.113.0/24 .*192.0.2.10.*192.0.2.50'
    ip -n $server link set eth0 down
    expect "objects go with the carrier" within 5 shows_no 203.0.113.0
    # FRR 8.4 believes that what Linux took away is there when the link is back before it has done with its loss.
    expect "as FRR sees" within 5 frr_misses_the_link
    sleep 0.5
    ip -n $server link set eth0 up
    ip -n $server address replace 2001:db8:20::10/64 dev eth0 nodad
    ip -n $server route replace default via 192.0.2.1; ip -n $server route replace default via 2001:db8:20::1
    expect "FRR sets them again" within 10 shows '203.0.113.0/24 .*192.0.2.10.*192.0.2.50'
    expect "and packets arrive" arrives 203.0.113.10
}

objects_of_frr() {
    expect "FRR sets routes by objects" within 10 is_by_object
    expect "which have both hops" within 5 shows '203.0.113.0/24 .*192.0.2.10.*192.0.2.50'
    expect "and are taken" arrives 203.0.113.10
    expect "with IPv6, too" arrives 2001:db8:99::1
}

start_router
ip -n $server address add 192.0.2.50/24 dev eth0 && ip -n $server address add 2001:db8:99::1/128 dev lo nodad
ip -n $server route add local 198.18.0.0/15 dev lo
ip -n $middle neigh replace 192.0.2.99 lladdr 02:00:00:00:99:99 dev wan0 nud permanent
expect "the server is found" within 15 in_client ping -c 1 -W 0.5 192.0.2.10
expect "and by IPv6" within 5 in_client ping -c 1 -W 0.5 2001:db8:20::10
# mode NUMBER: whether the kernel tells of hops with routes that name objects.
mode() { echo "nexthop_compat_mode $1"; in_middle sysctl -qw net.ipv4.nexthop_compat_mode="$1"; }
mode 1 && objects_of_ip && many_objects
mode 0 && objects_of_ip && many_objects
if command -v zebra staticd vtysh > /dev/null; then
    expect "FRR starts" start_frr
    objects_of_frr
    change_objects_of_frr
    mode 1
    vty "ip route 203.0.113.10/32 192.0.2.10"
    expect "a route by an object that is there already" within 5 shows '203.0.113.10/32 *192.0.2.10 on wan0 '
    change_objects_of_frr
else
    echo "skipped: FRR is not installed"
fi

expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["router"]["in-flight"] == 0'
expect "the kernel was followed" report 's["malformed-messages"] == 0'
conclude
