#!/usr/bin/env bash
# A router's table becomes a large one while Linux gets thousands of routes, and a small one when it gives them up. No
# packet to others is lost meanwhile, and memory goes with the routes.
# usage: router_growth.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
# shellcheck source=tests/live/linux_network.sh
. "$here/../linux_network.sh"

# table: "routes-looked-up bytes-of-tables resyncs", as of now.
table() {
    "$millrace" show chains --json --socket "$folder/out/millrace.sock" | python3 -c '
import json, sys
s = json.load(sys.stdin)["chains"][0]["nfs"][0]["statistics"]
print(*(s[name] for name in ("routes-ipv4", "table-bytes", "resyncs")))'
}
# is_table ROUTES LEAST MOST: so many routes more than at first are looked up, in tables of LEAST to MOST bytes.
is_table() {
    local routes bytes
    read -r routes bytes _ < <(table)
    echo "$routes routes in $bytes bytes"
    ((routes == before + $1 && bytes >= $2 && bytes <= $3))
}
none_lost() { cat "$1"; python3 -c 'import json, sys; s = json.load(open(sys.argv[1])); sys.exit(s["lost"] != 0 or s["sent"] < 1000)' "$1"; }
# routes COMMAND: for 6,000 prefixes, each in a /16 of its own.
routes() { for ((i = 0; i < 6000; i++)); do echo "route $1 blackhole $((30 + i % 60)).$((i / 60)).1.0/25"; done; }

start_router
expect "the server is found" within 20 in_client ping -c 1 -W 0.5 192.0.2.10
sleep 1.5  # what the kernel was asked again as links and addresses came is over
read -r before bytes resyncs < <(table)
expect "the table is small" is_table 0 1 $((4 << 20))
routes add > "$folder/add"
routes del > "$folder/del"
python3 "$here/convergence.py" stream $client $server 192.0.2.10 8 1000 > "$folder/stream" &
stream=$!
sleep 0.3
for turn in first second; do
    expect "the routes come" ip -n $middle -batch "$folder/add"
    expect "the $turn time: the table is large" within 10 is_table 6000 $((32 << 20)) $((48 << 20))
    expect "the routes go" ip -n $middle -batch "$folder/del"
    expect "the $turn time: the table is small again" within 10 is_table 0 1 $((4 << 20))
done
wait $stream
expect "nothing is lost meanwhile" none_lost "$folder/stream"
expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"]'
conclude
