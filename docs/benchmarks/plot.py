#!/usr/bin/python3
"""Draws what a benchmark measured: plot.py IN.json [MORE.json...] OUT.svg; without files, all plots of the pages of
gpu/ (plot_pages.py)

The kind of figure follows from what the files hold: `make bench`, or millrace bench chain (nf), modes, latency,
transfer, rules, or millrace profile. Several files of one kind are drawn together, such as a chain on the GPU and on
the cpu. Files that scripts/bench-papers named become
twins of the papers' figures (plot_papers.py).
"""
import json
import pathlib
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams["svg.hashsalt"] = "millrace"
import matplotlib.pyplot as plt

from papers import Measured
from plot_pages import draw_pages
from plot_papers import papers
from plot_rules import rules
from plot_style import COLORS, MARKERS, order, size_of
from records import STAGES, curve_results, layout_of, stages_of


def framework(files):
    figures = files[0]
    sizes = [entry for entry in figures["sizes"] if not entry["difference"]]
    places = range(len(sizes))
    labels = [str(entry["frame-bytes"]) for entry in sizes]
    stages = ["firewall", "nids", "router", "ipsec"]
    plot, (speed, cost) = plt.subplots(1, 2, figsize=(11, 4.2))
    speed.plot(places, [e["chain"]["gbps"] for e in sizes], marker="o", label="chain", color=COLORS[0])
    speed.plot(places, [e["bare"]["gbps"] for e in sizes], marker="s", label="bare loop", color=COLORS[1])
    for place, entry in zip(places, sizes):
        speed.annotate(
            f"{entry['ratio']:.2f}", (place, entry["chain"]["gbps"]), textcoords="offset points", xytext=(6, -12)
        )
    speed.set_xticks(places, labels)
    speed.set_xlabel("frame, bytes without CRC")
    speed.set_ylabel("Gb/s on one core (chain / bare loop at the points)")
    speed.set_ylim(bottom=0)
    speed.legend()
    # Two bars a size: the chain on the left, the bare loop on the right, what is no NF on top.
    for side, shift in (("chain", -0.2), ("bare", 0.2)):
        below = [0.0] * len(sizes)
        for name, color in zip(stages, [*COLORS[:4], COLORS[-1]]):
            heights = [e[side]["stage-cycles-per-packet"][name] / e["frame-bytes"] for e in sizes]
            cost.bar(
                [p + shift for p in places], heights, 0.36, bottom=below, color=color,
                label=name if side == "chain" else None,
            )
            below = [a + b for a, b in zip(below, heights)]
    cost.set_xticks(places, labels)
    cost.set_xlabel("frame, bytes; left the chain, right the bare loop")
    cost.set_ylabel("cycles a byte, by NF")
    cost.legend()
    return plot


def chain(files):
    """Throughput against frame size for each chain, the bus' limit dashed; other traffic as bars behind the sizes."""
    results = [r for file in files for r in file["results"]]
    chains = order(r["chain"] for r in results)
    plot, axes = plt.subplots(1, len(chains), figsize=(4.6 * len(chains), 4.2), squeeze=False)
    traffics = sorted(order(r["traffic"] for r in results), key=lambda t: (size_of(t) is None, size_of(t) or 0))
    for axis, name in zip(axes[0], chains):
        own = [r for r in results if r["chain"] == name]
        kinds = order((r["device"], r["workers"], r.get("layout", "buffers")) for r in own)
        for i, kind in enumerate(kinds):
            points = [r for r in own if (r["device"], r["workers"], r.get("layout", "buffers")) == kind]
            places = [traffics.index(r["traffic"]) for r in points]
            label = f"{kind[0]}, {kind[1]} worker{'s' if kind[1] > 1 else ''}"
            if len({layout for _, _, layout in kinds}) > 1 and kind[0] != "bare loop":
                label += ", mbufs" if kind[2] == "buffers" else ", contiguous"
            axis.plot(places, [r["gbps"] for r in points], marker=MARKERS[i % 8], label=label, color=COLORS[i % 7])
        limits = {
            traffics.index(r["traffic"]): r["bus"]["limit-packets-per-second"] * r["frame-bytes-in"] * 8e-9
            for r in own
            if "bus" in r
        }
        if limits:
            axis.plot(
                sorted(limits), [limits[p] for p in sorted(limits)], "--", color="#555555", label="limit of the bus"
            )
        axis.set_xticks(range(len(traffics)), [t.split("/")[-1] for t in traffics])
        axis.set_xlabel("frame, bytes without CRC")
        axis.set_ylabel("Gb/s of frames that came in")
        axis.set_ylim(bottom=0)
        axis.set_title(name.replace("+", " → "), fontsize=9)
        axis.legend(fontsize=8)
    return plot


def kernels(files):
    """What the kernels of a batch take for each packet, by NF, stacked; one plot for each size of a batch."""
    rows = [k for file in files for k in file["kernels"]]
    names = order(p["name"] for r in rows for p in r["parts"])
    colors = dict(zip(names, [*COLORS, "#999933", "#882255", "#117733", "#332288"]))
    batches = order((r["chain"], r["batch-packets"]) for r in rows)
    plot, axes = plt.subplots(1, len(batches), figsize=(0.8 + 3.4 * len(batches), 4.4), squeeze=False)
    for axis, (chain_name, batch) in zip(axes[0], batches):
        own = [r for r in rows if (r["chain"], r["batch-packets"]) == (chain_name, batch)]
        below = [0.0] * len(own)
        for name in names:
            heights = [sum(p["ns-per-packet"] for p in r["parts"] if p["name"] == name) * batch * 1e-3 for r in own]
            axis.bar(range(len(own)), heights, 0.7, bottom=below, color=colors[name], label=name)
            below = [a + b for a, b in zip(below, heights)]
        for place, (r, height) in enumerate(zip(own, below)):
            axis.annotate(
                f"{r['kernel-packets-per-second'] * 1e-6:.0f} M/s", (place, height), ha="center", va="bottom",
                fontsize=7,
            )
        axis.set_xticks(range(len(own)), [r["traffic"].split("/")[-1] for r in own])
        axis.set_xlabel("frame, bytes without CRC")
        axis.set_ylabel("us of a batch alone; above: many at once")
        axis.set_title(f"{chain_name.replace('+', ' → ')}\n{batch} packets", fontsize=8)
    axes[0][-1].legend(fontsize=7)
    return plot


def modes(files):
    """For each way to run the chain: throughput, bytes over the bus and, where it was measured, p95 at the same
    load."""
    figures = files[0]
    rows = [dict(result, **way) for result, way in zip(figures["results"], figures["ways"])]
    sizes = order(r["traffic"] for r in rows)
    ways = order(r["way"] for r in rows)
    loaded = any(r["same-load"] for r in rows)
    plot, (speed, bus, *late) = plt.subplots(1, 3 if loaded else 2, figsize=(16 if loaded else 11, 4.6))
    width = 0.8 / len(ways)
    for i, way in enumerate(ways):
        for axis, same_load, value in (
            (speed, False, lambda r: r["packets-per-second"] * 1e-6),
            (bus, False, lambda r: r["bytes-to-device-per-packet"] + r["bytes-to-host-per-packet"]),
            *((axis, True, lambda r: r["latency-us"]["p95"]) for axis in late),
        ):
            heights = [
                value(next(r for r in rows if (r["way"], r["traffic"], r["same-load"]) == (way, size, same_load)))
                for size in sizes
            ]
            axis.bar(
                [p + (i - len(ways) / 2 + 0.5) * width for p in range(len(sizes))], heights, width, label=way,
                color=COLORS[i % 7], hatch="//" if i >= 7 else None,
            )
    for axis, label in ((speed, "Mpkt/s"), (bus, "bytes over the bus, a packet"),
                        *((axis, f"p95 in us at {figures['share']:.0%} of what the slowest carries") for axis in late)):
        axis.set_xticks(range(len(sizes)), sizes)
        axis.set_xlabel("frame, bytes without CRC")
        axis.set_ylabel(label)
    for axis in late:
        axis.set_yscale("log")
    speed.legend(fontsize=7)
    return plot


def latency(files):
    """How many packets were through after how long, by load; what batches went through meanwhile; rates and batches
    around the step."""
    steps = list(
        {
            (s["device"], s["chain"], s["traffic"], layout_of(r)): (s, r)
            for file in files
            for s, r in curve_results(file)[1]
        }.values()
    )
    measured = [entry for file in files for entry in curve_results(file)[0]]
    timed = [r for _, r in measured if any(stages_of(r).values())]
    panels = 1 + bool(timed) + len(steps)
    plot, axes = plt.subplots(1, panels, figsize=(0.5 + 5.5 * panels, 4.4), squeeze=False)
    cdf = axes[0][0]
    if timed:
        bars, left = axes[0][1], [0.0] * len(timed)
        stages = [s for s in STAGES if any(s in stages_of(r) for r in timed)]
        for i, stage in enumerate(stages):
            own = [stages_of(r).get(stage, 0) for r in timed]
            bars.barh(range(len(timed)), own, left=left, color=COLORS[i], label=stage)
            left = [a + b for a, b in zip(left, own)]
        bars.set_yticks(
            range(len(timed)),
            [
                f"{r['device']}, {layout_of(r)},\n{r['offered-packets-per-second'] * 1e-6:.2f} Mpkt/s, "
                f"{r['batch-packets']:.0f} a batch"
                for r in timed
            ],
            fontsize=8,
        )
        bars.set_xlabel("us of a batch, from when its oldest packet was received")
        bars.legend(fontsize=8)
    devices = order((c["device"], c["chain"], c["traffic"], layout_of(r)) for c, r in measured)
    for c, r in measured:
        shares = order(d["share"] for d, _ in measured)
        cdf.plot(
            [p[0] for p in c["distribution"]], [p[1] for p in c["distribution"]],
            color=COLORS[shares.index(c["share"]) % 7],
            linestyle=["-", "--", ":", "-."][devices.index((c["device"], c["chain"], c["traffic"], layout_of(r))) % 4],
            label=f"{c['device']}, {layout_of(r)}, {c['share']:.0%}: "
            f"{c['offered-packets-per-second'] * 1e-6:.2f} Mpkt/s",
        )
    cdf.axhline(0.99, color="#bbbbbb", linewidth=0.8)
    cdf.set_xscale("log")
    cdf.set_xlabel("us from when the packet was due to the sink")
    cdf.set_ylabel("share of packets")
    cdf.legend(fontsize=7, loc="lower right", framealpha=0.6)
    for axis, (step, r) in zip(axes[0][panels - len(steps):], steps):
        times = [p["ms"] for p in step["series"]]
        axis.plot(times, [p["received-packets-per-second"] * 1e-6 for p in step["series"]], color=COLORS[0], label="in")
        axis.plot(times, [p["sent-packets-per-second"] * 1e-6 for p in step["series"]], color=COLORS[1], label="out")
        axis.set_xlabel(
            f"ms around a step from {step['from-share']:.0%} to {step['to-share']:.0%}; {step['missed']} packets missed"
        )
        axis.set_ylabel("Mpkt/s")
        axis.legend(loc="upper left", fontsize=8)
        batches = axis.twinx()
        batches.plot(times, [p["batch-packets"] for p in step["series"]], color=COLORS[2], linewidth=0.9)
        batches.set_ylabel("packets in a batch (green)")
        batches.set_ylim(bottom=0)
        axis.set_title(
            f"{step['chain'].replace('+', ' → ')} on {step['device']}, {step['traffic']} B, {layout_of(r)}",
            fontsize=9,
        )
    return plot


def transfer(files):
    figures = files[0]
    plot, (pieces, frames) = plt.subplots(1, 2, figsize=(11, 4.2))
    for i, (key, label) in enumerate(
        (
            ("to-device-gbs", "to the device"), ("to-host-gbs", "back"), ("both-to-device-gbs", "to, both at once"),
            ("both-to-host-gbs", "back, both at once"),
        )
    ):
        pieces.plot(
            [p["bytes"] for p in figures["pieces"]], [p[key] for p in figures["pieces"]], marker=MARKERS[i],
            color=COLORS[i], label=label,
        )
    pieces.set_xscale("log", base=2)
    pieces.set_xlabel("bytes of a piece")
    pieces.set_ylabel("GB/s each way")
    pieces.legend()
    for i, key in enumerate(("in-packed", "in-rows", "both-packed", "both-rows")):
        frames.plot(
            range(len(figures["frames"])),
            [f[key + "-packets-per-second"] * f["frame-bytes"] * 1e-9 for f in figures["frames"]], marker=MARKERS[i],
            color=COLORS[i], label=key.replace("-", ", "),
        )
    frames.set_xticks(range(len(figures["frames"])), [f["frame-bytes"] for f in figures["frames"]])
    frames.set_xlabel(f"frame, bytes; batches of {figures['frames'][0]['batch-packets']}")
    frames.set_ylabel("GB/s each way")
    frames.legend()
    return plot


def profile(files):
    """What each way takes for a frame of a batch: measured, and as the cost model has it."""
    figures = files[0]
    samples = figures["samples"]
    largest = max(s["items"] for s in samples)
    plot, (copies, frames) = plt.subplots(1, 2, figsize=(11, 4.4))
    for i, way in enumerate(("copy-in", "copy-out")):
        own = [s for s in samples if s["way"] == way and not s["both-ways"]]
        copies.plot(
            [s["bytes"] for s in own], [s["measured-ns"] / 1000 for s in own], linestyle="none", marker=MARKERS[i],
            color=COLORS[i], label=way,
        )
        copies.plot([s["bytes"] for s in own], [s["fitted-ns"] / 1000 for s in own], color=COLORS[i], linewidth=0.9)
    copies.set_xscale("log", base=2)
    copies.set_xlabel("bytes of a copy")
    copies.set_ylabel("us of the bus, a copy; lines: the model")
    for i, (way, both) in enumerate(
        (
            ("rows", False), ("gather", False), ("gather", True), ("zero-copy", False), ("heads-out", False),
            ("pack", False),
        )
    ):
        own = [s for s in samples if (s["way"], s["both-ways"], s["items"]) == (way, both, largest)]
        own.sort(key=lambda s: s["bytes"])
        lengths = [s["bytes"] / s["items"] for s in own]
        frames.plot(
            lengths, [s["measured-ns"] / s["items"] for s in own], linestyle="none", marker=MARKERS[i],
            color=COLORS[i], label=way + (", as much going back" if both else " (CPU)" if way == "pack" else ""),
        )
        frames.plot(lengths, [s["fitted-ns"] / s["items"] for s in own], color=COLORS[i], linewidth=0.9)
    frames.set_xscale("log", base=2)
    frames.set_xlabel(f"bytes of a frame; batches of {largest}")
    frames.set_ylabel("ns a frame")
    for axis in (copies, frames):
        axis.set_yscale("log")
        axis.legend(fontsize=8)
    return plot


def chain_profiles(files):
    """What kernels and transfers of chains take against the size of a batch, and the scheduler's lines."""
    plot, (kernels, transfers) = plt.subplots(1, 2, figsize=(11, 4.4))
    for i, chain in enumerate(files[0]["chain-profiles"]["chains"]):
        for axis, part, x in (
            (kernels, "kernel", lambda p: -(-p["packets"] // p["sms"])),
            (transfers, "transfer", lambda p: p["packets"]),
        ):
            own, line = sorted(chain["points"], key=x), chain[part]
            axis.plot(
                [x(p) for p in own], [p[part + "-ns"] / 1000 for p in own], linestyle="none",
                marker=MARKERS[i % len(MARKERS)], color=COLORS[i % len(COLORS)],
                label=f"chain {i + 1}, R² {line['r2']:.3f}",
            )
            axis.plot(
                [x(p) for p in own], [(line["start-ns"] + line["packet-ns"] * x(p)) / 1000 for p in own],
                color=COLORS[i % len(COLORS)], linewidth=0.9,
            )
    kernels.set_xlabel("packets of each SM")
    kernels.set_ylabel("us of kernels, a batch; lines: the model")
    transfers.set_xlabel("packets of a batch")
    transfers.set_ylabel("us of transfers, a batch")
    for axis in (kernels, transfers):
        axis.legend(fontsize=8)
    return plot


def main():
    if len(sys.argv) == 1:
        draw_pages(
            pathlib.Path(__file__).parent / "gpu", COLORS, MARKERS,
            {"nf-times": kernels, "latency": latency, "profile": profile},
        )
        return
    names = [pathlib.Path(name) for name in sys.argv[1:-1]]
    files = [json.loads(name.read_text()) for name in names]
    kinds = {
        "sizes": framework, "curves": latency, "ways": modes, "pieces": transfer, "kernels": kernels,
        "results": chain, "lookups": rules, "samples": profile, "chain-profiles": chain_profiles,
    }
    if all(name.stem.startswith(("gaviss-", "gen-", "thesis-")) for name in names):
        plot = papers(Measured({name.stem: file for name, file in zip(names, files)}), COLORS, MARKERS)
    else:
        plot = next(draw for key, draw in kinds.items() if key in files[0])(files)
    plot.tight_layout()
    plot.savefig(sys.argv[-1], metadata={"Date": None})


main()
