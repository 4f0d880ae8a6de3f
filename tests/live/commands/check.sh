#!/usr/bin/env bash
# `millrace check` tells the mistakes of ports and chains in one pass, and neither it nor `explain` makes a file.
# usage: check.sh MILLRACE
set -u
millrace=$(realpath "$1")
# shellcheck source=tests/live/own_folder.sh
. "$(dirname "${BASH_SOURCE[0]}")/../own_folder.sh"
cd "$folder" || exit 1

cat > bad.yaml << 'YAML'
version: 1
ports:
  a: {pcapp: x.pcap}
  b: {sink: {keep: -1}}
chains:
  x: {input: z, nfs: [firewal]}
YAML
"$millrace" check bad.yaml > said 2>&1
[[ $? -eq 2 ]] || fail "the exit status is not 2"
for place in 3:6 4:20 6:14 6:23 "4 mistakes"; do grep -q "$place" said || fail "no mention of $place"; done

cat > good.yaml << 'YAML'
version: 1
output: results
ports: {a: {source: {count: 1000}}, b: {output: b.pcap}}
chains:
  x: {input: a, output: b, nfs: [mirror]}
YAML
for command in check explain; do
    "$millrace" $command good.yaml > said 2>&1 || fail "$command refuses a sound configuration"
    [[ ! -e results && ! -e b.pcap ]] || fail "$command has made a file"
done
# A capture of a link type that has no Ethernet form (802.11) is sound, but gives no packet: both say so.
printf '\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x69\0\0\0' > wireless.pcap
printf 'version: 1\nports: {a: {pcap: wireless.pcap}, b: {sink: {}}}\nchains: {x: {input: a, output: b, nfs: [mirror]}}\n' > wireless.yaml
for command in "check wireless.yaml" "run wireless.yaml --quiet --output wireless"; do
    # shellcheck disable=SC2086
    "$millrace" $command > said 2> warned || { cat warned; fail "$command fails"; }
    grep -q "wireless.yaml:2:.*warning: link type IEEE802_11" warned ||
        fail "$command says nothing of a capture that gives no packet"
done
# Lines are shown of the configuration, whatever its mode, and of no other file that not everybody may read: one may
# name any file, and who runs the program need not be who reads what it says.
printf 'root:$6$saltsalt$hash:19000:0:99999:7:::\n%.0s' 1 2 3 4 5 6 7 8 9 > secret
for name in "firewall: {file: secret}" "firewall: {classbench: secret}" "nids: {rules: [secret]}" \
    "switch: {file: secret}" \
    "router: {routes: [secret], next-hops: {a: {port: b}}}"; do
    printf 'version: 1\nports: {a: {source: {}}, b: {sink: {}}}\nchains: {x: {input: a, output: b, nfs: [%s]}}\n' \
        "$name" > named.yaml
    chmod 600 secret named.yaml
    "$millrace" check named.yaml > said 2>&1 && fail "$name: no mistake was found"
    if [[ $EUID -eq 0 ]]; then grep -q 'saltsalt$hash' said && fail "$name: shows a line that is not for everybody"; fi
    chmod 644 secret
    "$millrace" check named.yaml > said 2>&1
    grep -q 'saltsalt$hash' said || fail "$name: does not show a line that everybody may read"
done
printf 'version: 1\nfirwall: {}\n' > private.yaml
chmod 600 private.yaml
"$millrace" check private.yaml > said 2>&1
grep -q '^    firwall: {}' said || fail "a line of the configuration is not shown"
"$millrace" run good.yaml --quiet > said 2>&1 || fail "the run failed"
[[ -s results/b.pcap && ! -e b.pcap ]] || fail "the capture is not in the output folder"
# Without /sys DPDK has no processors to count, and a page of words for that.
if [[ $EUID -eq 0 ]] && unshare -m true 2> /dev/null; then
    unshare -m bash -c 'mount -t tmpfs none /sys && exec "$0" run good.yaml --quiet --output without' \
        "$millrace" > said 2>&1 && fail "it runs without /sys"
    [[ $(wc -l < said) -eq 1 ]] && grep -q "mount /sys" said || fail "it does not say that /sys is missing"
fi
echo "check tells all, and writes nothing"
