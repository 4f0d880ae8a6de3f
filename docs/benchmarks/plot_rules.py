"""Plots of packet classification: what millrace bench rules measured, beside what the text of GSwitch's paper says."""
import matplotlib.pyplot as plt

from plot_style import COLORS, MARKERS, order

# What the text of GSwitch's paper says of its figures, in Gb/s of packets of 84 bytes on the wire (GTX 580, PCIe 2),
# by figure and engine: places on the x axis and values.
PAPER = {
    "6c": {
        "linear": ([256, 1024], [55, 20]), "tuple": ([256, 16384], [62, 30]),
        "bloom": ([256, 16384, 131072], [55, 45, 10]),
    },
    "7a": {"linear": ([512], [1]), "tuple": ([512], [5]), "bloom": ([512], [10])},
    "7b": {"linear": ([128], [20]), "tuple": ([128], [16]), "bloom": ([128], [35])},
    "7c": {"linear": ([1, 128], [20, 6]), "tuple": ([1], [16]), "bloom": ([1], [35])},
    "8": {"linear": ([5, 12], [25, 20]), "tuple": ([5, 12], [26, 16]), "bloom": ([5, 12], [50, 35])},
}
ENGINES = ["linear", "tuple", "bloom", "merged", "bit-vectors"]
WIRE_BITS = 84 * 8e-9


def by_batch(places, rows, lines, limits):
    """Figure 5: what a batch costs, and Bloom search by classes."""
    axis = places.pop(0)
    alone = [r for r in rows if r["figure"] == "5" and r["streams"] == 1]
    lines(
        axis, "5(a) time of a batch, 1,024 rules in 128 classes", "headers of a batch",
        [(r["engine"], r["batch"], r["batch"] / r["kernel-per-second"] * 1e6) for r in alone],
    )
    moved = [r for r in alone if r["engine"] == "bloom"]
    axis.plot(
        [r["batch"] for r in moved],
        [r["batch"] * 1e6 * (1 / r["bus-per-second"] - 1 / r["kernel-per-second"]) for r in moved], "--",
        color="#555555", label="both ways over the bus (the rest of a batch's time)",
    )
    axis.plot(
        [8192, 8192], [170, 100], linestyle="none", marker="o", markersize=9, markerfacecolor="none", color="#000000",
        label="paper: Bloom, transfer",
    )
    axis.set_ylabel("us")
    axis.legend(fontsize=7)
    axis = places.pop(0)
    lines(
        axis, "5(b) over the bus, four batches under way", "headers of a batch",
        [
            (r["engine"], r["batch"], r["bus-per-second"] * WIRE_BITS)
            for r in rows
            if r["figure"] == "5" and r["streams"] == 4
        ],
    )
    axis.axhline(limits["36"] * WIRE_BITS, linestyle="--", color="#555555", label="limit of the bus")
    axis.set_ylabel("Gb/s")
    axis.legend(fontsize=7)
    axis = places.pop(0)
    lines(
        axis, "5(c) 256 rules a class", "classes",
        [(r["engine"], r["classes"], r["kernel-per-second"] * WIRE_BITS) for r in rows if r["figure"] == "5c"],
    )
    axis.set_ylabel("Gb/s, kernel alone")
    axis.legend(fontsize=7)


def rules(files):
    """Figures 5 to 10 of GSwitch's paper, its values as hollow marks where its text has them. Of a figure that several
    files have, the last file's points are drawn."""
    figures = files[0]
    last = {(key, r["figure"]): file for file in files for key in ("lookups", "paced") for r in file[key]}
    rows, paced = (
        [r for file in files for r in file[key] if last[key, r["figure"]] is file and "refusal" not in r]
        for key in ("lookups", "paced")
    )
    limits = figures["bus-limit-by-tuple-bytes"]
    batches = any(r["figure"] == "5" for r in rows)
    plot, axes = plt.subplots(4 if batches else 3, 3, figsize=(16, 18 if batches else 13.5))
    color = {engine: COLORS[i] for i, engine in enumerate(ENGINES)}

    def lines(axis, title, label, points, log=True):
        """`points`: (engine, x, y) in order."""
        for i, engine in enumerate(e for e in ENGINES if any(p[0] == e for p in points)):
            own = [p for p in points if p[0] == engine]
            axis.plot([p[1] for p in own], [p[2] for p in own], marker=MARKERS[i], color=color[engine], label=engine)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(label)
        if log:
            axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.grid(alpha=0.3)

    def kernel(figure, title, label, log=True):
        axis = places.pop(0)
        lines(
            axis, title, label,
            [(r["engine"], r["x"], r["kernel-per-second"] * WIRE_BITS) for r in rows if r["figure"] == figure], log,
        )
        for engine, (x, y) in PAPER[figure].items():
            axis.plot(x, y, linestyle="none", marker="o", markersize=9, markerfacecolor="none", color=color[engine])
        axis.set_ylabel("Gb/s, kernel alone (hollow: the paper)")
        axis.legend(fontsize=7)

    places = list(axes.flat)
    if batches:
        by_batch(places, rows, lines, limits)
    axis = places.pop(0)
    large = [r for r in rows if r["figure"] == "targets" and r["rules"] == 131072]
    speed = {r["engine"]: r["kernel-per-second"] for r in large}
    lines(
        axis, "6(a) GPU against cores of its host, 131,072 rules in 512 classes", "cores",
        [
            (c["engine"], c["cores"], speed[c["engine"]] / c["per-second"])
            for c in figures["cpu"]
            if c["engine"] in speed
        ],
    )
    for engine, value in (("linear", 7), ("tuple", 11), ("bloom", 12)):
        axis.plot([8], [value], marker="o", markersize=9, markerfacecolor="none", color=color[engine])
    axis.set_ylabel("times as fast (hollow: the paper)")
    axis.legend(fontsize=7)
    axis = places.pop(0)
    lines(axis, "6(b) over the bus, 131,072 rules in 512 classes", "headers of a batch",
          [(r["engine"], r["batch"], r["bus-per-second"] * WIRE_BITS) for r in rows if r["figure"] == "6b"])
    axis.axhline(limits["36"] * WIRE_BITS, linestyle="--", color="#555555", label="limit of the bus")
    axis.plot(
        [8192], [10], marker="o", markersize=9, markerfacecolor="none", color=color["bloom"],
        label="paper: Bloom on GPU",
    )
    axis.plot(
        [8192], [0.7], marker="s", markersize=9, markerfacecolor="none", color=color["bloom"],
        label="paper: Bloom on 8 cores",
    )
    axis.set_ylabel("Gb/s")
    axis.legend(fontsize=7)
    kernel("6c", "6(c) by rules, 256 a class", "rules")
    kernel("7a", "7(a) by classes, 32,768 rules", "classes")
    kernel("7b", "7(b) by full classes, 1,024 rules in 128 classes", "full classes")
    kernel("7c", "7(c) by classes that match a header, 1,024 rules", "classes that match")
    kernel("8", "8 by fields, 1,024 rules in 128 classes", "fields", log=False)
    axis = places.pop(0)
    nine = [r for r in paced if r["figure"] == "9"]
    for i, rate in enumerate(order(r["input-gbps"] for r in nine)):
        own = [r for r in nine if r["input-gbps"] == rate]
        axis.plot(
            [r["packet-bytes"] for r in own], [r["gbps"] for r in own], marker=MARKERS[i], color=COLORS[i],
            label=f"{rate:.0f} Gb/s offered",
        )
    axis.plot(
        [64], [40], linestyle="none", marker="o", markersize=9, markerfacecolor="none", color="#000000",
        label="paper: 40 Gb/s at 64 B in 100 us; longer ones took 500 us and more",
    )
    axis.set_title("9 Bloom search on an ACL set, at most 100 us more delay", fontsize=10)
    axis.set_xlabel("bytes of a packet")
    axis.set_ylabel("Gb/s")
    axis.set_yscale("log")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=7)
    axis = places.pop(0)
    ten = [r for r in paced if r["figure"] == "10" and r["per-second"] > 0]
    small = [r for r in ten if r["set"] == ten[0]["set"]]
    lines(
        axis, f"10 {ten[0]['set']}, 64 B, by the bound on the delay", "us, p99 of what a batch's first packet waits",
        [(r["engine"], r["delay-us"], r["per-second"] * WIRE_BITS) for r in small],
    )
    axis.axhline(limits["16"] * WIRE_BITS, linestyle="--", color="#555555", label="limit of the bus")
    axis.plot(
        [128], [40], linestyle="none", marker="o", markersize=9, markerfacecolor="none", color=color["bloom"],
        label="paper: Bloom without I/O, beyond 100 us",
    )
    axis.plot(
        [1000], [27], linestyle="none", marker="s", markersize=9, markerfacecolor="none", color=color["bloom"],
        label="paper: Bloom, tuple with I/O",
    )
    axis.set_ylabel("Gb/s")
    axis.legend(fontsize=7)
    return plot
