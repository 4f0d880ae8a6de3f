#!/usr/bin/env bash
# A part of os-ken's switch suite: flows, groups and packets as controllers make them, between virtual interfaces.
# usage: switch_suite.sh MILLRACE DEVICE PYTHON [EVERY [GROUP...]]    every EVERY-th case (1: all)
set -u
millrace=$1 device=$2 python=$3 every=${4:-16}
groups=("${@:5}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
need ip
"$python" -c "import os_ken.tests.switch.tester" 2> /dev/null ||
    skip "there is no os-ken for $python; scripts/setup installs it"

space=mr-$$-suite
namespaces=("$space")
make_network() {
    local i
    ip netns add $space || return 1
    ip netns exec $space sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1 2> /dev/null
    ip -n $space link set lo up
    for i in 1 2 3; do
        ip -n $space link add m$i type veth peer name t$i || return 1
        ip -n $space link set m$i up && ip -n $space link set t$i up
    done
}
make_network || skip "this machine does not allow network namespaces with virtual interfaces"
port=$((20000 + $$ % 20000))
cat > "$folder/suite.yaml" << YAML
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
      - switch: {controller: "tcp:127.0.0.1:$port", datapath-id: 0x1}
YAML
ip netns exec $space "$millrace" run "$folder/suite.yaml" --device "$device" --output "$folder/out" --quiet \
    > "$folder/log" 2>&1 &
processes+=($!)
if ip netns exec $space timeout 1500 "$python" "$here/switch_suite.py" --port "$port" --every "$every" \
    --list t1 t2 t3 "${groups[@]}"; then
    passed "os-ken's switch suite, on $device"
else
    failed "os-ken's switch suite, on $device"
    tail -n 20 "$folder/log"
fi
exit $((failures > 0))
