#!/usr/bin/env python3
"""Chains of NAT44 and of NAT64 alone, and what they translate: translations.py FOLDER FLOWS

Writes nat.yaml and nat.pcap, nat64.yaml and nat64.pcap into FOLDER: FLOWS UDP datagrams of 18 B of payload, each of an
inside endpoint of its own, 256 to a host. Each has 60 B as IPv4 and 80 B as IPv6. The pools have ports enough, in
groups of 64, that no endpoint is without one. gateway.yaml is firewall, NAT44 and router for nat.pcap: 1,000 rules,
none of which is met, and 1,000 routes."""
import ipaddress
import pathlib
import struct
import sys

MACS = bytes.fromhex("020000000002020000000001")
PAYLOAD = b"eighteen bytes of."
HOSTS = 256  # endpoints to a host
GENERIC = "version: 1\nports:\n  in: {source: {size: 64}}\n  out: {sink: {}}\nchains:\n  c: "
CHAINS = {
    "nat": "{nat: {inside: 10.0.0.0/8, pool: 198.18.0.0/28}}",
    "nat64": '{nat64: {inside: "2001:db8::/32", pool: 198.18.0.0/28}}',
}
RULES = [f"deny udp from 172.16.{i // 4}.{i % 4 * 64}/26 to any port {1024 + i}" for i in range(1000)]
ROUTES = ["0.0.0.0/0"] + [f"192.0.{i // 250}.{i % 250}/32" for i in range(999)]
CHAINS["gateway"] = "{firewall: {default: permit, rules: [%s]}}, %s, {router: {next-hops: %s, routes: [%s]}}" % (
    ", ".join(RULES),
    CHAINS["nat"],
    '{peer: {mac: "02:00:00:00:00:fe", src-mac: "02:00:00:00:00:01"}}',
    ", ".join(f"{{prefix: {prefix}, via: peer}}" for prefix in ROUTES),
)


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF or 0xFFFF


def datagram(source, destination, port):
    length = 8 + len(PAYLOAD)
    udp = struct.pack("!HHHH", port, 53, length, 0) + PAYLOAD
    wrong = source + destination + struct.pack("!HH", 17, length) + udp
    return udp[:6] + struct.pack("!H", checksum(wrong)) + udp[8:]


def ipv4(host, port):
    source, destination = struct.pack("!I", 0x0A000001 + host), bytes([192, 0, 2, host & 255])
    udp = datagram(source, destination, port)
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0) + source + destination
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return MACS + b"\x08\x00" + header + udp


def ipv6(host, port):
    source = ipaddress.IPv6Address("2001:db8::").packed[:12] + struct.pack("!I", 1 + host)
    destination = ipaddress.IPv6Address("64:ff9b::").packed[:12] + bytes([192, 0, 2, host & 255])
    udp = datagram(source, destination, port)
    return MACS + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(udp), 17, 64) + source + destination + udp


def main():
    folder, flows = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    for name, functions in CHAINS.items():
        (folder / f"{name}.yaml").write_text(GENERIC + f"{{input: in, output: out, nfs: [{functions}]}}\n")
    for name, frame in (("nat", ipv4), ("nat64", ipv6)):
        with open(folder / f"{name}.pcap", "wb") as out:
            out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
            for i in range(flows):
                made = frame(i // HOSTS, 20000 + i % HOSTS)
                out.write(struct.pack("<IIII", 0, 0, len(made), len(made)) + made)


main()
