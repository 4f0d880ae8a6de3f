# shellcheck shell=bash
# A VPN gateway on Linux' SAs, between a client and a server that is the other gateway, and the network behind it. Where
# this machine's kernel has no ESP, the script begins anew on one in user mode. To be sourced behind namespaces.sh;
# needs what linux_network.sh needs.
has_esp() {
    unshare -n ip xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x1001 mode tunnel \
        aead 'rfc4106(gcm(aes))' 0x000102030405060708090a0b0c0d0e0f10111213 128 2> /dev/null
}
if ! has_esp && [[ -z ${OWN_KERNEL_RUNS:-} ]]; then
    rm -rf "$folder"
    OWN_KERNEL_RUNS=yes exec "$here/../own_kernel.py" bash "$0" "$@"
fi
# shellcheck source=tests/live/linux_network.sh
. "$here/../linux_network.sh"

make_more() { hide mr-lan mr-wan; }
# The network behind the other gateway is 203.0.113.10 alone, on its loopback interface (linux_network.sh).
configuration() {
    cat << YAML
version: 1
output: out
ports:
  lan: {af_packet: mr-lan, buffers: 1024}
  wan: {af_packet: mr-wan, buffers: 1024}
  lan-tap: {tap: lan0, descriptors: 256, buffers: 4608}
  wan-tap: {tap: wan0, descriptors: 256, buffers: 4608}
chains:
  from-lan:
    input: lan
    punt: lan-tap
    nfs:
      - ipsec: {kernel: true, sequence-file: $folder/sequences-lan, default: bypass, icmp-from: 10.0.10.1}
      - router: &router {kernel: {interfaces: {lan0: lan, wan0: wan}}}
  from-wan:
    input: wan
    punt: wan-tap
    nfs:
      - ipsec: {kernel: true, sequence-file: $folder/sequences-wan, default: bypass}
      - router: *router
  to-lan: {input: lan-tap, output: lan}
  to-wan: {input: wan-tap, output: wan}
YAML
}

