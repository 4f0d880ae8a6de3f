#!/usr/bin/env python3
"""What TCP reaches between two hosts with a firewall and router between them, in each of several ways that take turns:
the kernel's own forwarding, and Millrace with options of its ports. Offloads are as the system sets them. Tells one
line of JSON; needs root and iperf3.

usage: tcp_rates.py MILLRACE SECONDS|BYTES ROUNDS WAY... [--at-least SHARE]
WAY: kernel, or a device and options of ports, such as `cpu` or `cpu,uncut: false`
BYTES: such as 128M, how much a round carries
--at-least SHARE: fails where the best round of a way is below this share of the kernel's best; 77: no network
"""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ADDRESSES = {"lan": ("10.0.10.1", "10.0.10.10"), "wan": ("192.0.2.1", "192.0.2.10")}
MACS = {"lan": ("02:00:00:00:10:01", "02:00:00:00:10:10"), "wan": ("02:00:00:00:20:01", "02:00:00:00:20:10")}
CHAIN = """
version: 1
device: {device}
ports:
  lan: {{af_packet: lan{options}}}
  wan: {{af_packet: wan{options}}}
chains:
  from-lan:
    input: lan
    max-delay: 100us
    nfs: &functions
      - firewall: {{default: permit, rules: ["deny tcp from any to any port 25", "deny udp from any to any port 25"]}}
      - router:
          routes: [{{prefix: 10.0.10.0/24, via: client}}, {{prefix: 192.0.2.0/24, via: server}}]
          next-hops:
            client: {{port: lan, mac: "{lan[1]}", src-mac: "{lan[0]}"}}
            server: {{port: wan, mac: "{wan[1]}", src-mac: "{wan[0]}"}}
        on: {{ttl-expired: drop, no-route: drop, local: drop}}
  from-wan:
    input: wan
    max-delay: 100us
    nfs: *functions
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Network:
    """A client, a server, and between them a namespace that forwards in one of the ways."""

    def __init__(self, millrace, way, number, folder):
        self.way = way
        self.names = {role: f"mr-{os.getpid()}-{number}-{role}" for role in ("client", "middle", "server")}
        self.processes = []
        middle = self.names["middle"]
        for name in self.names.values():
            ip("netns", "add", name)
        for side, host in (("lan", "client"), ("wan", "server")):
            (ours, theirs), (our_mac, their_mac) = ADDRESSES[side], MACS[side]
            ip("-n", middle, "link", "add", side, "address", our_mac, "type", "veth", "peer", "name", "eth0",
               "address", their_mac, "netns", self.names[host])
            ip("-n", self.names[host], "link", "set", "eth0", "up")
            ip("-n", self.names[host], "address", "add", f"{theirs}/24", "dev", "eth0")
            ip("-n", self.names[host], "neighbour", "add", ours, "lladdr", our_mac, "dev", "eth0")
            ip("-n", self.names[host], "route", "add", "default", "via", ours)
            if way == "kernel":
                ip("-n", middle, "address", "add", f"{ours}/24", "dev", side)
            else:
                ip("-n", middle, "link", "set", side, "arp", "off")
            ip("-n", middle, "link", "set", side, "up")
        self.start("server", "iperf3", "--server")
        if way == "kernel":
            subprocess.run(["ip", "netns", "exec", middle, "sysctl", "-qw", "net.ipv4.ip_forward=1"], check=True)
        else:
            device, *options = way.split(",")
            file = f"{folder}/{number}.yaml"
            with open(file, "w", encoding="utf-8") as out:
                out.write(CHAIN.format(device=device, options="".join(f", {each}" for each in options), **MACS))
            self.start("middle", millrace, "run", file, "--output", f"{folder}/{number}")
        self.await_answer()

    def start(self, role, *command):
        self.processes.append(subprocess.Popen(["ip", "netns", "exec", self.names[role], *command],
                                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def in_client(self, *command):
        return subprocess.run(["ip", "netns", "exec", self.names["client"], *command], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def await_answer(self):
        for _ in range(100):
            if self.in_client("ping", "-c", "1", "-W", "0.3", ADDRESSES["wan"][1]).returncode == 0:
                return
        sys.exit(f"{self.way}: no answer")

    def gbits(self, amount):
        how = "--time" if amount.isdigit() else "--bytes"
        done = self.in_client("iperf3", "--client", ADDRESSES["wan"][1], how, amount, "--json")
        return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e9

    def close(self):
        for process in self.processes:
            process.terminate()
            process.wait()
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False)


def can_run():
    if os.geteuid() != 0 or shutil.which("iperf3") is None:
        return False
    name = f"mr-{os.getpid()}"
    allowed = subprocess.run(["ip", "netns", "add", name], check=False, stderr=subprocess.DEVNULL).returncode == 0
    subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)
    return allowed


def main():
    words, bound = sys.argv[1:], None
    if "--at-least" in words:
        at = words.index("--at-least")
        bound = float(words[at + 1])
        del words[at:at + 2]
    if len(words) < 4:
        sys.exit(__doc__)
    if not can_run():
        print("skipped: network namespaces need root, and there must be iperf3")
        sys.exit(77)
    millrace, amount, rounds, ways = words[0], words[1], int(words[2]), words[3:]
    networks = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for number, way in enumerate(ways):
                networks.append(Network(millrace, way, number, folder))
            rates = {way: [] for way in ways}
            load = []
            for _ in range(rounds):
                for network in networks:
                    time.sleep(0.2)
                    rates[network.way].append(round(network.gbits(amount), 2))
                load.append(round(os.getloadavg()[0], 1))
        finally:
            for network in networks:
                network.close()
    medians = {way: round(statistics.median(all_of_it), 2) for way, all_of_it in rates.items()}
    result = {"seconds" if amount.isdigit() else "bytes": amount, "load": load, "gbits": rates,
              "median-gbits": medians}
    if medians.get("kernel"):
        result["of-the-kernel"] = {way: round(rate / medians["kernel"], 2) for way, rate in medians.items()}
    print(json.dumps(result))
    for way in ways if bound is not None else []:
        share = max(rates[way]) / max(rates["kernel"])
        print(f"{way}: {share:.2f} of what the kernel's forwarding carries, at best")
        if share < bound:
            sys.exit(f"{way}: less than {bound} of what the kernel's forwarding carries")


if __name__ == "__main__":
    main()
