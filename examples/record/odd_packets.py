"""Sends frames that no ordinary socket sends: malformed headers, options, extension headers, old protocols."""
import logging

logging.getLogger("scapy").setLevel(logging.ERROR)
from scapy.all import (ARP, GRE, ICMP, IP, TCP, UDP, Dot1AD, Dot1Q, Ether, IPv6, IPv6ExtHdrDestOpt,  # noqa: E402
                       IPv6ExtHdrHopByHop, IPv6ExtHdrRouting, PadN, Raw, conf, sendp)

conf.verb = 0
eth = Ether(src="02:00:00:00:10:10", dst="02:00:00:00:00:01")
v4 = IP(src="10.0.10.27", dst="192.0.2.66", id=7)
v6 = IPv6(src="2001:db8:10::27", dst="2001:db8:20::66")
frames = [
    eth / v4.copy() / UDP(sport=4000, dport=9999) / b"",
    eth
    / IP(src="10.0.10.27", dst="192.0.2.66", options=[b"\x94\x04\x00\x00"])
    / UDP(sport=4001, dport=9)
    / b"router alert",
    eth
    / IP(src="10.0.10.27", dst="192.0.2.66", options=[b"\x83\x07\x04\xc0\x00\x02\x42\x00"])
    / ICMP()
    / b"source route",
    eth / IP(src="10.0.10.27", dst="192.0.2.66", ihl=4) / b"ihl too small",
    eth / IP(src="10.0.10.27", dst="192.0.2.66", len=1400, proto=17) / b"longer than the frame",
    eth / IP(src="10.0.10.27", dst="192.0.2.66", version=5) / b"version five",
    eth / v4.copy() / UDP(sport=4002, dport=53, len=4) / b"udp length below its header",
    eth / v4.copy() / TCP(sport=4003, dport=80, dataofs=3) / b"tcp offset too small",
    eth / IP(src="10.0.10.27", dst="192.0.2.66", chksum=0x1234) / UDP(sport=4004, dport=9) / b"wrong checksum",
    eth / IP(src="192.0.2.66", dst="192.0.2.66") / TCP(sport=139, dport=139, flags="S"),
    eth / IP(src="127.0.0.1", dst="192.0.2.66") / UDP(sport=4005, dport=9) / b"loopback source",
    eth / IP(src="10.0.10.27", dst="192.0.2.66", ttl=1) / UDP(sport=4006, dport=33434) / b"last hop",
    eth / IP(src="10.0.10.27", dst="192.0.2.66", ttl=0) / UDP(sport=4007, dport=33434) / b"no hop",
    eth / v4.copy() / TCP(sport=4008, dport=80, flags="SF") / b"",
    eth / v4.copy() / TCP(sport=4009, dport=80, flags="SR") / b"",
    eth / v4.copy() / GRE() / IP(src="10.9.9.1", dst="10.9.9.2") / UDP(sport=1, dport=2) / b"inside GRE",
    eth / v4.copy() / ICMP(type=5, code=1, gw="10.0.10.66") / IP(src="10.0.10.27", dst="192.0.2.10") / UDP(),
    eth / v4.copy() / ICMP(type=13) / bytes(12),
    eth / IP(src="10.0.10.27", dst="192.0.2.66", proto=132) / bytes(24),
    eth / IP(src="10.0.10.27", dst="192.0.2.66", frag=4000, proto=17) / bytes(600),
    eth / v6 / IPv6ExtHdrHopByHop(options=[PadN(optdata=b"\0\0\0\0")]) / UDP(sport=4010, dport=9) / b"hop by hop",
    eth
    / v6
    / IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0\0\0\0")])
    / UDP(sport=4011, dport=9)
    / b"destination options",
    eth / v6 / IPv6ExtHdrRouting(type=0, addresses=["2001:db8:20::10"]) / UDP(sport=4012, dport=9) / b"routing type 0",
    eth / IPv6(src="2001:db8:10::27", dst="2001:db8:20::66", plen=900, nh=17) / b"longer than the frame",
    eth / IPv6(src="2001:db8:10::27", dst="2001:db8:20::66", hlim=1) / UDP(sport=4013, dport=9) / b"last hop",
    eth
    / Dot1AD(vlan=100)
    / Dot1Q(vlan=10)
    / IP(src="10.0.20.11", dst="192.0.2.66")
    / UDP(sport=4014, dport=9)
    / b"double tag",
    eth / Dot1Q(vlan=999) / IP(src="10.0.99.11", dst="192.0.2.66") / UDP(sport=4015, dport=9) / b"unknown VLAN",
    Ether(src="02:00:00:00:10:10", dst="ff:ff:ff:ff:ff:ff") / ARP(psrc="10.0.10.27", pdst="10.0.10.200"),
    Ether(src="02:00:00:00:10:10", dst="01:80:c2:00:00:0e", type=0x88CC)
    / Raw(b"\x02\x07\x04\x02\x00\x00\x00\x10\x10" + bytes(50)),
    Ether(src="02:00:00:00:10:10", dst="01:00:5e:00:00:fb")
    / IP(src="10.0.10.27", dst="224.0.0.251", ttl=1)
    / UDP(sport=5353, dport=5353)
    / b"multicast",
    eth / Raw(b"\x45"),
]
sendp(frames, iface="eth0", inter=0.002)
