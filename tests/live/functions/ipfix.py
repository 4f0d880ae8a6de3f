#!/usr/bin/env python3
"""IPFIX from outside: what the program exports is what its packets were, by a count of its own over captures, by a
collector of its own, by tshark and, where they are installed, by nfcapd and nfdump.

usage: ipfix.py MILLRACE DEVICE CAPTURE [DATA]
  CAPTURE  one with packets of many kinds
  DATA     the folder of captures that are compared, too (docs/data.md)
"""
import collections
import gzip
import json
import lzma
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import nfcapd

millrace, device, capture = os.path.realpath(sys.argv[1]), sys.argv[2], os.path.realpath(sys.argv[3])
data = pathlib.Path(sys.argv[4]) if len(sys.argv) > 4 else None
folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-ipfix-"))

PACKETS, OCTETS, REASON, PROTOCOL = 2, 1, 136, 4


def expect(condition, message):
    if not condition:
        print("FAILED:", message)
        sys.exit(1)


# --- a collector ---
class Collector:
    """Reads messages by the templates that come with them."""

    def __init__(self):
        self.templates, self.flows, self.options = {}, [], []
        self.sequence, self.missing, self.messages = {}, 0, 0

    def message(self, data, source="file"):
        version, length, _, sequence, domain = struct.unpack_from("!HHIII", data)
        expect(version == 10 and length == len(data), "a message's head")
        expected = self.sequence.get((source, domain), 0)
        self.missing += (sequence - expected) % 2**32
        before = len(self.flows) + len(self.options)
        at = 16
        while at < length:
            number, size = struct.unpack_from("!HH", data, at)
            expect(4 < size <= length - at, "a set's length")
            self.set(number, data[at + 4:at + size])
            at += size
        self.sequence[source, domain] = sequence + len(self.flows) + len(self.options) - before
        self.messages += 1

    def set(self, number, data):
        at = 0
        while at < len(data):
            if number in (2, 3):
                name, count = struct.unpack_from("!HH", data, at)
                at += 4 if number == 2 else 6
                fields = [struct.unpack_from("!HH", data, at + 4 * i) for i in range(count)]
                at += 4 * count
                self.templates[name] = (number == 3, fields)
                continue
            expect(number in self.templates, "records come before their template")
            is_option, fields = self.templates[number]
            record = {}
            for element, size in fields:
                if size == 0xFFFF:
                    size, at = data[at], at + 1
                record[element] = data[at:at + size]
                at += size
            expect(at <= len(data), "a record's end")
            (self.options if is_option else self.flows).append(record)

    def file(self, path):
        data = path.read_bytes()
        while data:
            length = struct.unpack_from("!H", data, 2)[0]
            self.message(data[:length])
            data = data[length:]
        expect(self.missing == 0, "sequence numbers of a file")
        return self


def number(record, element):
    return int.from_bytes(record[element], "big")


def key_of(flow):
    """The five-tuple; of ICMP type and code in place of ports."""
    version = 4 if 8 in flow else 6
    source, target, icmp = (8, 12, 32) if version == 4 else (27, 28, 139)
    ports = (number(flow, icmp), 0) if number(flow, PROTOCOL) in (1, 58) else (number(flow, 7), number(flow, 11))
    return flow[source], flow[target], number(flow, PROTOCOL), *ports


def totals(flows):
    sums = collections.defaultdict(lambda: [0, 0])
    for flow in flows:
        total = sums[key_of(flow)]
        total[0] += number(flow, PACKETS)
        total[1] += number(flow, OCTETS)
    return dict(sums)


# --- a count over captures ---
def frames_of(path):
    opened = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with opened(path, "rb") as file:
        data = file.read()
    if data[:4] not in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        return None  # another byte order, or pcapng
    if struct.unpack_from("<I", data, 20)[0] != 1:
        return None  # no Ethernet
    frames, at = [], 24
    while at + 16 <= len(data):
        size = struct.unpack_from("<I", data, at + 8)[0]
        frames.append(data[at + 16:at + 16 + size])
        at += 16 + size
    return frames


EXTENSIONS = {0, 43, 44, 51, 60, 135}


def tuple_of(frame):
    """The five-tuple and the bytes of a well-formed IP packet; None where it is another protocol."""
    at = 12
    while frame[at:at + 2] in (b"\x81\x00", b"\x88\xa8", b"\x91\x00"):
        at += 4
    kind, at = frame[at:at + 2], at + 2
    later = False
    if kind == b"\x08\x00":
        length, fragment = struct.unpack_from("!H", frame, at + 2)[0], struct.unpack_from("!H", frame, at + 6)[0]
        later = fragment & 0x1FFF != 0
        protocol, source, target = frame[at + 9], frame[at + 12:at + 16], frame[at + 16:at + 20]
        l4 = at + (frame[at] & 15) * 4
    elif kind == b"\x86\xdd":
        length = struct.unpack_from("!H", frame, at + 4)[0] + 40
        protocol, source, target = frame[at + 6], frame[at + 8:at + 24], frame[at + 24:at + 40]
        l4 = at + 40
        while protocol in EXTENSIONS and not later:
            if protocol == 44:
                later = struct.unpack_from("!H", frame, l4 + 2)[0] >> 3 != 0
            size = 8 if protocol == 44 else (frame[l4 + 1] + 2) * 4 if protocol == 51 else (frame[l4 + 1] + 1) * 8
            protocol, l4 = frame[l4], l4 + size
    else:
        return None
    ports = (0, 0)
    if not later and protocol in (6, 17):
        ports = struct.unpack_from("!HH", frame, l4)
    if not later and protocol == (1 if kind == b"\x08\x00" else 58):
        ports = (struct.unpack_from("!H", frame, l4)[0], 0)
    return (source, target, protocol, *ports), length


def run(options, ports, *arguments, check=True):
    (folder / "run.yaml").write_text(
        f"version: 1\ndevice: {device}\noutput: {folder}/out\nports:\n{ports}\n  out: {{null: {{}}}}\n"
        f"chains:\n  c:\n    input: [{', '.join(line.split(':')[0].strip() for line in ports.splitlines())}]\n"
        f"    output: out\n    nfs: [ipfix: {{{options}}}]\n")
    command = [millrace, "run", folder / "run.yaml", "--quiet", "--no-socket", "--json", folder / "report.json"]
    if not check:
        return subprocess.Popen(command + list(arguments), stderr=subprocess.PIPE, text=True)
    done = subprocess.run(command + list(arguments), capture_output=True, text=True, timeout=300)
    expect(done.returncode == 0, f"the run ends with {done.returncode}: {done.stderr}")
    return report()


def report():
    node = json.loads((folder / "report.json").read_text())["chains"][0]["nfs"][0]
    return {name: outcome["packets"] for name, outcome in node["outcomes"].items()}, node["statistics"]


def expect_conserved(outcomes, statistics, flows):
    """Packets that were counted are in records, or in lost ones; none is held at the end."""
    exported = sum(number(flow, PACKETS) for flow in flows)
    expect(exported == statistics["packets-exported"], f"{exported} packets came, {statistics}")
    expect(exported + statistics["packets-lost"] == outcomes["counted"], f"{outcomes}, {statistics}")
    expect(len(flows) == statistics["records-exported"], "records that came")


def compare_capture(path):
    frames = frames_of(path)
    if frames is None:
        return False
    plain = folder / "in.pcap"
    plain.write_bytes(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1) + b"".join(
        struct.pack("<IIII", 1_600_000_000 + i // 1000, i % 1000 * 1000, len(frame), len(frame)) + frame
        for i, frame in enumerate(frames)))
    outcomes, statistics = run("file: flows.ipfix, max-flows: 200k", f"  in: {{pcap: '{plain}'}}", "--verdicts",
                               folder / "verdicts.json")
    counted = collections.defaultdict(lambda: [0, 0])
    for line in (folder / "verdicts.json").open():
        verdict = json.loads(line)
        frame = frames[verdict["packet"] - 1]
        if not verdict["path"] or verdict["path"][0]["outcome"] != "counted":
            expect(not verdict["path"] or tuple_of(frame) is None, f"{path.name}: packet {verdict['packet']} is IP")
            continue
        found = tuple_of(frame)
        expect(found is not None, f"{path.name}: packet {verdict['packet']} is counted, and is no IP")
        counted[found[0]][0] += 1
        counted[found[0]][1] += found[1]
    collector = Collector().file(folder / "out/flows.ipfix")
    got = totals(collector.flows)
    for key in counted.keys() | got.keys():
        expect(counted.get(key) == got.get(key), f"{path.name}: {key}: {counted.get(key)}, exported {got.get(key)}")
    expect(sum(total[0] for total in counted.values()) == outcomes["counted"], f"{path.name}: {outcomes}")
    expect_conserved(outcomes, statistics, collector.flows)
    return True


def compare_captures():
    paths = [pathlib.Path(capture)]
    if data is not None and (data / "pcap/curated").is_dir():
        paths += sorted((data / "pcap/curated").rglob("*.pcap*"))
    compared = sum(compare_capture(path) for path in paths)
    print(f"{compared} captures have the totals of a count")
    expect(compared > (25 if len(paths) > 1 else 0), "captures that were compared")


# --- collectors on sockets ---
def listener(family=socket.AF_INET):
    receiver = socket.socket(family, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    receiver.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
    return receiver, receiver.getsockname()[1]


def receive(receiver, collector, messages=None, seconds=0.3):
    receiver.settimeout(seconds)
    try:
        while True:
            message, source = receiver.recvfrom(65536)
            if messages is not None:
                messages.append(message)
            collector.message(message, source)
    except socket.timeout:
        return


def by_sockets():
    expected = None
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "[::1]")):
        receiver, port = listener(family)
        collector, messages = Collector(), []
        outcomes, statistics = run(f"collector: '{host}:{port}', domain: 5, mtu: 1280", f"  in: {{pcap: '{capture}'}}")
        receive(receiver, collector, messages)
        expect(collector.missing == 0, "messages are missing")
        expect_conserved(outcomes, statistics, collector.flows)
        expect(statistics["messages"] == collector.messages, "messages that came")
        expect(statistics["message-bytes"] == sum(map(len, messages)), "their bytes")
        expect(max(map(len, messages)) <= 1280 - (28 if family == socket.AF_INET else 48), "a message beyond the MTU")
        got = totals(collector.flows)
        expect(expected in (None, got), "two collectors are told of different flows")
        expected = got
        names = {number(option, 10): option[82].decode() for option in collector.options if 82 in option}
        expect(names == {1: "in", 2: "out"}, f"interfaces: {names}")
        if family == socket.AF_INET:
            by_tshark(messages, collector.flows)
    return expected


def by_tshark(messages, flows):
    if shutil.which("tshark") is None:
        return print("skipped: no tshark")
    packets = b""
    for message in messages:
        udp = struct.pack("!HHHH", 40000, 4739, 8 + len(message), 0) + message
        ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, b"\x7f\0\0\1", b"\x7f\0\0\1") + udp
        packets += struct.pack("<IIII", 0, 0, 14 + len(ip), 14 + len(ip)) + bytes(12) + b"\x08\x00" + ip
    (folder / "messages.pcap").write_bytes(struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + packets)
    told = subprocess.run(["tshark", "-r", folder / "messages.pcap", "-d", "udp.port==4739,cflow", "-T", "fields", "-e",
                           "cflow.packets", "-e", "cflow.octets", "-e", "_ws.expert.message", "-e", "_ws.malformed"],
                          capture_output=True, text=True, check=True).stdout
    sums, count = [0, 0], 0
    for line in told.splitlines():
        of_packets, of_octets, experts, malformed = (line.split("\t") + [""] * 4)[:4]
        expect(not experts and not malformed, f"tshark finds fault with a message: {experts} {malformed}")
        count += len([value for value in of_packets.split(",") if value])
        sums[0] += sum(int(value) for value in of_packets.split(",") if value)
        sums[1] += sum(int(value) for value in of_octets.split(",") if value)
    expected = [sum(number(flow, element) for flow in flows) for element in (PACKETS, OCTETS)]
    expect(
        count == len(flows) and sums == expected, f"tshark reads {count} flows, {sums}; sent {len(flows)}, {expected}"
    )
    print(f"tshark reads {count} flows of {sums[0]} packets, as they were sent")


def collect(flows):
    """Has nfcapd write a run's flows into a folder. How many datagrams found no room at its socket."""
    flows.mkdir()
    port = nfcapd.free_port()
    collector = subprocess.Popen(["nfcapd", "-w", flows, "-b", "127.0.0.1", "-p", str(port), "-t", "3600"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 10
        while nfcapd.udp_socket(port) is None:
            expect(time.monotonic() < deadline and collector.poll() is None, "nfcapd does not listen")
            time.sleep(0.05)
        run(f"collector: '127.0.0.1:{port}'", f"  in: {{pcap: '{capture}'}}")
        deadline = time.monotonic() + 20
        while nfcapd.udp_socket(port)[0] > 0:
            expect(time.monotonic() < deadline, "nfcapd does not read its socket")
            time.sleep(0.05)
        return nfcapd.udp_socket(port)[1]
    finally:
        collector.send_signal(signal.SIGTERM)
        collector.wait(20)


def by_nfcapd(expected):
    if shutil.which("nfcapd") is None or shutil.which("nfdump") is None:
        return print("skipped: no nfcapd")
    # On a busy machine the collector reads its socket too seldom. Nobody sends a datagram of UDP again: another try.
    tries = (folder / f"nfcapd-{attempt}" for attempt in range(10))
    flows = next((flows for flows in tries if collect(flows) == 0), None)
    expect(flows is not None, "nfcapd's socket had too little room each time")
    sums = nfcapd.sums(flows)
    expected = {key: total for key, total in expected.items() if key[2] in (6, 17)}
    for key in expected.keys() | sums.keys():
        expect(expected.get(key) == sums.get(key), f"nfdump: {key}: {sums.get(key)}, expected {expected.get(key)}")
    print(f"nfdump has {len(sums)} five-tuples of TCP and UDP, with their packets and bytes")


def without_collector():
    port = nfcapd.free_port()
    outcomes, statistics = run(f"collector: '127.0.0.1:{port}'", f"  in: {{pcap: '{capture}'}}")
    expect(statistics["records-refused"] > 0 and statistics["records-exported"] == 0, f"nobody listens: {statistics}")
    expect(statistics["packets-lost"] == outcomes["counted"], f"{outcomes} {statistics}")
    outcomes, statistics = run("collector: '[2001:db8::1]:4739'", f"  in: {{pcap: '{capture}'}}")
    expect(statistics["packets-lost"] + statistics["packets-exported"] == outcomes["counted"], "no way there")
    print("a collector that is away costs its records, and each is counted")


def source(count, rate, flows):
    addresses = "addresses: {src: 10.0.0.0/8, dst: 192.0.2.0/24}"
    return f"{{source: {{count: {count}, rate: {rate}, flows: {flows}, {addresses}}}}}"


def by_the_clock():
    """Flows end though hardly any packet comes that could find it."""
    receiver, port = listener()
    process = run(f"collector: '127.0.0.1:{port}', idle-timeout: 500ms, active-timeout: 1000s",
                  f"  many: {source(3000, 10000, 300)}\n  few: {source(0, 2, 1)}".replace("count: 0, ", ""),
                  "--for", "7", check=False)
    collector = Collector()
    receive(receiver, collector, seconds=4.5)
    early = len([flow for flow in collector.flows if number(flow, REASON) == 1])
    expect(process.wait(20) == 0, "the run: " + process.stderr.read())
    receive(receiver, collector)
    outcomes, statistics = report()
    expect(early >= 300, f"{early} of 300 flows had been told of before the end")
    expect_conserved(outcomes, statistics, collector.flows)
    expect(statistics["packets-lost"] == 0, "lost")
    print("flows end by the clock where no packets come, each once")


def over_generations():
    receiver, port = listener()
    process = run(f"collector: '127.0.0.1:{port}', idle-timeout: 100s, active-timeout: 500ms",
                  f"  in: {source(40000, 10000, 20)}", check=False)
    collector, stop = Collector(), time.monotonic() + 20
    while process.poll() is None and time.monotonic() < stop:
        receive(receiver, collector, seconds=0.4)
        process.send_signal(signal.SIGHUP)
    expect(process.wait(20) == 0, "the run: " + process.stderr.read())
    receive(receiver, collector)
    expect(collector.missing == 0 and len(collector.sequence) == 1, "generations have one session")
    expect(sum(number(flow, PACKETS) for flow in collector.flows) == 40000, "packets over generations")
    print("a configuration that is read again goes on with flows, session and numbers")


def names():
    text = "collector: 'collector.invalid:4739'"
    process = run(text, f"  in: {{pcap: '{capture}'}}", check=False)
    told = process.communicate(timeout=60)[1]
    expect(process.returncode == 2 and "run.yaml:" in told and "has no address" in told and "hint:" in told, told)
    done = subprocess.run([millrace, "check", folder / "run.yaml"], capture_output=True, text=True)
    expect(done.returncode == 0, "check asks for a name: " + done.stderr)


try:
    compare_captures()
    by_nfcapd(by_sockets())
    without_collector()
    by_the_clock()
    over_generations()
    names()
finally:
    shutil.rmtree(folder, ignore_errors=True)
