"""Packets that no router should stumble over: for same_as_linux.py."""

import ipaddress
import random
import struct

ETH_IP, ETH_IP6, ETH_ARP, ETH_VLAN = 0x0800, 0x86DD, 0x0806, 0x8100
ROUTER_MAC = {"lan": "02:00:00:00:01:01", "wan": "02:00:00:00:02:01"}
HOST_MAC = {"lan": "02:00:00:00:01:10", "wan": "02:00:00:00:02:10"}
ROUTER = {"lan": ("10.0.10.1", "2001:db8:10::1"), "wan": ("192.0.2.1", "2001:db8:20::1")}


def mac(text):
    return bytes.fromhex(text.replace(":", ""))


def total(data):
    if len(data) % 2:
        data += b"\0"
    value = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while value >> 16:
        value = (value & 0xFFFF) + (value >> 16)
    return value


def checksum(data):
    return ~total(data) & 0xFFFF


class Maker:
    """Makes frames for one side of the router; each has a number of its own where it has a payload."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.number = 0

    def chance(self, share):
        return self.random.random() < share

    def address4(self, strange):
        r = self.random
        if self.chance(strange):
            return ipaddress.IPv4Address(r.choice([
                "0.0.0.0", "0.1.2.3", "127.0.0.1", "127.3.2.1", "224.0.0.5", "239.1.2.3", "240.0.0.1",
                "255.255.255.255",
                "169.254.1.1", "10.0.10.1", "192.0.2.1", "10.0.10.255", "192.0.2.255", "10.0.10.0", "192.0.2.0",
                str(ipaddress.IPv4Address(r.getrandbits(32)))])).packed
        return ipaddress.IPv4Address(r.choice([
            f"203.0.113.{r.randrange(256)}", "203.0.113.77",
            f"100.{64 + r.randrange(64)}.{r.randrange(6)}.{r.randrange(256)}",
            f"100.64.{r.randrange(6)}.{r.randrange(256)}", f"8.8.{r.randrange(256)}.{r.randrange(256)}", "10.0.10.10",
            "10.0.10.20", "192.0.2.10", "192.0.2.20", f"9.9.9.{r.randrange(256)}"])).packed

    def address6(self, strange):
        r = self.random
        if self.chance(strange):
            return ipaddress.IPv6Address(r.choice([
                "::", "::1", "::ffff:10.0.10.10", "fe80::1", "fe80::1:2", "ff02::5", "ff05::1:3", "ff0e::7",
                "2001:db8:10::1",
                "2001:db8:20::1", "2001:db8:10::", "2002::1", "fec0::1", "fd00::1",
                str(ipaddress.IPv6Address(r.getrandbits(128)))])).packed
        return ipaddress.IPv6Address(r.choice([
            f"2001:db8:100:{r.randrange(6):x}::{r.randrange(16):x}", "2001:db8:100:1::7",
            f"2600::{r.randrange(65536):x}",
            "2001:db8:10::10", "2001:db8:10::20", "2001:db8:20::10", "2001:db8:20::20",
            f"3fff::{r.randrange(9):x}"])).packed

    def transport(self):
        """Protocol number and bytes; checksums of transport are nobody's on the way."""
        r = self.random
        self.number += 1
        payload = struct.pack("!I", self.number) + r.randbytes(r.choice([0, 1, 22, 100, r.randrange(600),
                                                                         r.randrange(1440)]))
        kind = r.randrange(6)
        if kind < 3:
            return 17, struct.pack("!HHHH", r.getrandbits(16), r.choice([53, 4500, r.getrandbits(16)]),
                                   8 + len(payload), 0) + payload
        if kind == 3:
            return 6, struct.pack("!HHIIBBHHH", r.getrandbits(16), 80, r.getrandbits(32), 0, 0x50, r.getrandbits(6),
                                  1000, 0, 0) + payload
        return r.choice([1, 2, 47, 50, 58, 89, 132, 255, r.getrandbits(8)]), payload

    def ipv4(self):
        r = self.random
        protocol, body = self.transport()
        options = b""
        if self.chance(0.06):
            options = r.choice([bytes([7, 7, 4, 0, 0, 0, 0, 0]), bytes([0x94, 4, 0, 0]), bytes([1, 1, 1, 0]),
                                bytes([131, 7, 4, 8, 8, 8, 8, 0]), bytes([137, 7, 4, 192, 0, 2, 20, 0]),
                                r.randbytes(4 * r.randrange(1, 11))])
            options = options.replace(b"\x44", b"\x07")  # timestamps would differ from one moment to the next
        words = 5 + len(options) // 4
        length = 4 * words + len(body)
        fragment = r.choice([0x4000, 0, 0, 0x2000, r.getrandbits(16)]) if self.chance(0.3) else r.choice([0, 0x4000])
        version = 4
        if self.chance(0.03):
            length = r.choice([0, 19, length - 1, length + 1, length + 100, r.getrandbits(16)]) & 0xFFFF
        if self.chance(0.01):
            version, words = r.getrandbits(4), r.getrandbits(4)
        ttl = r.choice([64, 64, 64, 255, 2, 1, 0, r.getrandbits(8)])
        header = struct.pack("!BBHHHBBH", version << 4 | words, r.getrandbits(8) if self.chance(0.2) else 0, length,
                             r.getrandbits(16), fragment, ttl, protocol, 0)
        header += self.address4(0.04) + self.address4(0.08) + options
        header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
        if self.chance(0.02):
            header = header[:10] + r.randbytes(2) + header[12:]
        if self.chance(0.01):  # the other zero
            header = header[:10] + (b"\xff\xff" if header[10:12] == b"\0\0" else header[10:12]) + header[12:]
        return ETH_IP, header + body

    def ipv6(self):
        r = self.random
        next_header, body = self.transport()
        if self.chance(0.12):
            for _ in range(r.randrange(1, 4)):
                kind = r.choice([0, 43, 44, 60, 51, 135])
                if kind == 44:
                    head = struct.pack("!BBHI", next_header, 0, r.getrandbits(16), r.getrandbits(32))
                else:
                    content = r.choice([bytes([1, 4, 0, 0, 0, 0]), bytes([5, 2, 0, 0, 1, 0]), r.randbytes(6),
                                        bytes([0xC2, 4, 0, 0, 5, 0])])
                    head = bytes([next_header, 0]) + content
                next_header, body = kind, head + body
        length = len(body)
        if self.chance(0.03):
            length = r.choice([0, length - 1, length + 1, r.getrandbits(16)]) & 0xFFFF
        version = 6 if self.chance(0.99) else r.getrandbits(4)
        first = version << 28 | (r.getrandbits(28) if self.chance(0.3) else 0)
        hops = r.choice([64, 64, 64, 255, 2, 1, 0, r.getrandbits(8)])
        return ETH_IP6, struct.pack("!IHBB", first, length, next_header,
                                    hops) + self.address6(0.04) + self.address6(0.08) + body

    def frame(self, side):
        r = self.random
        ethertype, packet = self.ipv4() if self.chance(0.6) else self.ipv6()
        if self.chance(0.01):
            packet = packet[:r.randrange(len(packet) + 1)]
        if self.chance(0.02):
            packet += bytes(r.randrange(1, 30))  # padding
        if self.chance(0.005):
            ethertype = r.choice([ETH_IP, ETH_IP6, 0x8847, 0x88CC, 0x0600, 46, r.getrandbits(16)])
        if ethertype == ETH_ARP:
            ethertype = ETH_IP
        to = mac(ROUTER_MAC[side])
        if self.chance(0.03):
            to = r.choice([b"\xff" * 6, mac("01:00:5e:00:00:05"), mac("33:33:00:00:00:01"), mac("02:00:00:00:77:77"),
                           mac(ROUTER_MAC["wan" if side == "lan" else "lan"])])
        tag = struct.pack("!HH", ETH_VLAN, r.choice([0, 5, 0x2000, 4095])) if self.chance(0.01) else b""
        frame = to + mac(HOST_MAC[side]) + tag + struct.pack("!H", ethertype) + packet
        if is_neighbour_discovery(frame) or is_ping_of_router(frame):
            return self.frame(side)
        return frame[:1514]


def is_neighbour_discovery(frame):
    return frame[12:14] == b"\x86\xdd" and len(frame) > 54 and frame[20] == 58 and 133 <= frame[54] <= 137


def is_ping_of_router(frame):
    return frame[12:14] == b"\x08\x00" and len(frame) > 34 and frame[23] == 1 and frame[34] == 8


def is_cut_off(frame):
    """Whether a transport or extension header is not whole, or contradicts its packet: Millrace drops it as malformed,
    by name, where Linux' forwarding looks no further than IP."""
    if frame[12:14] == b"\x08\x00" and len(frame) >= 34:
        at, end, protocol = 14 + 4 * (frame[14] & 15), 14 + struct.unpack("!H", frame[16:18])[0], frame[23]
        fragment = struct.unpack("!H", frame[20:22])[0]
        offset, is_fragment = fragment & 0x1FFF, fragment & 0x3FFF != 0
    elif frame[12:14] == b"\x86\xdd" and len(frame) >= 54:
        at, end, protocol, offset, is_fragment = 54, 54 + struct.unpack("!H", frame[18:20])[0], frame[20], 0, False
        for _ in range(9):
            if protocol not in (0, 43, 44, 51, 60, 135) or offset:
                break
            if len(frame) < at + 8:
                return end <= len(frame)
            if end < at + 8:
                return True
            size = {44: 8, 51: (frame[at + 1] + 2) * 4}.get(protocol, (frame[at + 1] + 1) * 8)
            if protocol == 44:
                offset, is_fragment = struct.unpack("!H", frame[at + 2:at + 4])[0] >> 3, True
            if end < at + size:
                return True
            protocol, at = frame[at], at + size
        else:
            return True
    else:
        return False
    if end > len(frame):  # no router forwards it
        return False
    if offset:
        return False
    if protocol == 6:
        return end < at + 20 or frame[at + 12] >> 4 < 5 or at + (frame[at + 12] >> 4) * 4 > end
    if protocol == 17:
        length = struct.unpack("!H", frame[at + 4:at + 6])[0] if end >= at + 8 else 0
        return length < 8 or (not is_fragment and at + length > end)
    return protocol in (1, 58) and end < at + 8
