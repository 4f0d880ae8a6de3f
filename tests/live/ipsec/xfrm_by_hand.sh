#!/usr/bin/env bash
# Keys by `ip xfrm`, by the words of src/millrace/nf/ipsec/README.md: a tunnel to Linux' own ESP, and new keys under
# load, of which no packet is lost. Where this machine's kernel has no ESP, all of it runs on one in user mode
# (own_kernel.py).
# usage: xfrm_by_hand.sh MILLRACE DEVICE
set -u
millrace=$1 device=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
readme=$here/../../../src/millrace/nf/ipsec/README.md

# shellcheck source=tests/live/namespaces.sh
. "$here/../namespaces.sh"
need ip ping python3
# shellcheck source=tests/live/ipsec/vpn_gateway.sh
. "$here/vpn_gateway.sh"

# block NUMBER: of the README's section, for a shell.
block() {
    awk -v wanted="$1" '/^## / { own = $0 == "## Keys by other means" }
        own && /^```$/ { inside = 0 }
        own && inside && number == wanted
        own && /^```bash$/ { inside = 1; ++number }' "$readme"
}
# both_do NUMBER: what a block says, here, and at the other end the same SAs with policies the other way round.
both_do() {
    block "$1" > "$folder/here"
    sed 's/dir fwd/dir OUT/; s/dir out/dir in/; s/dir OUT/dir out/' "$folder/here" > "$folder/there"
    # There the policy for sending is about what comes here: by the SA that is inbound here.
    sed -i '/dir in/{n; s/ spi 0x[0-9]*//}; /dir out/{n; s/proto esp/proto esp spi 0x200'"$spi"'/}' "$folder/there"
    [[ -s $folder/here ]] && in_middle bash -e "$folder/here" && in_server bash -e "$folder/there"
}
new_keys() {
    OUT=0x$(od -An -tx1 -N20 /dev/urandom | tr -d ' \n') IN=0x$(od -An -tx1 -N20 /dev/urandom | tr -d ' \n')
    export OUT IN
}
spi=1
makes_a_tunnel() { new_keys; both_do 1; }
goes_over() {
    new_keys
    both_do 2 && sleep 1 && spi=2 && in_server ip xfrm policy update src 203.0.113.10/32 dst 10.0.10.0/24 dir out \
        tmpl src 192.0.2.10 dst 192.0.2.1 proto esp spi 0x2002 reqid 1 mode tunnel &&
        block 3 > "$folder/here" && in_middle bash -e "$folder/here" && sleep 1 && both_do 4
}
loses_nothing() {
    in_client ping -q -i 0.005 -c 1500 -W 2 203.0.113.10 > "$folder/pings" &
    local pings=$!
    sleep 1
    goes_over || return 1
    wait $pings
    cat "$folder/pings"
    grep -q " 1500 received" "$folder/pings"
}
has_new_ones_alone() {
    in_middle ip xfrm state > "$folder/states"
    (($(grep -c "spi 0x0000[12]002" "$folder/states") == 2)) && ! grep "spi 0x0000[12]001" "$folder/states"
}

comes_up_within=150  # a kernel in user mode has one processor, and takes long for new memory
start_router
expect "the other gateway is found" within 20 in_middle ping -c 1 -W 0.5 192.0.2.10
expect "the README's commands make a tunnel" makes_a_tunnel
expect "packets go through it" within 20 in_client ping -c 1 -W 0.5 203.0.113.10
expect "new keys by the README's commands lose no packet" loses_nothing
expect "the old ones have gone" has_new_ones_alone
expect "packets go on" in_client ping -c 3 -i 0.2 -W 2 203.0.113.10

expect "SIGTERM ends the run in order" ends_in_order $running
expect "every packet is accounted for" report 'r["conserved"]'
expect "packets were protected" report 'c["from-lan"]["nfs"][0]["outcomes"]["protected"]["packets"] >= 1500'
expect "and taken out again" report 'c["from-wan"]["nfs"][0]["outcomes"]["unprotected"]["packets"] >= 1500'
expect "none was without an SA, or replayed" report 'not any(k in c[name]["drops"] for k in ("ipsec.no-sa", "ipsec.bad-icv", "ipsec.replayed") for name in ("from-lan", "from-wan"))'
conclude
