#!/usr/bin/env bash
# Open vSwitch's ovs-ofctl on Millrace's switch: many flows, bundles, and both by TLS.
# usage: ovs_tools.sh MILLRACE DEVICE [FLOWS]
set -u
millrace=$1 device=$2 flows=${3:-5000}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
need ip ovs-ofctl openssl

space=mr-$$-ovs
namespaces=("$space")
make_network() {
    ip netns add $space || return 1
    ip netns exec $space sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 2> /dev/null
    ip -n $space link set lo up
    for i in 1 2 3; do
        ip -n $space link add m$i type veth peer name t$i || return 1
        ip -n $space link set m$i up && ip -n $space link set t$i up
    done
}
make_network || skip "this machine does not allow network namespaces with virtual interfaces"

# certificate NAME ISSUER: a key and a certificate that the issuer has signed; "" makes an authority.
certificate() {
    local name=$folder/$1 issuer=$folder/$2
    openssl req -newkey rsa:2048 -nodes -keyout "$name.key" -out "$name.csr" -subj "/CN=$1" 2> /dev/null || return 1
    chmod 600 "$name.key"
    if [[ -z $2 ]]; then
        openssl x509 -req -in "$name.csr" -signkey "$name.key" -days 2 -out "$name.pem" \
            -extfile <(echo "basicConstraints=critical,CA:TRUE") 2> /dev/null
    else
        openssl x509 -req -in "$name.csr" -CA "$issuer.pem" -CAkey "$issuer.key" -CAcreateserial -days 2 \
            -out "$name.pem" 2> /dev/null
    fi
}
{ certificate ca "" && certificate other "" && certificate switch ca && certificate controller ca &&
    certificate stranger other; } || skip "openssl makes no certificates here"

port=$((20000 + $$ % 20000))
cat > "$folder/switch.yaml" << YAML
version: 1
ports:
  p1: {af_packet: m1}
  p2: {af_packet: m2}
  p3: {af_packet: m3}
chains:
  bridge:
    input: [p1, p2, p3]
    max-delay: 100us
    nfs:
      - switch:
          controller: ["ptcp:$port", "pssl:$((port + 1))"]
          tls: {certificate: switch.pem, key: switch.key, authorities: ca.pem}
YAML
ip netns exec $space "$millrace" run "$folder/switch.yaml" --device "$device" --output "$folder/out" --quiet \
    > "$folder/log" 2>&1 &
running=$!
processes+=($running)
switch=tcp:127.0.0.1:$port
secure=ssl:127.0.0.1:$((port + 1))
ofctl() { ip netns exec $space timeout 100 ovs-ofctl -O OpenFlow13 "$@"; }
# as WHO: ovs-ofctl by TLS, with that certificate.
as() {
    local who=$1
    shift
    ofctl --private-key="$folder/$who.key" --certificate="$folder/$who.pem" --ca-cert="$folder/ca.pem" "$@"
}
# has COUNT: so many flows are there.
has() { ofctl dump-aggregate $switch | grep -q "flow_count=$1$"; }

seq 0 $((flows - 1)) | awk '{printf "priority=%d,tcp,nw_dst=10.%d.%d.%d,actions=output:2\n", 100+$1%500, int($1/65536), int($1/256)%256, $1%256}' > "$folder/flows"
sed 's/,actions=.*//; s/priority=[0-9]*,//' "$folder/flows" > "$folder/matches"
sed 's/output:2/output:3/' "$folder/flows" > "$folder/others"
# timed WHAT COMMAND...: expected to succeed, and how long it took.
timed() {
    local begin=$EPOCHREALTIME
    expect "$@"
    awk -v begin="$begin" -v end="$EPOCHREALTIME" -v flows="$flows" \
        'BEGIN {printf "        %.2f s, %.0f us a flow\n", end - begin, 1e6 * (end - begin) / flows}'
}
expect "ovs-ofctl finds the switch" within 20 ofctl show $switch
timed "add-flows of $flows, a barrier behind each" ofctl add-flows $switch "$folder/flows"
expect "they are there" has "$flows"
timed "mod-flows of as many" ofctl --strict mod-flows $switch - < "$folder/others"
expect "they are as many as before" has "$flows"
timed "del-flows of as many" ofctl del-flows $switch - < "$folder/matches"
expect "they have gone" has 0
timed "add-flows of a bundle" ofctl --bundle add-flows $switch "$folder/flows"
expect "they are there" has "$flows"
expect "replace-flows of a bundle" ofctl --bundle replace-flows $switch <(head -n 10 "$folder/others")
expect "all others have gone" has 10
printf 'flow add priority=9,ip,actions=output:1\ngroup add group_id=9,type=indirect,bucket=output:2\nflow add priority=8,ip,actions=group:9\n' > "$folder/bundle"
expect "a bundle of flows and groups" ofctl bundle $switch "$folder/bundle"
expect "its flows are there" has 12
refuse "a bundle is refused whose last change is, as there is such a group already" ofctl bundle $switch \
    "$folder/bundle"
printf 'flow delete\nflow add priority=7,ip,actions=group:77\n' > "$folder/bad"
refuse "and one that leads to a group that there is not" ofctl bundle $switch "$folder/bad"
expect "which has changed nothing" has 12

expect "ovs-ofctl comes by TLS" as controller show $secure
timed "add-flows by TLS" as controller add-flows $secure "$folder/flows"
expect "they are there, too" has $((flows + 2))
refuse "a certificate of another authority is refused" as stranger show $secure
refuse "and so is who does not speak TLS" ofctl show tcp:127.0.0.1:$((port + 1))
chmod 644 "$folder/switch.key"
refuse "a key that others can read is none" "$millrace" check "$folder/switch.yaml"
cp "$folder/last" "$folder/check"
expect "which check says" grep -q "open to others than its owner" "$folder/check"
expect "SIGTERM ends the run in order" ends_in_order $running
((failures == 0)) || { echo "--- millrace said:"; tail -n 40 "$folder/log"; }
echo "$device: $failures failures, $SECONDS s"
((failures == 0))
