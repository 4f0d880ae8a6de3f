#!/usr/bin/env bash
# `millrace check` tells the mistakes of ports and chains in one pass, and neither it nor `explain` makes a file.
# usage: check.sh MILLRACE
set -u
millrace=$(realpath "$1")
folder=$(mktemp -d /tmp/millrace-check-XXXXXX)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
fail() { echo "FAILED: $1"; cat said; exit 1; }

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
"$millrace" run good.yaml --quiet > said 2>&1 || fail "the run failed"
[[ -s results/b.pcap && ! -e b.pcap ]] || fail "the capture is not in the output folder"
echo "check tells all, and writes nothing"
