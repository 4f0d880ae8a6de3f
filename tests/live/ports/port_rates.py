#!/usr/bin/env python3
"""What it takes a worker to receive frames of a virtual cable, by kinds of ports and layouts that take turns. Tells one
line of JSON; needs root.

usage: port_rates.py MILLRACE DEVICE SECONDS ROUNDS SIZE WAY...
DEVICE: what runs the receiver's chain, such as cpu or sim
WAY: what stands for the port, with @ for the interface, such as `af_packet: @, layout: blocks` or
     `dpdk: "net_af_packet0,iface=@", max-frame: 2048`
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

SENDER = """
version: 1
ports:
  from: {{source: {{size: {size}, flows: 64, count: {seconds}s}}}}
  to: {{af_packet: left, qdisc-bypass: true}}
chains:
  all: {{input: from, output: to, nfs: []}}
"""
RECEIVER = """
version: 1
device: {device}
ports:
  from: {{{way}}}
  to: {{sink: {{}}}}
chains:
  all: {{input: from, output: to, nfs: [mirror]}}
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Cable:
    def __init__(self):
        self.sender, self.receiver = (f"mr-{os.getpid()}-{role}" for role in ("sender", "receiver"))
        for name in (self.sender, self.receiver):
            ip("netns", "add", name)
            subprocess.run(["ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1",
                            "net.ipv6.conf.default.disable_ipv6=1"], check=False, stderr=subprocess.DEVNULL)
        ip("-n", self.sender, "link", "add", "left", "type", "veth", "peer", "name", "right", "netns", self.receiver)
        ip("-n", self.sender, "link", "set", "left", "up")
        ip("-n", self.receiver, "link", "set", "right", "up")

    def close(self):
        for name in (self.sender, self.receiver):
            subprocess.run(["ip", "netns", "del", name], check=False)


def run(millrace, device, cable, folder, way, seconds, size):
    """What the receiver's report says."""
    for name, text in (("sender", SENDER), ("receiver", RECEIVER)):
        with open(f"{folder}/{name}.yaml", "w", encoding="utf-8") as out:
            out.write(text.format(device=device, way=way.replace("@", "right"), seconds=seconds,
                                  size=size))

    def start(where, name):
        return subprocess.Popen(["ip", "netns", "exec", where, millrace, "run", f"{folder}/{name}.yaml", "--output",
                                 f"{folder}/{name}", "--json", f"{folder}/{name}.json"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    receiver = start(cable.receiver, "receiver")
    for _ in range(100):
        if os.path.exists(f"{folder}/receiver/millrace.sock"):
            break
        if receiver.poll() is not None:
            return {"failed": receiver.stderr.read().strip().splitlines()[0]}
        time.sleep(0.1)
    sender = start(cable.sender, "sender")
    sender.communicate()
    time.sleep(0.3)
    receiver.send_signal(signal.SIGTERM)
    receiver.communicate()
    with open(f"{folder}/receiver.json", encoding="utf-8") as file:
        report = json.load(file)
    with open(f"{folder}/sender.json", encoding="utf-8") as file:
        sent = json.load(file)["ports"][1]["sent-packets"]
    if os.path.exists(f"{folder}/receiver/millrace.sock"):
        os.remove(f"{folder}/receiver/millrace.sock")
    return {"sent": sent, "received": report["ports"][0]["received-packets"],
            "cycles": round(report["receive-cycles-per-packet"], 1)}


def main():
    if len(sys.argv) < 7:
        sys.exit(__doc__)
    millrace, device, seconds, rounds, size, ways = (sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]),
                                                     int(sys.argv[5]), sys.argv[6:])
    results = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for way in ways:
                # Of its own each time: some drivers leave their XDP program behind.
                cable = Cable()
                try:
                    results[way].append(run(millrace, device, cable, folder, way, seconds, size))
                finally:
                    cable.close()
    summary = {}
    for way, runs in results.items():
        good = [each for each in runs if "failed" not in each]
        summary[way] = (
            {
                "receive-cycles": statistics.median(each["cycles"] for each in good),
                "received-of-sent": round(statistics.median(each["received"] / each["sent"] for each in good), 3),
                "kpps": round(statistics.median(each["received"] for each in good) / seconds / 1e3),
            }
            if good
            else runs[0]
        )
    print(
        json.dumps(
            {
                "device": device, "size": size, "seconds": seconds, "load": round(os.getloadavg()[0], 1),
                "ways": summary, "runs": results,
            }
        )
    )


if __name__ == "__main__":
    main()
