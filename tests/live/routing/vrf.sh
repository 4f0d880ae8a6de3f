#!/usr/bin/env bash
# A router on the table of a VRF of Linux': its ports' interfaces are in the VRF, and the main table leads elsewhere.
# With `own-kernel`, all of it runs on a kernel in user mode (own_kernel.py): that takes a core half a minute.
# usage: vrf.sh MILLRACE DEVICE [own-kernel]
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ ${3:-} != own-kernel ]] || exec /usr/bin/python3 "$here/../own_kernel.py" bash "$here/vrf.sh" "$millrace" "$device"

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
unshare --net ip link add vrf0 type vrf table 10 2> /dev/null || skip "this machine's kernel has no VRFs"
# shellcheck source=tests/live/linux_network.sh
. "$here/../linux_network.sh"
comes_up_within=150  # a kernel in user mode has one processor, and takes long for new memory

configuration() {
    sed "s/^output: .*/output: out/; s/kernel: true/kernel: {table: 10}/" "$here/../../../examples/linux-router.yaml"
}
make_more() { hide mr-lan mr-wan; }  # a kernel in user mode may be too old to have Millrace see to it
make_addresses() {
    ip -n $middle link add blue type vrf table 10 && ip -n $middle link set blue up || return 1
    ip -n $middle link set lan0 master blue && ip -n $middle link set wan0 master blue || return 1
    ip -n $middle address add 10.0.10.1/24 dev lan0 && ip -n $middle address add 2001:db8:10::1/64 dev lan0 nodad ||
        return 1
    ip -n $middle address add 192.0.2.1/24 dev wan0 && ip -n $middle address add 2001:db8:20::1/64 dev wan0 nodad
}
pings() { in_client ping -c 2 -i 0.1 -W 2 "$@"; }
arrives() { settle; within 20 without_kernel pings "$1"; }
shows() { "$millrace" show routes --socket "$folder/out/millrace.sock" | grep -q "$1"; }

start_router
expect "the main table has no way to the server" bash -c "! ip -n $middle route get 192.0.2.10"
expect "the router answers, as its addresses are in the VRF's table" within 10 in_client ping -c 1 -W 1 10.0.10.1
expect "the server is found" within 10 in_client ping -c 1 -W 1 192.0.2.10
expect "and forwarded to without the kernel" arrives 192.0.2.10
expect "with IPv6, too" within 10 in_client ping -c 1 -W 1 2001:db8:20::10
expect "without the kernel" arrives 2001:db8:20::10
ip -n $middle route add 203.0.113.0/24 via 192.0.2.10 vrf blue
expect "a route that the VRF gets is taken" arrives 203.0.113.10
ip -n $middle route add blackhole 203.0.113.10/32
settle
expect "one of the main table is not" without_kernel pings 203.0.113.10
expect "nor shown" bash -c "! $millrace show routes --socket $folder/out/millrace.sock | grep -q blackhole"
ip -n $middle link set wan0 nomaster
expect "an interface that leaves the VRF takes its routes along" within 10 bash -c \
    "! $millrace show routes --socket $folder/out/millrace.sock | grep -q 203.0.113.0"
refuse "packets do not arrive any more" in_client ping -c 1 -W 1 203.0.113.10
ip -n $middle link set wan0 master blue
ip -n $middle address replace 2001:db8:20::1/64 dev wan0 nodad
ip -n $middle route add 203.0.113.0/24 via 192.0.2.10 vrf blue
expect "and they are back with it" within 10 in_client ping -c 1 -W 1 203.0.113.10
expect "without the kernel" arrives 203.0.113.10

expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["router"]["in-flight"] == 0'
expect "the kernel was followed" report 's["malformed-messages"] == 0'
conclude
