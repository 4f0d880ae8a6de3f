#!/usr/bin/env bash
# How soon single changes of Linux' routes are at work in the data plane, and whether packets to others are lost while
# tens of thousands a second change. Tells lines of JSON; the figures of docs/benchmarks/control-plane.md.
# usage: route_changes.sh MILLRACE DEVICE [TABLE]
# With TABLE, a list of prefixes, the kernel has those routes first.
set -u
millrace=$1 device=$2 table=${3:-}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
# shellcheck source=tests/live/linux_network.sh
. "$here/../linux_network.sh"

# plane: what Millrace looks up, IPv4 and IPv6.
plane() {
    "$millrace" show chains --json --socket "$folder/out/millrace.sock" | python3 -c '
import json, sys
s = json.load(sys.stdin)["chains"][0]["nfs"][0]["statistics"]
print(json.dumps({name: s[name] for name in ("routes-ipv4", "routes-ipv6", "generations", "resyncs")}))'
}

start_router
if [[ -n $table ]]; then
    tr -d '\r' < "$table" |
        sed '/:/s/.*/route add & via 2001:db8:20::10/; /:/!s/.*/route add & via 192.0.2.10/' > "$folder/batch"
    ip -n $middle -force -batch "$folder/batch" > /dev/null 2>&1
fi
expect "the server is found" within 20 in_client ping -c 1 -W 0.5 192.0.2.10
settle
in_middle sysctl -qw net.ipv4.ip_forward=0
plane
for turn in 1 2 3; do python3 "$here/convergence.py" come $client $middle $server 203.0.113.10 192.0.2.10 60; done
for rate in 50000 100000; do
    python3 "$here/convergence.py" stream $client $server 192.0.2.10 6 1000 > "$folder/stream" &
    stream=$!
    sleep 0.5
    python3 "$here/convergence.py" burst $middle 5 $rate
    plane  # as many as before: each prefix has come and gone
    wait $stream && cat "$folder/stream"
done
kill -TERM $running
wait $running
expect "every packet is accounted for" report 'r["conserved"]'
((failures == 0))
