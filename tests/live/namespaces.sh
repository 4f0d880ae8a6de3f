# shellcheck shell=bash
# What live tests have in common: network namespaces that go away again, and steps that hold or do not. To be sourced.
# shellcheck source=tests/live/own_folder.sh
. "$(dirname "${BASH_SOURCE[0]}")/own_folder.sh"
# need TOOL...: leaves the test out where it cannot run.
need() {
    local tool
    [[ $EUID -eq 0 ]] || skip "network namespaces need root"
    for tool in "$@"; do command -v "$tool" > /dev/null || skip "there is no '$tool' on this machine"; done
}

namespaces=()  # deleted with the test
clean_up_more() {
    local name
    for name in "${namespaces[@]}"; do
        ip netns pids "$name" 2> /dev/null | xargs --no-run-if-empty kill -KILL  # what went to the background
        ip netns del "$name" 2> /dev/null
    done
}

# two_hosts CLIENT MIDDLE SERVER: three network namespaces; from mr-lan and mr-wan in the middle one, cables to eth0 in
# the others, with MAC addresses that configurations know. Offloads stay as the system sets them: hosts leave checksums
# and the cutting of segments to a network card that is not there. Without IPv6, which would only add chatter of its
# own.
two_hosts() {
    local client=$1 middle=$2 server=$3 name
    for name in "$@"; do
        ip netns add "$name" || return 1
        ip netns exec "$name" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 \
            net.ipv6.conf.default.disable_ipv6=1 2> /dev/null
        ip -n "$name" link set lo up
    done
    ip -n "$middle" link add mr-lan type veth peer name eth0 netns "$client" || return 1
    ip -n "$middle" link add mr-wan type veth peer name eth0 netns "$server" || return 1
    ip -n "$client" link set eth0 address 02:00:00:00:10:10 && ip -n "$server" link set eth0 address 02:00:00:00:20:10
    for name in mr-lan mr-wan; do ip -n "$middle" link set $name up || return 1; done
    ip -n "$client" link set eth0 up && ip -n "$server" link set eth0 up
}
# routed HOST GATEWAY MAC: the host's way to others, by a neighbour that does not answer ARP.
routed() {
    ip -n "$1" route add default via "$2" && ip -n "$1" neigh replace "$2" lladdr "$3" dev eth0 nud permanent
}
# routed_hosts CLIENT ADDRESS MIDDLE SERVER ADDRESS: two_hosts with an IPv4 address (/24) each, whose way to the other
# is the first address of its network.
routed_hosts() {
    two_hosts "$1" "$3" "$4" || return 1
    ip -n "$1" address add "$2" dev eth0 && ip -n "$4" address add "$5" dev eth0 || return 1
    routed "$1" "${2%.*}.1" 02:00:00:00:00:01 && routed "$4" "${5%.*}.1" 02:00:00:00:00:02
}

failures=0
passed() { echo "ok      $*"; }
failed() { echo "FAILED  $*"; failures=$((failures + 1)); }
# expect WHAT COMMAND...: the command succeeds;  refuse WHAT COMMAND...: it does not.
expect() {
    local what=$1
    shift
    if "$@" > "$folder/last" 2>&1; then passed "$what"; else failed "$what: $*"; cat "$folder/last"; fi
}
refuse() {
    local what=$1
    shift
    if "$@" > "$folder/last" 2>&1; then failed "$what: $*"; cat "$folder/last"; else passed "$what"; fi
}
# ends_in_order PROCESS: a run that is told to end does so, and has nothing to complain of.
ends_in_order() {
    kill -TERM "$1"
    wait "$1" || { echo "exit status $? after SIGTERM"; return 1; }
}
# conclude: how many expectations failed, and where some did, what Millrace said; the last command of a script.
conclude() {
    ((failures == 0)) || { echo "--- millrace said:"; cat "$folder"/millrace.*; }
    echo "$device: $failures failures, $SECONDS s"
    ((failures == 0))
}
# within SECONDS COMMAND...: tries until it succeeds.
within() {
    local end=$((SECONDS + $1)); shift
    until "$@" > /dev/null 2>&1; do ((SECONDS < end)) || return 1; sleep 0.1; done
}

# port_is_unreachable NAMESPACE ADDRESS PORT: a datagram is answered by an error. The socket is connected, and so hears
# of errors only when they come from whom it is connected to.
port_is_unreachable() {
    ip netns exec "$1" python3 - "$2" "$3" << 'PYTHON'
import socket, sys
s = socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(2)
s.connect((sys.argv[1], int(sys.argv[2])))
s.send(b"anybody there?")
try:
    s.recv(100)
except ConnectionRefusedError:
    raise SystemExit(0)
raise SystemExit("an answer came")
PYTHON
}
# report CONDITION: whether it holds of the report $folder/report.json, `r`, and of its first chain, `c`.
report() {
    python3 - "$folder/report.json" "$1" << 'PYTHON'
import json, sys
r = json.load(open(sys.argv[1]))
c = r["chains"][0]
if not eval(sys.argv[2]): sys.exit(json.dumps(r, indent=1))
PYTHON
}
