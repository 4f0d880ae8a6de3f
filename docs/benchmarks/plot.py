#!/usr/bin/python3
"""Draws framework.svg from framework.json: plot.py IN.json OUT.svg"""
import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "millrace"
import matplotlib.pyplot as plt

with open(sys.argv[1]) as file:
    figures = json.load(file)
sizes = [entry for entry in figures["sizes"] if not entry["difference"]]
places = range(len(sizes))
labels = [str(entry["frame-bytes"]) for entry in sizes]
stages = ["firewall", "nids", "router", "ipsec"]
colors = ["#4477aa", "#ee6677", "#228833", "#ccbb44", "#bbbbbb"]

plot, (speed, cost) = plt.subplots(1, 2, figsize=(11, 4.2))
speed.plot(places, [e["chain"]["gbps"] for e in sizes], marker="o", label="chain", color=colors[0])
speed.plot(places, [e["bare"]["gbps"] for e in sizes], marker="s", label="bare loop", color=colors[1])
for place, entry in zip(places, sizes):
    speed.annotate(f"{entry['ratio']:.2f}", (place, entry["chain"]["gbps"]), textcoords="offset points", xytext=(6, -12))
speed.set_xticks(places, labels)
speed.set_xlabel("frame, bytes without CRC")
speed.set_ylabel("Gb/s on one core (chain / bare loop at the points)")
speed.set_ylim(bottom=0)
speed.legend()

# Two bars a size: the chain on the left, the bare loop on the right, what is no NF on top.
for side, shift in (("chain", -0.2), ("bare", 0.2)):
    below = [0.0] * len(sizes)
    for name, color in zip(stages, colors):
        heights = [e[side]["stage-cycles-per-packet"][name] / e["frame-bytes"] for e in sizes]
        cost.bar([p + shift for p in places], heights, 0.36, bottom=below, color=color, label=name if side == "chain" else None)
        below = [a + b for a, b in zip(below, heights)]
cost.set_xticks(places, labels)
cost.set_xlabel("frame, bytes; left the chain, right the bare loop")
cost.set_ylabel("cycles a byte, by NF")
cost.legend()
plot.tight_layout()
plot.savefig(sys.argv[2], metadata={"Date": None})
