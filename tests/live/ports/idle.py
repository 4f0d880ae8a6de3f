#!/usr/bin/env python3
"""A run without packets takes next to no CPU time, and the packets that then come leave soon.

Ports of several kinds: packet sockets on virtual cables, a tap, and DPDK devices without interrupts. Frames go in at
one end and are awaited at the other by a loop that looks all the time, with workers that sleep and such that poll.

usage: idle.py MILLRACE [--record]
"""

import ctypes
import json
import math
import os
import shutil
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
IDLE_SECONDS, IDLE_LOOKS = 1.0, 5
POLL_SECONDS = 0.1  # who polls takes all of a core, whenever one looks
ROUNDS = 200 if "--record" in sys.argv else 60  # packets, each after a pause
PAUSE_SECONDS = 0.005
MOST_IDLE_CPU = 0.02  # of a core, of the whole process
# The quickest, on top of what any program takes that sleeps in front of a packet socket. The worker looks on for 25 us
# before it sleeps again, and where cores are few the frame's receiver waits for that.
MOST_WAKE_US = 150
FORGOTTEN_MS = 20  # one that is forgotten takes up to 100 ms; what else the machine does delays polling workers, too

CHAIN = """
version: 1
idle: {idle}
ports: {{{ports}}}
chains:
  there: {{input: [{inputs}], output: {output}, nfs: [mirror]}}
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Network:
    """Namespaces that go away again, with `count` virtual cables between the program's and the test's."""

    def __init__(self, count):
        self.middle, self.outside = f"mr-{os.getpid()}-idle", f"mr-{os.getpid()}-out"
        for name in (self.middle, self.outside):
            ip("netns", "add", name)
            for family in ("all", "default"):
                off = f"net.ipv6.conf.{family}.disable_ipv6=1"
                subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", off], check=False,
                               stderr=subprocess.DEVNULL)
        for i in range(count):
            self.add_cable(i)

    def add_cable(self, i):
        ip("-n", self.middle, "link", "add", f"in{i}", "type", "veth", "peer", "name", f"out{i}", "netns", self.outside)
        ip("-n", self.middle, "link", "set", f"in{i}", "up")
        ip("-n", self.outside, "link", "set", f"out{i}", "up")

    def socket_at(self, namespace, interface):
        """A packet socket there."""
        libc = ctypes.CDLL(None, use_errno=True)
        here = os.open("/proc/self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
        try:
            if libc.setns(there, 0x40000000) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            made.bind((interface, 0))
            made.setblocking(False)
            return made
        finally:
            libc.setns(here, 0x40000000)
            os.close(here)
            os.close(there)

    def remove(self):
        for name in (self.middle, self.outside):
            subprocess.run(["ip", "netns", "del", name], check=False)


class Run:
    """`millrace run` in a namespace."""

    def __init__(self, millrace, network, folder, text, workers=1):
        config = os.path.join(folder, "idle.yaml")
        with open(config, "w", encoding="ascii") as file:
            file.write(text)
        self.report = os.path.join(folder, "report.json")
        self.log = open(os.path.join(folder, "log"), "w+b")
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", network.middle, millrace, "run", config, "--quiet", "--workers", str(workers),
             "--output", os.path.join(folder, "out"), "--json", self.report], stdout=self.log, stderr=self.log)

    def cpu_seconds(self):
        """Of all its threads, by the scheduler's clock: a tick of the process's own time is too coarse for a second."""
        total, tasks = 0, f"/proc/{self.process.pid}/task"
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[0])
        return total / 1e9

    def idle_cpu(self, looks=IDLE_LOOKS, seconds=IDLE_SECONDS):
        """The least of a few looks: a machine that is busy wakes a worker at times, one that spins does so always."""
        least = math.inf
        for _ in range(looks):
            before, start = self.cpu_seconds(), time.monotonic()
            time.sleep(seconds)
            least = min(least, (self.cpu_seconds() - before) / (time.monotonic() - start))
            if least < MOST_IDLE_CPU / 2:
                break
        return least

    def end(self):
        """Its report; how long it took to end."""
        start = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=20)
        took = time.monotonic() - start
        if self.process.returncode != 0:
            self.log.seek(0)
            raise RuntimeError(f"the run ended with {self.process.returncode}: {self.log.read().decode()}")
        with open(self.report, encoding="utf-8") as file:
            return json.load(file), took

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def frame(number):
    payload = struct.pack(">Q", number) + bytes(38)
    return bytes.fromhex("020000000001020000000002") + b"\x88\xb5" + payload


def number_of(data):
    return struct.unpack(">Q", data[14:22])[0] if len(data) >= 22 and data[12:14] == b"\x88\xb5" else None


def await_frame(receiver, number, seconds):
    """When it came; None if it did not."""
    end = time.perf_counter_ns() + int(seconds * 1e9)
    while True:
        now = time.perf_counter_ns()
        if now > end:
            return None
        try:
            data, where = receiver.recvfrom(2048)
        except BlockingIOError:
            continue
        if where[2] != socket.PACKET_OUTGOING and number_of(data) == number:
            return time.perf_counter_ns()


def until_it_forwards(sender, receiver):
    for attempt in range(400):
        sender.send(frame(attempt))
        if await_frame(receiver, attempt, 0.05) is not None:
            return
    raise RuntimeError("no frame has come through")


def latencies_us(pairs, pause):
    """Of one frame at a time, by each pair of sender and receiver in turn, each after a pause."""
    took, lost = [], 0
    for i in range(ROUNDS):
        sender, receiver = pairs[i % len(pairs)]
        time.sleep(pause)
        start = time.perf_counter_ns()
        sender.send(frame(1000 + i))
        came = await_frame(receiver, 1000 + i, 1.0)
        if came is None:
            lost += 1
        else:
            took.append((came - start) / 1000)
    return took, lost


FAILURES = []


def check(what, holds):
    print(("ok      " if holds else "FAILED  ") + what, flush=True)
    if not holds:
        FAILURES.append(what)


def measure(millrace, kind, network, pairs_of, ports, inputs, output, workers=1):
    """Idle CPU and latencies with workers that sleep, and that poll."""
    figures = {}
    for idle in ("sleep", "poll"):
        folder = tempfile.mkdtemp(prefix="millrace-idle-")
        text = CHAIN.format(idle=idle, ports=ports, inputs=inputs, output=output)
        run = Run(millrace, network, folder, text, workers)
        try:
            pairs = pairs_of(run)
            for sender, receiver in pairs:
                until_it_forwards(sender, receiver)
            time.sleep(0.1)
            figures[idle] = {"cpu": run.idle_cpu() if idle == "sleep" else run.idle_cpu(1, POLL_SECONDS)}
            took, lost = latencies_us(pairs, PAUSE_SECONDS)
            figures[idle].update(median=statistics.median(took), least=min(took), p90=sorted(took)[len(took) * 9 // 10])
            check(f"{kind}, {idle}: none of {ROUNDS} frames is lost", lost == 0)
            report, ended = run.end()
            check(f"{kind}, {idle}: a signal ends it soon ({ended:.2f} s)", ended < 5)
            chain = report["chains"][0]
            check(f"{kind}, {idle}: what came in went out", chain["received-packets"] == chain["sent-packets"] > ROUNDS)
        finally:
            run.kill()
            shutil.rmtree(folder)
    return figures


def bare_program(network):
    """What a program takes that waits at one socket and sends by another, and nothing else."""
    waits, sends = network.socket_at(network.middle, "in1"), network.socket_at(network.middle, "in0")
    waits.setblocking(True)
    child = os.fork()
    if child == 0:
        while True:
            data, where = waits.recvfrom(2048)
            if where[2] != socket.PACKET_OUTGOING:
                sends.send(data)
    try:
        ends = [network.socket_at(network.outside, f"out{i}") for i in (1, 0)]
        until_it_forwards(*ends)
        took = latencies_us([ends], PAUSE_SECONDS)[0]
        return {"least": min(took), "median": statistics.median(took)}
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def packet_sockets(millrace, count, workers=1):
    network = Network(count)
    try:
        def pairs_of(_):
            ends = [network.socket_at(network.outside, f"out{i}") for i in range(count)]
            return [(end, ends[0]) for end in ends[1:]]

        ports = ", ".join(f"p{i}: {{af_packet: in{i}}}" for i in range(count))
        figures = measure(millrace, f"{count} af_packet, {workers} workers", network, pairs_of, ports,
                          ", ".join(f"p{i}" for i in range(1, count)), "p0", workers)
        figures["bare"] = bare_program(network)
        return figures
    finally:
        network.remove()


def taps(millrace):
    network = Network(0)
    try:
        def pairs_of(_):
            for attempt in range(200):
                try:
                    for name in ("tap-a", "tap-b"):
                        subprocess.run(["ip", "-n", network.middle, "link", "set", name, "up"], check=True,
                                       stderr=subprocess.DEVNULL)
                    break
                except subprocess.CalledProcessError:
                    time.sleep(0.05)
            return [(network.socket_at(network.middle, "tap-a"), network.socket_at(network.middle, "tap-b"))]

        return measure(millrace, "tap", network, pairs_of, "a: {tap: tap-a}, b: {tap: tap-b}", "a", "b")
    finally:
        network.remove()


def no_interrupts(millrace):
    """DPDK's own packet-socket driver has none."""
    network = Network(2)
    try:
        def pairs_of(_):
            return [(network.socket_at(network.outside, "out0"), network.socket_at(network.outside, "out1"))]

        ports = ", ".join(f"p{i}: {{dpdk: \"net_af_packet{i},iface=in{i}\", max-frame: 2048}}" for i in (0, 1))
        return measure(millrace, "no interrupts", network, pairs_of, ports, "p0", "p1")
    finally:
        network.remove()


def link_that_flaps(millrace):
    """A worker that sleeps at an interface which goes, and comes back, hears what then comes; nor does it spin."""
    network, folder = Network(2), tempfile.mkdtemp(prefix="millrace-idle-")
    run = Run(millrace, network, folder,
              CHAIN.format(idle="sleep", ports="a: {af_packet: in0}, b: {af_packet: in1}", inputs="a", output="b"))
    try:
        receiver = network.socket_at(network.outside, "out1")
        until_it_forwards(network.socket_at(network.outside, "out0"), receiver)
        for _ in range(50):
            ip("-n", network.middle, "link", "set", "in0", "down")
            ip("-n", network.middle, "link", "set", "in0", "up")
        ip("-n", network.middle, "link", "set", "in0", "down")
        time.sleep(0.2)
        cpu = run.idle_cpu()
        check(f"a worker whose interface is down sleeps: {100 * cpu:.1f} %", cpu < MOST_IDLE_CPU)
        ip("-n", network.middle, "link", "del", "in0")
        time.sleep(0.2)
        cpu = run.idle_cpu()
        check(f"a worker whose interface has gone sleeps: {100 * cpu:.1f} %", cpu < MOST_IDLE_CPU)
        network.add_cable(0)
        time.sleep(0.3)
        until_it_forwards(network.socket_at(network.outside, "out0"), receiver)
        check("it forwards when its interface is back", True)
        run.end()
    finally:
        run.kill()
        shutil.rmtree(folder)
        network.remove()


def main():
    millrace = os.path.realpath(sys.argv[1])
    if os.geteuid() != 0 or shutil.which("ip") is None:
        print("SKIPPED: network namespaces need root and 'ip'")
        return SKIPPED
    os.nice(-20)  # what else the machine has to do is no part of it
    table = [("2 af_packet", packet_sockets(millrace, 2)), ("17 af_packet", packet_sockets(millrace, 17)),
             ("3 af_packet, 4 workers", packet_sockets(millrace, 3, 4)), ("no interrupts", no_interrupts(millrace))]
    if os.access("/dev/net/tun", os.R_OK | os.W_OK):
        table.append(("tap", taps(millrace)))
    link_that_flaps(millrace)
    print("us, least and median, of a packet after a silence: where workers sleep, where they poll, and through a bare"
          " program that sleeps")
    print(f"{'ports':24} {'idle CPU':>9} {'polling':>8} {'sleep':>18} {'poll':>18} {'bare':>18}")
    for kind, figures in table:
        sleep, poll, bare = figures["sleep"], figures["poll"], figures.get("bare")
        times = " ".join(f"{of['least']:9.1f} {of['median']:8.1f}" for of in (sleep, poll, bare) if of is not None)
        print(f"{kind:24} {100 * sleep['cpu']:8.2f}% {100 * poll['cpu']:7.0f}% {times}")
        check(f"{kind}: workers that sleep take no CPU time", sleep["cpu"] <= MOST_IDLE_CPU)
        check(f"{kind}: workers that poll do", poll["cpu"] > 2 * MOST_IDLE_CPU)
        if bare is not None:
            late = sleep["least"] - bare["least"]
            check(f"{kind}: a wake-up takes {late:.0f} us more than any program's", late < MOST_WAKE_US)
        check(f"{kind}: no wake-up is forgotten", sleep["median"] < 2 * poll["median"] + 1000 * FORGOTTEN_MS)
    return 1 if FAILURES else 0


if __name__ == "__main__":
    sys.exit(main())
