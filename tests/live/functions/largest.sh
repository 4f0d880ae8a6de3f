#!/usr/bin/env bash
# Every network function with the largest inputs that are published, run by the program on the cpu and on a device, the
# first of MILLRACE_TEST_DEVICES (sim): packets come out, nothing crashes, and the device does all the work itself.
# usage: largest.sh MILLRACE SOURCE DATA [CASE…]
set -u
millrace=$(realpath "$1") source=$(realpath "$2") data=$3
shift 3
# shellcheck source=tests/live/own_folder.sh
. "$(dirname "${BASH_SOURCE[0]}")/../own_folder.sh"
[[ -e $data/classbench/large/acl1_100k.xz ]] || skip "no rule sets and tables in '$data' (docs/data.md)"
data=$(realpath "$data")
cd "$folder" || exit 1
failures=0
other=${MILLRACE_TEST_DEVICES:-sim}
other=${other%%,*}

# run_case NAME PACKETS: runs nf.yaml, the entry of `nfs:`, over so many packets of the recorded traffic on both
# devices.
run_case() {
    local name=$1 packets=$2 device status begin
    {
        printf 'version: 1\noutput: out\nports:\n  in: {source: {replay: "%s", count: %s}}\n  out: {sink: {}}\n  aside: {sink: {}}\n' \
            "$source/examples/traffic.pcap" "$packets"
        printf 'chains:\n  c:\n    input: in\n    output: out\n    punt: aside\n    nfs:\n'
        cat nf.yaml
    } > "$name.yaml"
    for device in cpu "$other"; do
        begin=$SECONDS
        timeout 120 "$millrace" run "$name.yaml" --device $device --quiet --json "$name.$device.json" > said 2>&1
        status=$?
        if ((status != 0)) || ! judge "$name.$device.json" $device "$packets"; then
            echo "FAILED: $name on $device: status $status"
            tail -5 said
            ((++failures))
        else
            echo "$name on $device: $(judge "$name.$device.json" $device "$packets"), $((SECONDS - begin)) s"
        fi
    done
    if ! same_counts "$name"; then
        echo "FAILED: cpu and $other count differently for $name"
        ((++failures))
    fi
}

# judge FILE DEVICE PACKETS: packets came out, none is lost, and of a device's none was decided by the CPU.
judge() {
    python3 - "$@" << 'PYTHON'
import json, sys
report, device, packets = json.load(open(sys.argv[1])), sys.argv[2], int(sys.argv[3])
chain = report["chains"][0]
out = chain["sent-packets"] + chain["punted"]
by_cpu = chain["retried-on-cpu"] + chain["kept-on-cpu"]
good = report["conserved"] and chain["received-packets"] == packets and out > packets // 100 and chain["in-flight"] == 0
# Some packets say only on the device that more of them is needed, such as those with many IP options.
if device != "cpu": good = good and by_cpu * 50 <= packets and chain["bytes-to-device"] > 0
print(f"{out} of {packets} out, {chain['dropped']} dropped, {by_cpu} by the CPU in place of the device")
sys.exit(not good)
PYTHON
}

# same_counts NAME: both devices decided alike.
same_counts() {
    python3 - "$1.cpu.json" "$1.$other.json" << 'PYTHON'
import json, sys
a, b = ({key: json.load(open(file))["chains"][0][key] for key in ("sent-packets", "sent-bytes", "dropped", "punted", "drops", "punts")} for file in sys.argv[1:])
if a != b: sys.exit(f"cpu {a}\ndevice {b}")
PYTHON
}

case_firewall() {  # 99,831 rules
    echo "      - firewall: {classbench: \"$data/classbench/large/acl1_100k.xz\", action: alternate, default: permit}" > nf.yaml
    run_case firewall 20000
}

case_firewall_ipc() {  # 99,759 rules that overlap
    echo "      - firewall: {classbench: \"$data/classbench/large/ipc1_100k.xz\", action: alternate, default: permit}" > nf.yaml
    run_case firewall_ipc 20000
}

case_nids() {  # all of Emerging Threats Open
    local rules
    rules=$(find "$data/ids-rules/et-open-2025" -name '*.rules*' | sort | sed 's/.*/"&"/' | paste -sd,)
    cat > nf.yaml << YAML
      - nids:
          rules: [$rules]
          classification: "$data/ids-rules/et-open-2025/classification.config"
          on-error: skip
YAML
    run_case nids 20000
}

case_router() {  # 901,899 IPv4 and 160,147 IPv6 prefixes
    cat > nf.yaml << YAML
      - router:
          routes: ["$data/routes/full-table-2025_v4v6_prefixes.txt.xz", {prefix: 10.0.0.0/8, via: a}, {prefix: 192.0.2.0/24, via: b}]
          next-hops: {a: {mac: "02:00:00:00:00:01"}, b: {mac: "02:00:00:00:00:02"}, c: {mac: "02:00:00:00:00:03"}}
YAML
    run_case router 100000
}

case_ipsec() {  # 4,096 tunnels
    python3 - > nf.yaml << 'PYTHON'
print("      - ipsec:\n          mtu: 9000\n          default: bypass\n          sas:")
for i in range(4096):
    print(f"            - {{name: t{i}, direction: out, spi: {0x1000 + i}, local: 192.0.2.1, remote: 198.51.{i >> 8}.{i & 255}, cipher: aes-128-ctr, "
          f"key: \"{i:032x}\", nonce: \"{i:08x}\", auth-key: \"{i + 1:040x}\"}}")
print("          policies:")
for i in range(4096):
    print(f"            - {{src: 0.0.0.0/0, dst: 10.{i >> 4}.{(i & 15) << 4}.0/20, action: protect, sa: t{i}}}")
print("            - {src: 0.0.0.0/0, dst: 0.0.0.0/0, action: protect, sa: t0}")
PYTHON
    run_case ipsec 20000
}

case_switch() {  # 100,000 flows, and those of ClassBench-ng over twelve fields
    # The tool that made them writes no protocol, which OpenFlow asks for, no actions, and ports that nobody has.
    xz -dc "$data/openflow/of1_10000.flows.xz" | tr -d ' ' | awk '!/in_port/ && NF {
        line = "priority=" (NR % 3 + 1) "," $0
        if (/nw_/ && !/eth_type/) line = line ",ip"
        if (/tp_/ && !/nw_proto/) line = line ",nw_proto=17"
        print line ",actions=" (NR % 2 ? "output:2" : "drop")
    }' > flows
    # And as many more flows as a table may have by default.
    awk 'BEGIN { for (i = 0; i < 100000; ++i) printf "priority=4,tcp,nw_src=10.%d.%d.%d,tp_dst=%d,actions=output:2\n", i / 65536, i / 256 % 256, i % 256, i % 60000 + 1 }' >> flows
    echo 'priority=0,actions=output:2' >> flows
    echo '      - switch: {file: flows}' > nf.yaml
    run_case switch 20000
}

# Tables of state may have 16 Mi entries; here as many as the simulated device has memory for, which is 1 GiB.
case_conntrack() {  # 2 Mi connections, before rules for their states and 99,831 others
    cat > nf.yaml << YAML
      - conntrack: {max-flows: 2097152, check-windows: false}
      - name: states
        firewall: {default: permit, rules: ["deny ip state invalid"]}
      - firewall: {classbench: "$data/classbench/large/acl1_100k.xz", action: alternate, default: permit}
YAML
    run_case conntrack 20000
}

case_nat() {  # 1.5 Mi external ports of eight addresses, and 10,000 port forwards
    python3 - > nf.yaml << 'PYTHON'
print("      - nat:\n          inside: [10.0.0.0/8, 192.168.0.0/16]\n          pool: 198.51.100.0/29\n          forwards:")
for i in range(10000):
    print(f"            - {{protocol: {('tcp', 'udp')[i % 2]}, address: 203.0.113.{i % 250 + 1}, port: {i // 250 + 1}, to: 10.{i >> 8}.{i & 255}.7, to-port: 8080}}")
PYTHON
    run_case nat 20000
}

case_nat64() {  # as many ports, and 10,000 port forwards, some of servers that were recorded; a few flows from inside
    python3 - > nf.yaml << 'PYTHON'
print("      - nat64:\n          inside: [2001:db8::/32]\n          pool: 198.51.100.0/29\n          forwards:")
for i in range(10000):
    print(f"            - {{protocol: {('tcp', 'udp')[i % 2]}, address: 192.0.2.{i // 2 % 250 + 1}, port: {i // 500 + 71}, to: \"2001:db8::{i:x}\", to-port: 8080}}")
PYTHON
    run_case nat64 20000
    python3 -c 'import json; nf = json.load(open("nat64.cpu.json"))["chains"][0]["nfs"][0]; assert nf["outcomes"]["inbound"]["packets"] > 500, nf' ||
        { echo "FAILED: nat64 has translated next to nothing"; ((++failures)); }
}

case_tunnel() {  # 32,766 tunnels of four kinds
    python3 - > nf.yaml << 'PYTHON'
kinds = ["gre, key: {0}", "gtp-u, teid-in: {1}, teid-out: {1}", "geneve, vni: {0}, macs: {{dst: '02:00:00:00:00:01', src: '02:00:00:00:00:02'}}", "ipip"]
print("      - tunnel:\n          local: 192.0.2.1\n          mtu: 9000\n          tunnels:")
for i in range(32766):
    to = f"10.{i >> 8}.{i & 255}.0/24" if i < 32765 else "0.0.0.0/0"
    print(f"            t{i}: {{kind: {kinds[i % 4].format(i, i + 1)}, remote: 198.51.{i >> 8}.{i & 255}, to: {to}}}")
PYTHON
    run_case tunnel 20000
}

case_policer() {  # 8 Mi buckets
    echo "      - policer: {rate: 100Gbps, per: flow, max-buckets: 8388608}" > nf.yaml
    run_case policer 20000
}

case_ipfix() {  # 2 Mi flows
    echo "      - ipfix: {file: flows.ipfix, max-flows: 2097152}" > nf.yaml
    run_case ipfix 20000
}

case_balancer() {  # 10,000 services with four back ends each
    python3 - > nf.yaml << 'PYTHON'
print("      - balancer:\n          services:")
for i in range(10000):
    ends = ", ".join(f"{{address: 10.{128 + (i >> 8)}.{i & 255}.{k + 1}, port: 8080}}" for k in range(4))
    print(f"            - {{address: 192.0.2.{i % 250 + 1}, protocol: {('tcp', 'udp')[i % 2]}, port: {i // 2 % 65535 + 1}, back-ends: [{ends}]}}")
PYTHON
    run_case balancer 20000
}

case_mirror() { echo "      - mirror:" > nf.yaml && run_case mirror 100000; }
case_reject() {
    echo "      - reject: {with: time-exceeded, from: [192.0.2.1, '2001:db8::1']}" > nf.yaml && run_case reject 100000
}
case_crc() { echo "      - crc: {mode: set}" > nf.yaml && run_case crc 100000; }

(($# > 0)) || set -- firewall firewall_ipc nids router ipsec switch conntrack nat nat64 tunnel policer ipfix balancer \
    mirror crc reject
for name in "$@"; do case_"$name"; done
((failures == 0)) || { echo "$failures failures"; exit 1; }
