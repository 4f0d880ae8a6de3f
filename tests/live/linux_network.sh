# shellcheck shell=bash
# A client and a server with a router between them whose routes, neighbours and addresses are the Linux kernel's: three
# network namespaces, two pairs of virtual interfaces, a tap for each port. To be sourced behind namespaces.sh; needs
# $here, $millrace and $device.
need ip ping python3
[[ -c /dev/net/tun ]] || skip "there is no /dev/net/tun on this machine"

client=mr-$$-client middle=mr-$$-middle server=mr-$$-server
namespaces=("$client" "$middle" "$server")
in_client() { ip netns exec $client "$@"; }
in_middle() { ip netns exec $middle "$@"; }
in_server() { ip netns exec $server "$@"; }

make_network() {
    local name
    for name in $client $middle $server; do
        ip netns add $name || return 1
        ip netns exec $name sysctl -qw net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0 \
            net.ipv6.conf.default.accept_dad=0 2> /dev/null
        ip -n $name link set lo up
    done
    ip -n $middle link add mr-lan type veth peer name eth0 netns $client || return 1
    ip -n $middle link add mr-wan type veth peer name eth0 netns $server || return 1
    for name in mr-lan mr-wan; do ip -n $middle link set $name up || return 1; done
    in_middle sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1 || return 1
    ip -n $server link set eth0 address 02:00:00:00:20:10 && ip -n $client link set eth0 up &&
        ip -n $server link set eth0 up
    ip -n $client address add 10.0.10.10/24 dev eth0 &&
        ip -n $client address add 2001:db8:10::10/64 dev eth0 nodad || return 1
    ip -n $server address add 192.0.2.10/24 dev eth0 &&
        ip -n $server address add 2001:db8:20::10/64 dev eth0 nodad || return 1
    ip -n $server address add 203.0.113.10/32 dev lo
    ip -n $client route add default via 10.0.10.1 && ip -n $client route add default via 2001:db8:10::1 || return 1
    ip -n $server route add default via 192.0.2.1 && ip -n $server route add default via 2001:db8:20::1
}

# hide INTERFACE...: Millrace alone answers there, also where it is not asked to see to that (`linux:`), or can't.
hide() {
    local name
    for name in "$@"; do
        in_middle sysctl -qw net.ipv6.conf.$name.disable_ipv6=1 || return 1
        ip -n $middle link set $name arp off || return 1
    done
}

make_addresses() {
    ip -n $middle address add 10.0.10.1/24 dev lan0 && ip -n $middle address add 2001:db8:10::1/64 dev lan0 nodad ||
        return 1
    ip -n $middle address add 192.0.2.1/24 dev wan0 && ip -n $middle address add 2001:db8:20::1/64 dev wan0 nodad
}

configuration() {
    # Of the example, the interfaces and chains; what it needs beside them stands above.
    sed "s/^output: .*/output: out/" "$here/../../../examples/linux-router.yaml"
}

# What the kernel has told is at work within hundredths of a second where the machine has nothing else to do.
settle() { sleep 0.5; }
# without_kernel COMMAND...: the command succeeds although the kernel forwards nothing.
without_kernel() {
    in_middle sysctl -qw net.ipv4.ip_forward=0 net.ipv6.conf.all.forwarding=0
    "$@"
    local status=$?
    in_middle sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1
    return $status
}

# make_more: what a test has besides.
make_more() { :; }

# are_up: Millrace has made the taps and started them. Before that Linux has no route to their networks.
are_up() {
    local name
    for name in lan0 wan0; do ip -n $middle link show $name up | grep -q $name || return 1; done
}

# start_router: from here on the router is at work, as process $running; $comes_up_within has seconds for it.
start_router() {
    { make_network && make_more; } > "$folder/last" 2>&1 ||
        { cat "$folder/last"; skip "this machine does not allow network namespaces with virtual interfaces"; }
    configuration > "$folder/router.yaml"
    ip netns exec $middle "$millrace" run "$folder/router.yaml" --device "$device" --output "$folder/out" \
        --json "$folder/report.json" > "$folder/millrace.out" 2> "$folder/millrace.log" &
    running=$!
    processes+=($running)
    within "${comes_up_within:-30}" are_up || { failed "Millrace comes up"; cat "$folder"/millrace.*; exit 1; }
    expect "the taps take addresses" make_addresses
}
# report CONDITION: holds for the closing table (r), its chains by name (c) and the statistics of the first one's first
# function, the router's mostly (s).
report() {
    python3 - "$folder/report.json" "$1" << 'PYTHON'
import json, sys
r = json.load(open(sys.argv[1]))
c = {chain["name"]: chain for chain in r["chains"]}
s = r["chains"][0]["nfs"][0]["statistics"]
if not eval(sys.argv[2]): sys.exit(json.dumps(r, indent=1))
PYTHON
}
