#!/usr/bin/env bash
# 30,000 changes of Linux' routes a second are followed without losing one, 10,000 where other work has the cores; and
# packets to others are not lost meanwhile. docs/benchmarks/control-plane.md has what an idle machine does.
# usage: route_flaps.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
# shellcheck source=tests/live/linux_network.sh
. "$here/../linux_network.sh"

# statistics: "routes-of-the-kernel routes-looked-up resyncs malformed", as of now. Neighbours are looked up, too.
statistics() {
    "$millrace" show chains --json --socket "$folder/out/millrace.sock" | python3 -c '
import json, sys
s = json.load(sys.stdin)["chains"][0]["nfs"][0]["statistics"]
print(*(s[name] for name in ("kernel-routes", "routes-ipv4", "resyncs", "malformed-messages")))'
}
# has_all: each prefix that flapped is looked up.
has_all() {
    local routes prefixes
    read -r routes prefixes _ < <(statistics)
    echo "$routes routes, $prefixes looked up"
    ((routes == before + 5000 && prefixes >= looked_up + 5000))
}
# told_once: no message was lost, after which the kernel would have been asked for everything again.
told_once() { local now; now=$(statistics); echo "$now"; [[ $now == *" $resyncs 0" ]]; }
none_lost() { cat "$1"; python3 -c 'import json, sys; s = json.load(open(sys.argv[1])); sys.exit(s["lost"] != 0 or s["sent"] < 1000)' "$1"; }
now() { date +%s%N; }
fast_enough() { echo "$1 changes a second"; (($1 >= 10000)); }

start_router
expect "the server is found" within 20 in_client ping -c 1 -W 0.5 192.0.2.10
sleep 1.5  # what the kernel was asked again as links and addresses came is over
read -r before looked_up resyncs _ < <(statistics)
python3 "$here/convergence.py" stream $client $server 192.0.2.10 2.5 1000 > "$folder/stream" &
stream=$!
sleep 0.3
begin=$(now)
python3 "$here/convergence.py" burst $middle 1.5 30000 stay > "$folder/burst"
expect "no change is missing" within 5 has_all
end=$(now)
changes=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["changes"])' "$folder/burst")
rate=$((changes * 1000000000 / (end - begin)))
expect "10,000 changes a second are followed" fast_enough $rate
echo "        $changes changes, $rate a second until the last was looked up"
expect "and none was lost on the way from the kernel" told_once
wait $stream
expect "nothing is lost meanwhile" none_lost "$folder/stream"
expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"]'
conclude
