#!/usr/bin/env bash
# A router that gets the address and the default route of one port by DHCP: dhclient runs on the port's tap, as on any
# interface, and dnsmasq is the server behind the port. Then a lease that is renewed, given back and taken anew.
# usage: dhcp.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
need dhclient dnsmasq
# shellcheck source=tests/live/linux_network.sh
. "$here/../linux_network.sh"

make_addresses() { ip -n $middle address add 10.0.10.1/24 dev lan0; }
# The host's files of leases, of resolvers and of processes stay as they are: no resolver is offered.
serve() {
    ip netns exec $server dnsmasq --no-daemon --conf-file=/dev/null --port=0 --interface=eth0 --bind-interfaces \
        --dhcp-range=192.0.2.50,192.0.2.50,255.255.255.0,2m --dhcp-option=option:router,192.0.2.10 \
        --dhcp-option=option:dns-server --dhcp-leasefile="$folder/leases" \
            --log-dhcp --pid-file= > "$folder/dnsmasq.log" 2>&1 &
    server_process=$!
    processes+=($server_process)
}
dhclient() { ip netns exec $middle dhclient "$@" -pf "$folder/dhclient.pid" -lf "$folder/client.leases" wan0; }
has_address() { ip -n $middle -brief address show wan0 | grep -q '192\.0\.2\.50/24'; }
has_route() { ip -n $middle route show default | grep -q 'via 192\.0\.2\.10 dev wan0'; }
# Behind the server's network, so that only the default route leads there.
reaches_beyond() { in_client ping -c 1 -W 0.5 203.0.113.10; }
acknowledged() { grep -c 'DHCPACK' "$folder/dnsmasq.log"; }
# The client asks for the lease anew in half its time; a signal does not make it ask earlier, but a new start does.
renewed() {
    local before
    before=$(acknowledged)
    within 5 test -s "$folder/dhclient.pid" && kill "$(< "$folder/dhclient.pid")" && dhclient -1 -v &&
        (($(acknowledged) > before)) && has_address
}

start_router
ip -n $server route replace 10.0.10.0/24 via 192.0.2.50
serve
refuse "without a lease nothing leads beyond" reaches_beyond
expect "dhclient finds the server" dhclient -1 -v
expect "the tap has the address" has_address
expect "and the default route" has_route
settle
expect "packets go by the default route from DHCP, without Linux' help" without_kernel within 20 reaches_beyond
expect "the lease is asked for again, and kept" renewed
expect "and packets still go" without_kernel within 20 reaches_beyond
expect "the lease is given back" dhclient -r
expect "the server hears of it" within 5 grep -q DHCPRELEASE "$folder/dnsmasq.log"
refuse "then the address is gone" has_address
refuse "and nothing goes there" without_kernel reaches_beyond
expect "another lease" dhclient -1 -v
expect "serves as the first" without_kernel within 20 reaches_beyond
dhclient -x > /dev/null 2>&1

expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["router"]["in-flight"] == 0'
((failures == 0)) || { echo "--- others said:"; cat "$folder"/millrace.* "$folder/dnsmasq.log"; }
echo "$device: $failures failures, $SECONDS s"
((failures == 0))
