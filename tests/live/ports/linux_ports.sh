#!/usr/bin/env bash
# Ports that interfaces of Linux' stand for (`linux:`): what a run tells whose Linux is not ready for them, that Linux
# hears nothing at the interfaces below meanwhile, also where it has addresses there, and that it does so again however
# the run ends; and a router of a hundred ports.
# usage: linux_ports.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
# shellcheck source=tests/live/linux_network.sh
. "$here/../linux_network.sh"

# A network as a system makes it: the interface below has an address, and nobody has Linux forward.
make_more() {
    ip -n $middle address add 10.0.10.99/24 dev mr-lan || return 1
    in_middle sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0
}
says() { grep -q -- "$1" "$folder/millrace.log"; }
# The address that IPv6 gives the interface below: nobody else answers for it.
own_address=
answers_below() { in_client ping -c 1 -W 0.5 -I eth0 "$own_address" > /dev/null; }
finds_own_address() {
    own_address=$(ip -n $middle -6 -brief address show mr-lan | grep -o 'fe80::[0-9a-f:]*') && [[ -n $own_address ]]
}

start_router
expect "an address below is told" says "Linux has addresses at 'mr-lan', which 'lan0' stands for (10.0.10.99)"
expect "and what moves it" says "ip address flush dev mr-lan"
expect "Linux that does not forward is told" says "net.ipv4.ip_forward is 0"
expect "for IPv6, too" says "sysctl -w net.ipv6.conf.all.forwarding=1"
refuse "nothing is told of what is in order" says "wan0"
expect "the interface below has an address" finds_own_address
refuse "nobody answers for it" answers_below
expect "the tap has the port's MAC address" test \
    "$(ip -n $middle -brief link show lan0 | awk '{print $3}')" = "$(ip -n $middle -brief link show mr-lan | awk '{print $3}')"
in_middle sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
ip -n $middle address del 10.0.10.99/24 dev mr-lan
expect "the server is found" within 15 in_client ping -c 1 -W 0.5 192.0.2.10
settle
expect "packets pass without the kernel" within 20 without_kernel in_client ping -c 2 -i 0.1 -W 0.5 192.0.2.10
kill -KILL "$(ip netns pids $middle | head -1)"
wait $running 2> /dev/null
expect "Linux has the interface back when the run was killed" within 5 answers_below

# --- a router of a hundred ports ---
many=mr-$$-many ports=100
namespaces+=("$many")
ip netns add $many && in_many() { ip netns exec $many "$@"; }
in_many sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
for ((i = 0; i < ports; ++i)); do
    echo "link add p$i type veth peer name q$i"
    echo "link set p$i up"
    echo "link set q$i up"
done > "$folder/links"
ip -n $many -batch "$folder/links" || failed "there are $ports cables"
{
    printf 'version: 1\nports:\n'
    for ((i = 0; i < ports; ++i)); do
        echo "  p$i: {af_packet: p$i, linux: {tap: t$i, buffers: 64}, buffers: 64, descriptors: 64, uncut: false}"
    done
    printf 'chains:\n  router:\n    nfs: [{router: {kernel: true}}]\n    input: ['
    for ((i = 0; i < ports; ++i)); do printf 'p%d, ' $i; done
    echo ']'
} > "$folder/many.yaml"
ip netns exec $many "$millrace" run "$folder/many.yaml" --device "$device" --output "$folder/many" \
    --json "$folder/report.json" > "$folder/millrace.out" 2> "$folder/millrace.log" &
running=$!
processes+=($running)
all_up() { [[ $(ip -n $many -brief link show up type tun | grep -c LOWER_UP) == "$ports" ]]; }
expect "$ports taps come up" within 60 all_up
ip -n $many address add 10.1.99.1/24 dev t99
# By the far end of the last cable, somebody asks for the address of the last tap (RFC 826).
asks() {
    in_many python3 - << 'PYTHON'
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x806))
s.bind(("q99", 0))
s.settimeout(0.5)
mac, own, asked = s.getsockname()[4], socket.inet_aton("10.1.99.2"), socket.inet_aton("10.1.99.1")
s.send(b"\xff" * 6 + mac + b"\x08\x06" + b"\x00\x01\x08\x00\x06\x04\x00\x01" + mac + own + bytes(6) + asked)
while s.recv(100)[20:22] != b"\x00\x02": pass
PYTHON
}
expect "the last of them is Linux' for who asks by the last port" within 5 asks
expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" python3 -c '
import json, sys
r = json.load(open(sys.argv[1]))
sys.exit(not r["conserved"] or len(r["ports"]) != 200 or len(r["chains"]) != 101)' "$folder/report.json"
conclude
