#!/usr/bin/env bash
# An ordinary user runs a chain over a capture: no right, no huge page, no home folder is needed.
# usage: unprivileged.sh MILLRACE SOURCE
set -u
millrace=$1 source=$2

# shellcheck source=tests/live/own_folder.sh
. "$(dirname "${BASH_SOURCE[0]}")/../own_folder.sh"
as_user=()
if [[ $EUID -eq 0 ]]; then
    command -v setpriv > /dev/null && getent passwd nobody > /dev/null ||
        skip "run as root, this needs 'setpriv' and the user 'nobody'"
    as_user=(setpriv --reuid nobody --regid "$(id -g nobody)" --clear-groups --bounding-set=-all --inh-caps=-all
        --no-new-privs env HOME=/nonexistent)
fi

# The tree may lie where only its owner looks.
cp "$millrace" "$folder/millrace"
cp "$source/examples/traffic.pcap" "$source/examples/firewall.rules" "$folder"
cat > "$folder/chain.yaml" << 'YAML'
version: 1
ports:
  lan: {pcap: traffic.pcap}
  wan: {output: out.pcap}
chains:
  all:
    input: lan
    output: wan
    nfs:
      - firewall: {file: firewall.rules, default: permit}
      - router:
          routes: [{prefix: 0.0.0.0/0, via: wan}, {prefix: "::/0", via: wan}]
          next-hops: {wan: {mac: "02:00:00:00:00:01"}}
YAML
chmod -R go+rX "$folder"
mkdir "$folder/results"
[[ $EUID -ne 0 ]] || chown nobody "$folder/results"

for device in cpu sim; do
    out=$folder/results/$device
    if ! (cd / && "${as_user[@]}" "$folder/millrace" run "$folder/chain.yaml" --device $device \
        --output "$out" --json "$folder/results/$device.json") \
        > "$folder/last" 2>&1; then
        echo "FAILED: an ordinary user's run on $device:"; cat "$folder/last"; exit 1
    fi
    [[ $(stat -c %s "$out/out.pcap") -gt 100000 ]] ||
        { echo "FAILED: $device wrote no capture"; cat "$folder/last"; exit 1; }
    grep -q '"conserved": true' "$folder/results/$device.json" ||
        { echo "FAILED: packets were lost on $device"; exit 1; }
done
cmp "$folder/results/cpu/out.pcap" "$folder/results/sim/out.pcap" ||
    { echo "FAILED: the devices' captures differ"; exit 1; }

# DPDK says nothing of a folder that another user has, and leaves none behind.
if [[ $EUID -eq 0 ]]; then
    mkdir -m 777 "$folder/tmp" "$folder/second"
    for runtime in "" "XDG_RUNTIME_DIR=$folder/results"; do  # the second is nobody's
        made=
        mkdir -m 700 /tmp/dpdk 2> /dev/null && made=yes
        # shellcheck disable=SC2086
        (cd / && env -u XDG_RUNTIME_DIR -u RUNTIME_DIRECTORY setpriv --reuid 54321 --regid 54321 --clear-groups \
            env HOME=/nonexistent TMPDIR="$folder/tmp" $runtime "$folder/millrace" run "$folder/chain.yaml" \
            --output "$folder/second/out") > "$folder/last" 2>&1
        status=$?
        [[ -z $made ]] || rmdir /tmp/dpdk
        ((status == 0)) && ! grep -q EAL "$folder/last" ||
            { echo "FAILED: another user is told of DPDK's folder (status $status):"; cat "$folder/last"; exit 1; }
        [[ -z $(ls -A "$folder/tmp") ]] || { echo "FAILED: left behind: $(ls "$folder/tmp")"; exit 1; }
    done
fi

# What it lacks the rights for, it says.
if "${as_user[@]}" "$folder/millrace" run "$folder/chain.yaml" --output /no-such-folder > "$folder/last" 2>&1; then
    echo "FAILED: a folder that can't be made went unnoticed"; exit 1
fi
grep -q /no-such-folder "$folder/last" ||
    { echo "FAILED: this message does not name the folder:"; cat "$folder/last"; exit 1; }
printf 'version: 1\nports: {a: {af_packet: lo}, b: {sink: {}}}\nchains: {x: {input: a, output: b}}\n' > "$folder/interface.yaml"
chmod go+r "$folder/interface.yaml"
if "${as_user[@]}" "$folder/millrace" run "$folder/interface.yaml" \
    --output "$folder/results/interface" > "$folder/last" 2>&1; then
    [[ $EUID -ne 0 ]] || { echo "FAILED: a packet socket without CAP_NET_RAW went unnoticed"; exit 1; }
else
    grep -q "interface.yaml:2:.*CAP_NET_RAW" "$folder/last" ||
        { echo "FAILED: this message does not name the right that is missing:"; cat "$folder/last"; exit 1; }
fi
# A file of somebody else: a capture, a configuration.
if [[ $EUID -eq 0 ]]; then
    install -m 600 "$folder/traffic.pcap" "$folder/closed.pcap"
    install -m 600 "$folder/chain.yaml" "$folder/closed.yaml"
    sed 's/traffic/closed/' "$folder/chain.yaml" > "$folder/closed-capture.yaml"
    chmod go+r "$folder/closed-capture.yaml"
    for command in check "run --output $folder/results/closed"; do
        for said in "closed-capture.yaml:3:15: error: .*closed.pcap: Permission denied" \
            "closed.yaml: error: Permission denied"; do
            # shellcheck disable=SC2086
            "${as_user[@]}" "$folder/millrace" $command "$folder/${said%%:*}" > "$folder/last" 2>&1
            status=$?
            ((status == 2)) && grep -q "$said" "$folder/last" ||
                { echo "FAILED: $command of ${said%%:*} ends with status $status:"; cat "$folder/last"; exit 1; }
        done
    done
fi
"${as_user[@]}" "$folder/millrace" doctor | grep -q 'optional *cap_net_raw' ||
    { [[ $EUID -ne 0 ]] || { echo "FAILED: the doctor does not miss the rights"; exit 1; }; }
echo "an ordinary user's runs on cpu and sim end well, with equal captures"
