#!/usr/bin/env bash
# Firewall and router between hosts that are as the system makes them, offloads and all, with Linux as the control
# plane: pings of every length, small datagrams at a rate, a TCP stream, and hosts that mean harm.
# usage: ordinary_network.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
need iperf3 tracepath arping ndisc6
# shellcheck source=tests/live/linux_network.sh
. "$here/../linux_network.sh"

with_firewall() {
    sed -i 's|^    nfs:$|    nfs:\n      - firewall: {default: permit, rules: ["deny tcp from any to any port 25", "deny udp from any to any port 25"]}|' \
        "$folder/router.yaml"
}
eval "$(declare -f configuration | sed '1s/configuration/configuration_of_the_example/')"
configuration() { configuration_of_the_example > "$folder/router.yaml"; with_firewall; cat "$folder/router.yaml"; }

# big_pings ADDRESS: every length from the first that is cut into fragments to the longest, in steps.
big_pings() {
    local length
    for length in 1472 1473 1480 2952 2953 4000 8191 16384 32768 50001 65506 65507; do
        in_client ping -c 2 -i 0.01 -W 1 -s $length "$1" | grep -q ' 2 received' ||
            in_client ping -c 2 -i 0.2 -W 2 -s $length "$1" | grep -q ' 2 received' ||
                { echo "not with $length"; return 1; }
    done
}
# stream NAME OPTION...: iperf3 to the server, or where the options say; its figures go to NAME.json.
stream() { local name=$1; shift; in_client iperf3 --client 192.0.2.10 --json "$@" > "$folder/$name.json"; }
figure() { python3 -c "import json, sys; e = json.load(open(sys.argv[1]))['end']; print($2)" "$folder/$1.json"; }
# dropped_by_receiver: datagrams for which the server's socket had no room, as where other programs keep it from a core.
dropped_by_receiver() { in_server awk '/^Udp:/ && $6 ~ /[0-9]/ {print $6}' /proc/net/snmp; }
all_datagrams() {
    local before after
    before=$(dropped_by_receiver)
    stream udp --udp --length 100 --bitrate 50M --time 2 --window 2M || return 1
    after=$(dropped_by_receiver)
    figure udp "f\"{e['sum']['lost_packets']} of {e['sum']['packets']} lost, $((after - before)) of them by the receiver\""
    [[ $(figure udp "e['sum']['packets'] > 1000 and e['sum']['lost_packets'] - $((after - before)) <= e['sum']['packets'] / 1000") == True ]]
}
# Who gets no core for long loses more, and not because of the network: the best of three times is looked at.
some_time_all_datagrams() {
    local time
    for time in 1 2 3; do all_datagrams && return; done
    return 1
}
memory() { awk '/VmRSS/ {print $2}' "/proc/$millrace_pid/status"; }
# grown_by_less KB COMMAND...
grown_by_less() {
    local most=$1 before now begin=$(($(date +%s%N) / 1000000)); shift
    before=$(memory)
    "$@" || return 1
    now=$(memory)
    echo "from $before to $now kB, in $(($(date +%s%N) / 1000000 - begin)) ms" | tee -a "$folder/figures"
    ((now - before < most))
}
# stops_growing KB COMMAND...: the first times touch memory that nothing had needed before; what is lost grows each
# time.
stops_growing() {
    local time
    for time in 1 2 3 4; do grown_by_less "$@" && return; done
    return 1
}
flaps() {
    local i
    for ((i = 0; i < 1000; ++i)); do echo "link set eth0 down"; echo "link set eth0 up"; done > "$folder/flaps"
    ip -n $server -batch "$folder/flaps"
    ip -n $server route replace default via 192.0.2.1
}
answers() { within 10 in_client ping -c 1 -W 0.5 192.0.2.10; }

start_router
millrace_pid=$(ip netns pids $middle | head -1)
for name in $server $middle; do
    ip netns exec $name iperf3 --server > "$folder/iperf3.$name.log" 2>&1 &
    processes+=($!)
done
expect "the server is found" within 15 in_client ping -c 1 -W 0.5 192.0.2.10
expect "and its IPv6 address" within 5 in_client ping -c 1 -W 0.5 2001:db8:20::10
settle
expect "fragments pass, up to the longest ping" without_kernel big_pings 192.0.2.10
expect "those of IPv6, too" without_kernel big_pings 2001:db8:20::10
expect "TCP passes with the offloads as they are" without_kernel stream tcp --time 2
expect "and not at a crawl" test "$(figure tcp "int(e['sum_received']['bits_per_second'] / 1e6)")" -gt 30
# By its tap, which has no offloads: in each frame that the wire has.
expect "TCP passes to the router itself" stream to-router --client 10.0.10.1 --time 1
expect "and from it" stream from-router --client 10.0.10.1 --time 1 --reverse
for name in to-router from-router; do
    expect "and not at a crawl" test "$(figure $name "int(e['sum_received']['bits_per_second'] / 1e6)")" -gt 30
done
expect "50 Mb/s of small datagrams lose next to none" without_kernel some_time_all_datagrams
expect "arping finds the router" in_client arping -c 2 -I eth0 10.0.10.1
expect "ndisc6 finds it" within 5 in_client ndisc6 -q 2001:db8:10::1 eth0
expect "tracepath sees the way" bash -c "ip netns exec $client tracepath -n 192.0.2.10 | tee /dev/stderr | grep -q 'reached'"

router_mac=$(ip -n $middle -brief link show lan0 | awk '{print $3}')
for kind in arp nd icmp; do
    expect "memory stays where 100,000 frames of hostile $kind come" stops_growing 65536 \
        in_client python3 "$here/hostile.py" eth0 "$router_mac" $kind 100000
    expect "and packets pass" answers
done
expect "a link that flaps a thousand times" grown_by_less 65536 flaps
expect "passes packets again" answers
ip -n $middle link set wan0 down && ip -n $middle link set wan0 up

for name in tcp to-router from-router; do
    echo "$name: $(figure $name "round(e['sum_received']['bits_per_second'] / 1e9, 2)") Gb/s"
done
cat "$folder/figures"
expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["router"]["in-flight"] == 0'
expect "and TCP passed in frames that nobody cut" python3 -c '
import json, sys
ports = {port["name"]: port["details"] for port in json.load(open(sys.argv[1]))["ports"]}
sys.exit(ports["lan"].get("uncut-received", 0) < 100 or ports["wan"].get("uncut-sent", 0) < 100)' "$folder/report.json"
conclude
