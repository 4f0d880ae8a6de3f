#!/usr/bin/env python3
"""Floods a link, from the namespace in which it is called: ARP and neighbour discovery of invented hosts, and ICMP
errors that nobody has asked for.

usage: hostile.py INTERFACE ROUTER-MAC arp|nd|icmp COUNT
"""

import random
import socket
import struct
import sys

OWN4, ROUTER4, SERVER4 = "10.0.10.10", "10.0.10.1", "192.0.2.10"
ROUTER6, SERVER6 = "2001:db8:10::1", "2001:db8:20::10"
# So many invented hosts of each kind. Linux has room for 1,024 neighbours of each family, in all network namespaces
# together: a flood of more leaves none for other tests, which then wait for answers in vain.
HOSTS = 250


def checksum(data):
    data += b"\0" * (len(data) % 2)
    value = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while value >> 16:
        value = (value & 0xFFFF) + (value >> 16)
    return ~value & 0xFFFF


def ipv4(source, target, protocol, body):
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(body), 0, 0, 64, protocol, 0, source, target)
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + body


def icmpv6(source, target, body, hops=255):
    pseudo = source + target + struct.pack("!II", len(body), 58)
    body = body[:2] + struct.pack("!H", checksum(pseudo + body)) + body[4:]
    return struct.pack("!IHBB", 6 << 28, len(body), 58, hops) + source + target + body


def arp(rng, router):
    """Requests, answers that nobody asked for, and hosts that claim the router's or the server's address."""
    mac = b"\x02" + rng.randbytes(5)
    hosts = random.Random(rng.randrange(HOSTS))
    source = bytes([10, 0, 10, hosts.randrange(2, 255)]) if hosts.random() < 0.5 else hosts.randbytes(4)
    if source[3] == 10:  # the client's own stays what it is
        source = hosts.randbytes(4)
    target = socket.inet_aton(rng.choice([ROUTER4, ROUTER4, f"10.0.10.{rng.randrange(256)}"]))
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, rng.choice([1, 2])) + mac + source + bytes(6) + target
    return rng.choice([b"\xff" * 6, router]) + mac + b"\x08\x06" + body


def nd(rng, router):
    mac = b"\x02" + rng.randbytes(5)
    host = random.Random(rng.randrange(HOSTS)).randbytes(8)
    source = socket.inet_pton(socket.AF_INET6, "2001:db8:10::")[:8] + host
    target = socket.inet_pton(socket.AF_INET6, ROUTER6)
    kind = rng.choice([135, 136, 133])
    option = struct.pack("!BB", 1 if kind != 136 else 2, 1) + mac
    inside = {135: target, 136: source, 133: b""}[kind]
    body = struct.pack("!BBHI", kind, 0, 0, 0x60000000 if kind == 136 else 0) + inside + option
    return router + mac + b"\x86\xdd" + icmpv6(source, target, body)


def icmp(rng, router):
    """Fragmentation needed with a tiny MTU, redirects, unreachables, as if for the client's and router's packets."""
    own, server = socket.inet_aton(OWN4), socket.inet_aton(SERVER4)
    kind, code, rest = rng.choice([(3, 4, 68), (5, 1, 0x0A000A63), (3, 1, 0), (4, 0, 0), (11, 0, 0), (12, 0, 0)])
    inner = ipv4(socket.inet_aton(ROUTER4), server, 17, bytes(8))
    body = struct.pack("!BBHI", kind, code, 0, rest) + inner
    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    target = socket.inet_aton(rng.choice([ROUTER4, SERVER4]))
    return router + b"\x02\0\0\0\x66\x66" + b"\x08\0" + ipv4(rng.choice([own, rng.randbytes(4)]), target, 1, body)


def main(interface, router, kind, count):
    rng = random.Random(kind)
    mac = bytes.fromhex(router.replace(":", ""))
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    link.bind((interface, 0))
    make = {"arp": arp, "nd": nd, "icmp": icmp}[kind]
    for _ in range(count):
        try:
            link.send(make(rng, mac))
        except OSError:  # the queue is full
            pass


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
