#!/usr/bin/env bash
# FRR and BIRD as they come from the distribution, one as the router's control plane, the other as its neighbour: BGP
# over IPv4 and IPv6, OSPF of both versions and BFD go up
# through the taps, their routes are forwarded by Millrace alone, and packets to
# others go on while thousands of routes flap, and while a daemon is killed and started again.
# usage: routing_daemons.sh MILLRACE DEVICE frr|bird [TABLE SECONDS]
# DAEMON is the router's. With TABLE, a list of prefixes, those are announced in place of 20,000 made up ones, and the
# figures of docs/benchmarks/control-plane.md are printed: a line of JSON for each.
set -u
millrace=$1 device=$2 daemon=$3 table=${4:-} stream_seconds=${5:-4}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
PATH=$PATH:/usr/sbin:/usr/lib/frr
need bird birdc zebra bgpd ospfd ospf6d bfdd vtysh traceroute
# shellcheck source=tests/live/linux_network.sh
. "$here/../linux_network.sh"
# FRR's daemons give up root, and write where they may.
chmod 755 "$folder" && mkdir "$folder/frr" && chown frr:frr "$folder/frr" || exit 1
cd "$folder" || exit 1

# start NAME NAMESPACE COMMAND...: in the background, with its output in NAME.out and its number in $last.
start() {
    local name=$1 where=$2
    shift 2
    ip netns exec "$where" "$@" > "$name.out" 2>&1 &
    last=$!
    processes+=("$last")
}
vty() { vtysh --vty_socket "$folder/frr" -c "$1"; }
bird_says() { birdc -s "$folder/bird.ctl" "$@"; }
# plane: how many prefixes Millrace looks up.
plane() {
    "$millrace" show chains --json --socket "$folder/out/millrace.sock" | python3 -c '
import json, sys
s = json.load(sys.stdin)["chains"][0]["nfs"][0]["statistics"]
print(s["routes-ipv4"] + s["routes-ipv6"])'
}
has_routes() { local now; now=$(plane) && ((now >= $1)); }
has_no_more() { local now; now=$(plane) && ((now <= $1)); }

# --- routes ---
make_routes() {
    if [[ -n $table ]]; then tr -d '\r' < "$table" > all
    else
        python3 -c '
for i in range(16000): print(f"{20 + i // 8000}.{i // 250 % 32}.{i % 250}.0/24")
for i in range(4000): print(f"2001:db8:{0x1000 + i:x}::/48")' > all
    fi
    grep -v : all | sed 's/.*/route & blackhole;/' > table4
    grep : all | sed 's/.*/route & blackhole;/' > table6
    # What flaps overlaps with none of the made up ones, and covers the stream's target by nothing longer.
    python3 -c '
for i in range(5000): print(f"route 100.{64 + i // 250}.{i % 250}.0/24 blackhole;")' > flaps4
    routes=$(wc -l < all)
}

# --- daemons: what each is told, by the side on which it stands ---
# frr_files AS ADDRESS PEER-AS PEER ADDRESS6 PEER6 INTERFACE
frr_files() {
    echo "hostname frr" > zebra.conf
    [[ $7 != eth0 ]] || echo "ip route 203.0.113.0/24 blackhole" >> zebra.conf
    cat > bgpd.conf << EOT
router bgp $1
 bgp router-id $2
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 no bgp network import-check
 neighbor $4 remote-as $3
 neighbor $4 timers 3 9
 neighbor $4 timers connect 1
 neighbor $4 bfd
 neighbor $6 remote-as $3
 neighbor $6 timers 3 9
 neighbor $6 timers connect 1
 address-family ipv4 unicast
  neighbor $4 activate
 exit-address-family
 address-family ipv6 unicast
  neighbor $6 activate
 exit-address-family
EOT
    cat > ospfd.conf << EOT
interface $7
 ip ospf network point-to-point
 ip ospf hello-interval 1
 ip ospf dead-interval 4
router ospf
 ospf router-id $2
 network 192.0.2.0/24 area 0
 network 198.51.100.1/32 area 0
EOT
    cat > ospf6d.conf << EOT
interface $7
 ipv6 ospf6 area 0
 ipv6 ospf6 network point-to-point
 ipv6 ospf6 hello-interval 1
 ipv6 ospf6 dead-interval 4
interface lo
 ipv6 ospf6 area 0
 ipv6 ospf6 passive
router ospf6
 ospf6 router-id $2
EOT
    echo "hostname frr" > bfdd.conf
}
start_frr() {  # NAMESPACE
    local own=(-u frr -g frr -z "$folder/frr/zserv.api" --vty_socket "$folder/frr" -A 127.0.0.1) name
    rm -f frr/zserv.api
    start zebra "$1" zebra "${own[@]}" -i "$folder/frr/zebra.pid" -f zebra.conf
    zebra=$last
    within 10 test -S frr/zserv.api || return 1
    start bfdd "$1" bfdd "${own[@]}" --bfdctl "$folder/frr/bfdd.ctl" -i "$folder/frr/bfdd.pid" -f bfdd.conf
    within 10 test -S frr/bfdd.ctl || return 1
    for name in bgpd ospfd ospf6d; do start $name "$1" $name "${own[@]}" -i "$folder/frr/$name.pid" -f $name.conf; done
}
# bird_file AS ADDRESS PEER-AS PEER ADDRESS6 PEER6 INTERFACE
bird_file() {
    {
        echo "router id $2;"
        echo "protocol device { scan time 1; }"
        echo "protocol bfd { interface \"$7\" { interval 100 ms; multiplier 3; }; }"
        local family name other exported
        for family in 4 6; do
            exported="where source = RTS_STATIC"
            if [[ $7 == eth0 ]]; then
                for name in table flaps; do
                    [[ -f $name$family ]] || continue
                    printf 'protocol static %s { disabled; ipv%s {};\ninclude "%s";\n}\n' $name$family $family \
                        $name$family
                done
            else
                # A router's own kernel: what is connected and what somebody else sets stays as it is.
                printf 'protocol kernel kernel%s { ipv%s { import none; export where source ~ [ RTS_BGP, RTS_OSPF, RTS_OSPF_EXT1, RTS_OSPF_EXT2, RTS_OSPF_IA ]; }; merge paths on; }\n' $family $family
                exported=none
            fi
            if ((family == 4)); then name=$2 other=$4; else name=$5 other=$6; fi
            cat << EOT
protocol bgp bgp$family {
  local $name as $1;
  neighbor $other as $3;
  connect retry time 1; connect delay time 1; error wait time 1, 2; hold time 9; keepalive time 3;
  $( ((family == 4)) && echo "bfd on;" )
  ipv$family { import all; export $exported; next hop self; };
}
EOT
        done
        cat << EOT
protocol ospf v2 ospf4 {
  ipv4 { import where net != 192.0.2.0/24; export none; };
  area 0 {
    interface "$7" { type pointopoint; hello 1; dead 4; };
    interface "lo" { stub; };
  };
}
protocol ospf v3 ospf6 {
  ipv6 { import where net != 2001:db8:20::/64; export none; };
  area 0 {
    interface "$7" { type pointopoint; hello 1; dead 4; };
    $([[ $7 != eth0 ]] || echo "stubnet 2001:db8:99::1/128;")
  };
}
EOT
    } > bird.conf
}
start_bird() { start bird "$1" bird -f -c bird.conf -s "$folder/bird.ctl"; bird=$last; }

# Asked of whichever speaks; both sides must have seen it for these to hold.
bgp_is_up() { (($(bird_says show protocols | grep -c 'BGP.*Established') == 2)); }
ospf_is_up() { vty "show ip ospf neighbor" | grep -q Full && bird_says show ospf neighbors ospf4 | grep -q -i full; }
ospf3_is_up() { vty "show ipv6 ospf6 neighbor" | grep -q Full &&
    bird_says show ospf neighbors ospf6 | grep -q -i full; }
bfd_is_up() { vty "show bfd peers" | grep -q 'Status: up' && bird_says show bfd sessions | grep -q Up; }
bfd_is_down() { ! { vty "show bfd peers" | grep -q 'Status: up'; }; }

# pings_samples: some addresses of what was announced answer, by Millrace alone.
pings_samples() {
    local address
    for address in $(shuf -n 20 --random-source=<(yes) all | sed 's,/.*,,; s,\.0$,.1,; s,::$,::1,'); do
        in_client ping -c 1 -W 1 "$address" > /dev/null || in_client ping -c 1 -W 1 "$address" > /dev/null ||
            { echo "no answer from $address"; return 1; }
    done
}
pings() { in_client ping -c 2 -i 0.1 -W 1 "$@"; }
# record NAME BEGIN END: a figure, where figures are wanted.
record() { [[ -z $table ]] ||
    echo >> figures "{\"what\": \"$1\", \"daemon\": \"$daemon\", \"prefixes\": $routes, \"seconds\": $2}"; }
elapsed() { python3 -c "print(round($(date +%s.%N) - $1, 2))"; }
# timed NAME SECONDS COMMAND...: awaits it, and tells how long that took.
timed() {
    local name=$1 limit=$2 begin; shift 2
    begin=$(date +%s.%N)
    within "$limit" "$@" || return 1
    record "$name" "$(elapsed "$begin")"
}
# none_lost FILE: all packets of a stream arrived, and it was one.
none_lost() { cat "$1"; python3 -c 'import json, sys; s = json.load(open(sys.argv[1])); sys.exit(s["lost"] != 0 or s["sent"] < 1000)' "$1"; }

make_routes
start_router
# The server has every address that is announced, and two that only OSPF tells of.
ip -n $server address add 198.51.100.1/32 dev lo && ip -n $server address add 2001:db8:99::1/128 dev lo nodad
ip -n $server route del default && ip -n $server route add 10.0.10.0/24 via 192.0.2.1
ip -n $server -6 route del default && ip -n $server route add 2001:db8:10::/64 via 2001:db8:20::1
ip -n $server route add local 0.0.0.0/0 dev lo table main && ip -n $server route add local ::/0 dev lo table main
expect "the server is found" within 15 in_client ping -c 1 -W 0.5 192.0.2.10
expect "and its IPv6 address" within 5 in_client ping -c 1 -W 0.5 2001:db8:20::10

router=(65001 192.0.2.1 65002 192.0.2.10 2001:db8:20::1 2001:db8:20::10 wan0)
peer=(65002 192.0.2.10 65001 192.0.2.1 2001:db8:20::10 2001:db8:20::1 eth0)
if [[ $daemon == frr ]]; then
    frr_files "${router[@]}"; bird_file "${peer[@]}"
    start_frr $middle && start_bird $server
else
    frr_files "${peer[@]}"; bird_file "${router[@]}"
    start_frr $server && start_bird $middle
fi
expect "BGP is up, over IPv4 and IPv6" within 30 bgp_is_up
expect "OSPF is up" within 30 ospf_is_up
expect "OSPFv3 is up" within 30 ospf3_is_up
expect "BFD is up" within 30 bfd_is_up
expect "a network that OSPF tells of is reached" within 20 in_client ping -c 1 -W 0.3 198.51.100.1
settle
expect "without the kernel" within 20 without_kernel pings 198.51.100.1
expect "one that OSPFv3 tells of, too" within 20 in_client ping -c 1 -W 0.3 2001:db8:99::1
settle
expect "without the kernel" within 20 without_kernel pings 2001:db8:99::1
before=$(plane)

if [[ $daemon == frr ]]; then
    announce() { bird_says enable "$1"4 > /dev/null; [[ ! -f ${1}6 ]] || bird_says enable "$1"6 > /dev/null; }
    withdraw() { bird_says disable "$1"4 > /dev/null; [[ ! -f ${1}6 ]] || bird_says disable "$1"6 > /dev/null; }
    announce table
    expect "$routes routes of BGP are at work" timed "table announced" 120 has_routes $((before + routes - 100))
    settle
    expect "packets to them are forwarded without the kernel" without_kernel pings_samples
    # Untouched prefixes lose nothing while others flap.
    python3 "$here/convergence.py" stream $client $server 198.51.100.1 "$stream_seconds" 1000 > stream.json &
    stream=$!
    ip -n $middle monitor route > monitor &  # what the kernel makes of it
    monitor=$!
    processes+=($monitor)
    begin=$(date +%s.%N)
    while kill -0 $stream 2> /dev/null; do
        announce flaps; sleep 0.4
        withdraw flaps; sleep 0.4
    done
    wait $stream
    kill $monitor; wait $monitor 2> /dev/null
    flapped=$(grep -c '100\.' monitor)
    record "flaps, $flapped changes, beside a stream $(tr -d '{}"' < stream.json)" "$(elapsed "$begin")"
    expect "there were flaps" test "$flapped" -ge 20000
    expect "nothing is lost while routes change" none_lost stream.json
    kill -STOP $bird
    expect "BFD sees within three seconds that the neighbour is silent" within 3 bfd_is_down
    expect "and its routes are gone" timed "table gone" 120 has_no_more $((before + 100))
    kill -CONT $bird
    expect "the neighbour comes back" within 60 bgp_is_up
    expect "and its routes" within 120 has_routes $((before + routes - 100))
    withdraw table
    expect "what is withdrawn is not looked up any more" timed "table withdrawn" 120 has_no_more $((before + 100))
    kill -KILL "$zebra" && wait "$zebra" 2> /dev/null
    expect "without the daemon packets go on" without_kernel pings 198.51.100.1
else
    # FRR announces by its configuration.
    { echo "configure terminal"; echo "router bgp 65002"; echo "address-family ipv4 unicast"
      sed -n 's/^route \(.*\) blackhole;/network \1/p' flaps4 | head -1000; } > announce.vty
    vtysh --vty_socket "$folder/frr" -f announce.vty > /dev/null 2>&1
    expect "1000 routes of BGP are at work" within 60 has_routes $((before + 1000))
    settle
    expect "packets to them are forwarded without the kernel" without_kernel pings 100.64.7.1
    kill -STOP "$(cat frr/bfdd.pid)"
    expect "BFD sees within three seconds that the neighbour is silent" within 3 has_no_more $((before + 100))
    kill -CONT "$(cat frr/bfdd.pid)"
    expect "the routes come back" within 60 has_routes $((before + 1000))
    kill -KILL "$bird" && wait "$bird" 2> /dev/null
    expect "without the daemon packets go on" without_kernel pings 100.64.7.1
    rm -f bird.ctl
    start_bird $middle
    expect "started again it finds its neighbours" within 60 bgp_is_up
    expect "and sets the routes of before" without_kernel within 30 in_client ping -c 1 -W 0.3 100.64.7.1
fi
expect "traceroute sees the router" bash -c "ip netns exec $client traceroute -n -w 1 -q 1 198.51.100.1 2>&1 | tee /dev/stderr | grep -q '^ *1 *10.0.10.1 '"

expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"] and c["router"]["in-flight"] == 0'
expect "the kernel was followed" report 's["generations"] >= 10 and s["malformed-messages"] == 0'
((failures == 0)) || { for file in "$folder"/millrace.* ./*.out; do echo "--- $file"; tail -20 "$file"; done; }
[[ -z $table ]] || cat figures
echo "$daemon on $device: $failures failures, $SECONDS s"
((failures == 0))
