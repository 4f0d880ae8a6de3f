#!/usr/bin/env python3
"""Two routers with the same routes, neighbours and addresses get the same packets: Linux by itself, and Linux with
Millrace in front of it. What leaves, byte by byte, must be the same but for the differences that are named below.

Packets are random and adversarial: any TTL, options, fragments, extension headers, wrong checksums and lengths,
addresses that no packet should bear, frames for others, VLAN tags, broadcasts. Of what Linux itself makes (ICMP errors,
answers) identifications are left out, unreachables of IPv4, of which it makes a few a second, and what it tells seconds
later of neighbours that it has not found and of fragments that did not come.

usage: same_as_linux.py MILLRACE DEVICE [PACKETS [SEED]]
"""

import collections
import ctypes
import ipaddress
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from strange_packets import (ETH_ARP, ETH_IP, ETH_IP6, HOST_MAC, ROUTER, ROUTER_MAC, Maker, checksum, is_cut_off,
                             is_neighbour_discovery, mac)

SKIPPED = 77
CLONE_NEWNET = 0x40000000
BATCH = 40  # packets between two looks at what has left
PATIENCE = 10  # seconds for a marker
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
NEIGHBOURS = {"lan": ["10.0.10.10", "10.0.10.20", "2001:db8:10::10", "2001:db8:10::20"],
              "wan": ["192.0.2.10", "192.0.2.20", "2001:db8:20::10", "2001:db8:20::20"]}
ROUTES = ["203.0.113.0/24 via 192.0.2.10", "203.0.113.128/25 via 192.0.2.20", "203.0.113.77/32 via 10.0.10.20",
          "100.64.0.0/10 via 192.0.2.10", "100.64.1.0/24 via 10.0.10.10", "blackhole 100.64.2.0/24",
          "unreachable 100.64.3.0/24", "prohibit 100.64.4.0/24", "8.0.0.0/8 via 192.0.2.20",
          "240.0.0.0/4 via 192.0.2.20", "169.254.0.0/16 via 192.0.2.20",
          "2001:db8:100::/40 via 2001:db8:20::10", "2001:db8:100:1::/64 via 2001:db8:10::20",
          "2001:db8:100:1::7/128 via 2001:db8:20::20", "blackhole 2001:db8:100:2::/64",
          "unreachable 2001:db8:100:3::/64", "2600::/12 via 2001:db8:20::20"]
CHAINS = """
version: 1
output: out
idle: poll
ports:
  lan: {af_packet: mr-lan}
  wan: {af_packet: mr-wan}
  lan-tap: {tap: lan0}
  wan-tap: {tap: wan0}
chains:
  from-lan:
    input: lan
    punt: lan-tap
    max-delay: 20us
    nfs:
      - {router: &router {kernel: {interfaces: {lan0: lan, wan0: wan}}}, on: {no-route: punt}}
  from-wan:
    input: wan
    punt: wan-tap
    max-delay: 20us
    nfs:
      - {router: *router, on: {no-route: punt}}
  to-lan: {input: lan-tap, output: lan}
  to-wan: {input: wan-tap, output: wan}
"""


def run(*words, check=True):
    return subprocess.run(words, check=check, capture_output=True, text=True)


def ping(side, number):
    """Of the router itself: the answer says that Linux has come so far."""
    body = struct.pack("!BBHHH", 8, 0, 0, 0x4D52, number & 0xFFFF) + struct.pack("!I", number)
    body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
    source = NEIGHBOURS[side][0]
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 0, 0, 64, 1, 0)
    header += socket.inet_aton(source) + socket.inet_aton(ROUTER[side][0])
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return mac(ROUTER_MAC[side]) + mac(HOST_MAC[side]) + b"\x08\0" + header + body


# --- what leaves ---

def normal(frame):
    """Without what differs from run to run; None for what does not count."""
    ethertype = struct.unpack("!H", frame[12:14])[0]
    if ethertype == ETH_ARP or is_neighbour_discovery(frame):
        return None
    if ethertype == ETH_IP and len(frame) >= 34:
        source = socket.inet_ntoa(frame[26:30])
        if source in (ROUTER["lan"][0], ROUTER["wan"][0]):
            told = frame[14 + 4 * (frame[14] & 15):][:2]
            if frame[23] == 1 and (told == b"\x0b\1" or (told[:1] == b"\3" and told[1:] != b"\4")):
                return None
            if frame[23] == 2:  # IGMP
                return None
            return frame[:18] + b"\0\0" + frame[20:24] + b"\0\0" + frame[26:]
    if ethertype == ETH_IP6 and frame[20] == 0 and frame[38] == 0xFF:  # MLD
        return None
    # A neighbour was not found, or a fragment not completed, seconds later.
    if ethertype == ETH_IP6 and frame[20] == 58 and frame[54:56] in (b"\1\3", b"\3\1"):
        return None
    return frame


class Router:
    """A network namespace that routes between two cables, whose other ends are sockets here."""

    def __init__(self, name, millrace=None, device=None):
        self.name, self.process = name, None
        run("ip", "netns", "add", name)
        ports = {"lan": "lan0", "wan": "wan0"} if millrace is None else {"lan": "mr-lan", "wan": "mr-wan"}
        self.sysctl("net.ipv6.conf.default.accept_dad=0", "net.ipv6.conf.default.disable_ipv6=0")
        self.ends = f"{name}-out"
        run("ip", "netns", "add", self.ends)
        run("ip", "netns", "exec", self.ends, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        for side, port in ports.items():
            run("ip", "-n", name, "link", "add", port, "type", "veth", "peer", "name", side, "netns", self.ends)
            run("ip", "-n", self.ends, "link", "set", side, "address", HOST_MAC[side], "arp", "off", "up")
        if millrace is not None:
            self.start(millrace, device, ports)
        for side in ("lan", "wan"):
            self.set_up(side)
        self.sysctl("net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1", "net.ipv4.icmp_ratelimit=0",
                    "net.ipv6.icmp.ratelimit=0", "net.ipv4.conf.all.rp_filter=0",
                    "net.ipv6.auto_flowlabels=0", "net.ipv4.conf.all.send_redirects=0")
        for side in ("lan", "wan"):
            self.sysctl(f"net.ipv4.conf.{side}0.rp_filter=0", f"net.ipv4.conf.{side}0.send_redirects=0")
        self.sysctl("net.ipv4.icmp_msgs_per_sec=1000000", "net.ipv4.icmp_msgs_burst=1000000")
        for route in ROUTES:
            run("ip", "-n", name, *(["-6"] if ":" in route else []), "route", "add", *route.split())
        self.sockets = {side: self.open(side) for side in ("lan", "wan")}

    def sysctl(self, *settings):
        for setting in settings:
            run("ip", "netns", "exec", self.name, "sysctl", "-qw", setting, check=False)

    def start(self, millrace, device, ports):
        self.folder = tempfile.mkdtemp(prefix="millrace-same-")
        with open(f"{self.folder}/router.yaml", "w", encoding="utf-8") as file:
            file.write(CHAINS)
        for port in ports.values():
            self.sysctl(f"net.ipv6.conf.{port}.disable_ipv6=1")
            run("ip", "-n", self.name, "link", "set", port, "arp", "off", "up")
        self.log = open(f"{self.folder}/log", "w", encoding="utf-8")
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", self.name, millrace, "run", f"{self.folder}/router.yaml", "--device", device,
             "--output", f"{self.folder}/out", "--json", f"{self.folder}/report.json", "--quiet"],
            stdout=self.log, stderr=self.log)
        for _ in range(300):
            if os.path.exists(f"{self.folder}/out/millrace.sock"):  # the taps are made, and stay as they are now
                return
            time.sleep(0.1)
        raise RuntimeError("Millrace does not come up")

    def set_up(self, side):
        ip = ["ip", "-n", self.name]
        run(*ip, "link", "set", f"{side}0", "address", ROUTER_MAC[side], "up")
        for address, bits in zip(ROUTER[side], ("24", "64")):
            run(*ip, "address", "add", f"{address}/{bits}", "dev", f"{side}0", *(["nodad"] if ":" in address else []))
        for address in NEIGHBOURS[side]:
            run(*ip, "neigh", "replace", address, "lladdr", HOST_MAC[side], "dev", f"{side}0", "nud", "permanent")

    def open(self, side):
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        with open(f"/run/netns/{self.ends}", "rb") as file:
            if ctypes.CDLL(None).setns(file.fileno(), CLONE_NEWNET) != 0:
                raise OSError("can't enter a network namespace")
        end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        end.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        end.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE
        end.bind((side, 0))
        end.setblocking(False)
        ctypes.CDLL(None).setns(home, CLONE_NEWNET)
        os.close(home)
        return end

    def send(self, frames, marker):
        """Sends (side, frame) and then markers, twice: what was punted first is through with the second."""
        for side, frame in frames:
            self.sockets[side].send(frame)
        for side in ("lan", "wan"):
            self.sockets[side].send(ping(side, marker))

    def collect(self, marker):
        """What has left by each side until both markers came back."""
        left = {"lan": [], "wan": []}
        waiting = {"lan", "wan"}
        end = time.monotonic() + PATIENCE
        settled = None
        while waiting or time.monotonic() < settled:
            if time.monotonic() > end:
                raise RuntimeError(f"{self.name}: no answer to a ping by {waiting}")
            select.select(self.sockets.values(), [], [], 0.001)
            for side, end_of_cable in self.sockets.items():
                while True:
                    try:
                        frame = end_of_cable.recv(65536)
                    except BlockingIOError:
                        break
                    if frame[34:35] == b"\0" and frame[23:24] == b"\1" and frame[38:40] == b"MR":
                        if frame[-4:] == struct.pack("!I", marker):
                            waiting.discard(side)
                        continue
                    frame = normal(frame)
                    if frame is not None:
                        left[side].append(frame)
            if not waiting and settled is None:
                settled = time.monotonic() + 0.002  # answers overtake what goes the quick way
        return left

    def close(self):
        status = 0
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            status = self.process.wait(30)
            with open(f"{self.folder}/report.json", encoding="utf-8") as file:
                self.report = json.load(file)
            shutil.rmtree(self.folder)
        return status

    def __del__(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
        for name in (self.name, self.ends):
            run("ip", "netns", "del", name, check=False)


# --- the differences that are meant, in the order in which they are asked ---

def source4(frame):
    return ipaddress.IPv4Address(frame[26:30])


def target4(frame):
    return ipaddress.IPv4Address(frame[30:34])


def why(frame):
    """The name of the difference that is meant for this packet; None: it must be handled as Linux does."""
    if frame[12:14] == b"\x81\x00" and len(frame) >= 18:
        frame = frame[:12] + frame[16:]
    ethertype = struct.unpack("!H", frame[12:14])[0]
    if ethertype == ETH_IP and len(frame) >= 34:
        for address in (source4(frame), target4(frame)):
            if address.packed[0] in (0, 127):
                return "0.0.0.0/8 and 127.0.0.0/8 are not forwarded (RFC 1812, 5.3.7), and nobody is told"
            if address in ipaddress.ip_network("240.0.0.0/4"):
                return "class E is not forwarded (RFC 1812, 5.3.7)"
            if address in ipaddress.ip_network("169.254.0.0/16"):
                return "link-local addresses are not forwarded (RFC 3927, 2.7)"
        if str(source4(frame)) in ("10.0.10.1", "192.0.2.1", "10.0.10.255", "192.0.2.255", "10.0.10.0", "192.0.2.0"):
            return "the router's own and broadcast addresses as source are forwarded"
    if ethertype == ETH_IP6 and len(frame) >= 54:
        for part in (frame[22:38], frame[38:54]):
            address = ipaddress.IPv6Address(part)
            if address.ipv4_mapped is not None:
                return "IPv4-mapped addresses are not forwarded (RFC 6890)"
            if address.is_unspecified or address.is_loopback:
                return "unspecified and loopback addresses are not forwarded (RFC 4291, 2.5), and nobody is told"
            if address.is_link_local:
                return "link-local addresses are not forwarded (RFC 4291, 2.5.6), and nobody is told"
    if is_cut_off(frame):
        return "malformed transport and extension headers are dropped by name"
    return None


def without_padding(left):
    """Frames as long as IP says."""
    def trimmed(frame):
        if frame[12:14] == b"\x08\x00":
            return frame[:14 + struct.unpack("!H", frame[16:18])[0]]
        if frame[12:14] == b"\x86\xdd":
            return frame[:54 + struct.unpack("!H", frame[18:20])[0]]
        return frame
    return {side: [trimmed(frame) for frame in frames] for side, frames in left.items()}


def compare(linux, millrace, frames, marker):
    for router in (linux, millrace):
        router.send(frames, marker)
    return [router.collect(marker) for router in (linux, millrace)]


def differ(a, b):
    return any(collections.Counter(a[side]) != collections.Counter(b[side]) for side in ("lan", "wan"))


class Trial:
    """Gives packets to both, and keeps count of what comes of it."""

    def __init__(self, linux, ours):
        self.linux, self.ours = linux, ours
        self.marker, self.bad = 0, 0
        self.left, self.meant = collections.Counter(), collections.Counter()

    def compare(self, frames):
        self.marker += 1
        return compare(self.linux, self.ours, frames, self.marker)

    def run(self, frames):
        """What may differ goes one by one, as what follows on the same side would be compared with it."""
        alike = [(side, frame) for side, frame in frames if why(frame) is None]
        by_linux, by_ours = self.compare(alike)
        for side in ("lan", "wan"):
            self.left[side] += len(by_linux[side])
        if differ(by_linux, by_ours):
            padded = sum(((collections.Counter(by_linux[side]) - collections.Counter(by_ours[side])).total()
                          for side in ("lan", "wan")))
            if not differ(without_padding(by_linux), without_padding(by_ours)):
                self.meant["padding behind the IP packet stays"] += padded
            else:
                for side, frame in alike:
                    self.look_at(side, frame)
        for side, frame in frames:
            if (name := why(frame)) is not None:
                by_linux, by_ours = self.compare([(side, frame)])
                for out in ("lan", "wan"):
                    self.left[out] += len(by_linux[out])
                self.meant[name] += differ(without_padding(by_linux), without_padding(by_ours))

    def look_at(self, side, frame):
        by_linux, by_ours = self.compare([(side, frame)])
        if not differ(without_padding(by_linux), without_padding(by_ours)):
            return
        self.bad += 1
        if self.bad > 20:
            return
        print(f"DIFFERS by {side}: {frame.hex()}", flush=True)
        for who, result in (("Linux", by_linux), ("Millrace", by_ours)):
            for out in ("lan", "wan"):
                for one in result[out]:
                    print(f"  {who} sent by {out}: {one.hex()}", flush=True)


def main(millrace, device, packets=20000, seed=1):
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun") or shutil.which("ip") is None:
        print("SKIPPED: it takes root, iproute2 and /dev/net/tun")
        return SKIPPED
    try:
        kernel = Router(f"mr-{os.getpid()}-kernel")
    except subprocess.CalledProcessError as error:
        print("SKIPPED: this machine does not allow network namespaces with virtual interfaces:", error.stderr)
        return SKIPPED
    ours = Router(f"mr-{os.getpid()}-ours", millrace, device)
    time.sleep(1)
    compare(kernel, ours, [], 0xFFFFFF)  # both work
    trial = Trial(kernel, ours)
    maker = Maker(seed)
    sent = 0
    while sent < packets:
        frames = []
        for _ in range(min(BATCH, packets - sent)):
            side = maker.random.choice(["lan", "wan"])
            frames.append((side, maker.frame(side)))
        sent += len(frames)
        trial.run(frames)
    status = ours.close()
    report = {"device": device, "packets": sent, "seed": seed, "left-by-lan": trial.left["lan"],
              "left-by-wan": trial.left["wan"],
              "differ": trial.bad, "meant": dict(trial.meant)}
    print(json.dumps(report))
    chains = {chain["name"]: chain for chain in ours.report["chains"]}
    forwarded = sum(chains[name]["sent-packets"] for name in ("from-lan", "from-wan"))
    # Where a device is to run them it has, but for packets whose headers lie further in than what it was sent.
    left = {
        name: {what: chains[name][what] for what in ("received-packets", "batches", "retried-on-cpu", "kept-on-cpu")}
        for name in ("from-lan", "from-wan")
    }
    if "cpu" not in device and any(
        c["batches"] == 0 or c["kept-on-cpu"] or c["retried-on-cpu"] > c["received-packets"] // 5 for c in left.values()
    ):
        print(f"FAILED: {device} did not run the packets: {left}")
        return 1
    if status != 0 or not ours.report["conserved"]:
        print("FAILED: Millrace did not end in order")
        return 1
    if forwarded < sent // 5:
        print(f"FAILED: of {sent} packets Millrace itself forwarded {forwarded}")
        return 1
    return 1 if trial.bad else 0


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:3], *map(int, sys.argv[3:5])))
