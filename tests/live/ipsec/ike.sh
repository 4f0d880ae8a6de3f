#!/usr/bin/env bash
# A VPN gateway whose keys come from strongSwan: a client reaches a network behind another gateway, whose ESP is Linux'
# own, by SAs that the two IKE daemons agree upon and Millrace takes from the kernel. Rekeying by volume from both ends,
# which loses no packet; ESP in UDP, and what is too long. Where this machine's kernel has no ESP, all of it runs on one
# in user mode (own_kernel.py).
# usage: ike.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
charon=/usr/lib/ipsec/charon

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
need ip ping python3 swanctl
[[ -x $charon ]] || skip "there is no strongSwan on this machine"
# shellcheck source=tests/live/ipsec/vpn_gateway.sh
. "$here/vpn_gateway.sh"

control() { local namespace=$1; shift; ip netns exec "$namespace" swanctl "$@" --uri "unix://$folder/$namespace/vici"; }
# daemon NAMESPACE: an IKE daemon begins there.
daemon() {
    local at=$folder/$1
    mkdir -p "$at"
    cat > "$at/strongswan.conf" << CONF
charon {
  load = random nonce aes sha1 sha2 hmac kdf gmp kernel-netlink socket-default vici
  plugins { vici { socket = unix://$at/vici } }
  filelog { log { path = $at/log
    default = 1
    flush_line = yes } }
}
CONF
    # A second one would find the first one's file in /run.
    ip netns exec "$1" sh -c "mount -t tmpfs run /run && STRONGSWAN_CONF=$at/strongswan.conf exec $charon" > "$at/out" 2>&1 &
    processes+=($!)
    within 20 test -S "$at/vici"
}
# agree NAMESPACE ADDRESS PEER NET PEER-NET CHILD-OPTIONS CONNECTION-OPTIONS: what it may agree upon.
agree() {
    cat > "$folder/$1/swanctl.conf" << CONF
connections {
  both {
    version = 2
    local_addrs = $2
    remote_addrs = $3
    proposals = aes128-sha256-modp2048
    $7
    local { auth = psk
      id = $2 }
    remote { auth = psk
      id = $3 }
    children {
      net {
        local_ts = $4
        remote_ts = $5
        esp_proposals = aes128gcm16
        $6
      }
    }
  }
}
secrets { ike-both { secret = a-secret-for-tests } }
CONF
    control "$1" --load-all --file "$folder/$1/swanctl.conf"
}
# connect OPTIONS [CHILD-OPTIONS [CHILD-OPTIONS]]: both ends begin anew with these; then what ours, and the other end,
# wants of its SAs.
connect() {
    control $middle --terminate --ike both --force > /dev/null 2>&1
    agree $middle 192.0.2.1 192.0.2.10 10.0.10.0/24 203.0.113.10/32 "${2:-}" "$1" &&
        agree $server 192.0.2.10 192.0.2.1 203.0.113.10/32 10.0.10.0/24 "${3:-}" "$1" &&
        control $middle --initiate --child net --timeout 20
}
pings() { in_client ping -W 2 "$@" 203.0.113.10; }
# all_sizes BYTES...: one ping of each length, which must not be fragmented.
all_sizes() { local bytes; for bytes in "$@"; do pings -c 1 -M do -s "$bytes" || return 1; done; }
# told MTU ADDRESS: a longer ping is answered by an error from there, and one of that length goes through.
told() {
    in_client ip route flush cache
    pings -c 2 -i 0.2 -M do -s 1472 | tee "$folder/too-long" | grep -q "From $2 .*mtu = $1" ||
        { cat "$folder/too-long"; return 1; }
    pings -c 1 -M do -s $(($1 - 28))
}
# counted ADDRESS: the kernel has what was counted of an SA to that address.
counted() {
    in_middle ip -s xfrm state | awk -v to="$1" '/^src/ { own = $4 == to }
        own && /\(packets\)$/ && !/limit/ && !/ 0\(packets\)/ { found = 1 } END { exit !found }'
}
encapsulated() { in_middle ip xfrm state | grep -q "encap type espinudp"; }
# rekeyed NAMESPACE TIMES: so often at least that end has asked for new SAs, because its kernel or Millrace said so.
rekeyed() { (($(grep -c 'creating rekey job' "$folder/$1/log") >= $2)); }
# all_pings COUNT: none is lost, of many a second.
all_pings() {
    pings -q -i 0.005 -c "$1" > "$folder/pings"
    cat "$folder/pings"
    grep -q " $1 received" "$folder/pings"
}
short_lived="life_packets = 2000
        rekey_packets = 100
        rand_packets = 0"

comes_up_within=150  # a kernel in user mode has one processor, and takes long for new memory
start_router
expect "the other gateway is found" within 20 in_middle ping -c 1 -W 0.5 192.0.2.10
expect "IKE daemons begin" eval "daemon $middle && daemon $server"
expect "they agree upon SAs" connect ""
expect "the client reaches the network behind the other gateway" within 20 in_client ping -c 1 -W 0.5 203.0.113.10
expect "with packets of all lengths that fit" all_sizes 0 1 31 32 33 1000 1418
expect "what is too long is told to its sender" told 1446 10.0.10.1
expect "the kernel has what was sent" within 10 counted 192.0.2.10
expect "and what came" within 10 counted 192.0.2.1

expect "SAs that are replaced every 100 packets are agreed upon" connect "" "$short_lived"
expect "no packet is lost" all_pings 2000
expect "while they are" rekeyed $middle 20
expect "SAs that the other end replaces as often are agreed upon" connect "" "" "$short_lived"
expect "no packet is lost" all_pings 2000
expect "while they are" rekeyed $server 20

expect "ESP in UDP is agreed upon" connect "encap = yes"
expect "and used" encapsulated
expect "the client reaches the other network by it" within 10 in_client ping -c 1 -W 0.5 203.0.113.10
expect "with packets of all lengths that fit" all_sizes 0 1 31 32 33 1000 1410
expect "what is too long is told to its sender" told 1438 10.0.10.1
expect "IKE passes beside it" control $middle --rekey --ike both

expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"]'
expect "packets were protected, and answered" report 'all(c["from-lan"]["nfs"][0]["outcomes"][k]["packets"] >= n for k, n in (("protected", 4000), ("too-big-answered", 2)))'
expect "and taken out again" report 'c["from-wan"]["nfs"][0]["outcomes"]["unprotected"]["packets"] >= 4000'
expect "none was without an SA, forged, replayed or too old" report 'not any(k in c[name]["drops"] for k in ("ipsec.no-sa", "ipsec.bad-icv", "ipsec.replayed", "ipsec.expired") for name in ("from-lan", "from-wan"))'
if ((failures > 0)); then
    echo "--- millrace said:"; cat "$folder"/millrace.*
    for name in $middle $server; do echo "--- the IKE daemon of $name:"; tail -n 60 "$folder/$name/log"; done
fi
echo "$device: $failures failures, $SECONDS s"
((failures == 0))
