#!/usr/bin/env bash
# A router that follows another table of Linux' than the main one.
# usage: router_table.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
# shellcheck source=tests/live/linux_network.sh
. "$here/../linux_network.sh"

configuration() {
    sed "s/^output: .*/output: out/; s/kernel: true/kernel: {table: 10}/" "$here/../../../examples/linux-router.yaml"
}
pings() { in_client ping -c 2 -i 0.1 -W 0.5 "$@"; }
shows() { "$millrace" show "$1" --socket "$folder/out/millrace.sock" | grep -q "$2"; }

start_router
ip -n $server address add 203.0.114.10/32 dev lo && ip -n $server address add 2001:db8:113::10/128 dev lo nodad
for family in -4 -6; do
    expect "Linux looks in table 10, too ($family)" ip -n $middle $family rule add pref 100 lookup 10
done
expect "the main table has 203.0.114.0/24" ip -n $middle route add 203.0.114.0/24 via 192.0.2.10
expect "the router answers for itself: table 255 is always followed" within 5 in_client ping -c 1 -W 0.5 10.0.10.1
expect "Linux forwards by its main table" within 5 in_client ping -c 1 -W 0.5 203.0.114.10
settle
refuse "Millrace does not" without_kernel pings 203.0.114.10
while read -r -a route; do
    expect "table 10 has ${route[*]}" ip -n $middle route add "${route[@]}" table 10
done << 'ROUTES'
10.0.10.0/24 dev lan0
192.0.2.0/24 dev wan0
203.0.113.0/24 via 192.0.2.10
2001:db8:10::/64 dev lan0
2001:db8:20::/64 dev wan0
2001:db8:113::/48 via 2001:db8:20::10
ROUTES
ip -n $middle route add blackhole 203.0.113.0/24
expect "its routes are followed" within 5 in_client ping -c 1 -W 0.5 203.0.113.10
expect "those of IPv6, too" within 5 in_client ping -c 1 -W 0.5 2001:db8:113::10
settle
expect "without the kernel, and whatever the main table says" within 20 without_kernel pings 203.0.113.10
expect "with IPv6, too" within 20 without_kernel pings 2001:db8:113::10
expect "and to neighbours" within 20 without_kernel pings 192.0.2.10
expect "they are shown" shows routes '203.0.113.0/24 .*192.0.2.10'
refuse "and not the main table's" shows routes '203.0.114.0/24'
ip -n $middle route replace blackhole 203.0.113.0/24 table 10
settle
refuse "a change there is followed" without_kernel pings 203.0.113.10
expect "SIGTERM ends the run in order" ends_in_order $running
expect "Millrace has forwarded, and accounts for all" report \
    'r["conserved"] and c["router"]["nfs"][0]["outcomes"]["forward"]["packets"] >= 6'
conclude
