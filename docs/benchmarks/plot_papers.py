"""Twins of the papers' figures: what scripts/bench-papers measured, with hollow marks and dashed lines for what the
papers' texts say."""
import matplotlib.pyplot as plt

from papers import CHAINS, PAPER, WIRE_BITS, less, over, settled

HOLLOW = {"linestyle": "none", "marker": "o", "markersize": 9, "markerfacecolor": "none"}


def bars(axis, groups, labels, values, colors):
    """`values[label][i]` next to each other for group i; None leaves a gap."""
    width = 0.8 / len(labels)
    for k, label in enumerate(labels):
        places = [i + (k - len(labels) / 2 + 0.5) * width for i in range(len(groups))]
        axis.bar(
            places, [v if v is not None else 0 for v in values[label]], width, label=label,
            color=colors[k % len(colors)],
        )
    axis.set_xticks(range(len(groups)), groups, fontsize=8)


class Twins:
    """One panel for each figure whose files there are."""

    def __init__(self, measured, colors, markers):
        self.m, self.colors, self.markers = measured, colors, markers
        self.color = dict(zip(CHAINS, colors))
        self.marker = dict(zip(CHAINS, markers))

    def by_size(self, axis, sizes, value, unit):
        for c, chain in CHAINS.items():
            axis.plot(
                range(len(sizes)), [value(c, chain, s) for s in sizes], marker=self.marker[c], color=self.color[c],
                label=f"{c} {chain.replace('+', ' → ')}",
            )
        axis.set_xticks(range(len(sizes)), sizes)
        axis.set_xlabel("frame, bytes without CRC")
        axis.set_ylabel(unit)

    def gaviss_5(self, axis):
        sizes = self.m.sizes("gaviss-5")
        self.by_size(
            axis, sizes, lambda c, chain, s: self.m.results("gaviss-5", chain=chain, traffic=s)[0]["gbps"],
            "Gb/s (hollow: the paper's most)",
        )
        for c, most in PAPER["gaviss-5"].items():
            axis.plot([len(sizes) - 1], [most], color=self.color[c], **HOLLOW)

    def gaviss_6(self, axis):
        sizes = self.m.sizes("gaviss-6")
        gains = self.m.ratios("gaviss-5", "gaviss-6", sizes)
        self.by_size(axis, sizes, lambda c, chain, s: gains[c, s], "times as fast as without sharing")
        for i, s in enumerate(sizes):
            low, high = PAPER["gaviss-6"]["small" if int(s) <= 256 else "all"]
            axis.plot(
                [i, i], [low, high], color="#555555", linestyle="--", marker="o", markersize=9,
                markerfacecolor="none", label="the paper, from chain to chain" if i == 0 else None,
            )

    def gaviss_7(self, axis):
        sizes = self.m.sizes("gaviss-7")
        times = self.m.ratios("gaviss-5", "gaviss-7", sizes)
        self.by_size(axis, sizes, lambda c, chain, s: times[c, s], "times the cpu device on all cores")
        self.band(axis, PAPER["gaviss-7"])

    def gaviss_9(self, axis):
        sizes = self.m.sizes("gaviss-6")
        saved = self.m.ratios("gaviss-5", "gaviss-6", sizes, lambda r: r["bytes-to-device-per-packet"])
        self.by_size(axis, sizes, lambda c, chain, s: (1 - saved[c, s]) * 100, "% less bytes to the device by sharing")
        self.band(axis, PAPER["gaviss-9"])

    def band(self, axis, limits):
        for value in limits:
            axis.axhline(
                value, linestyle="--", color="#555555",
                label="the paper, least and most" if value == limits[0] else None,
            )

    def gaviss_11(self, axis):
        curves = self.m.files["gaviss-11"]["curves"]
        for c, chain in CHAINS.items():
            curve = [one for one in curves if one["chain"] == chain][-1]
            axis.plot([p[0] for p in curve["distribution"]], [p[1] for p in curve["distribution"]], color=self.color[c],
                      label=f"{c}, {curve['offered-packets-per-second'] * 1e-6:.1f} Mpkt/s of 512 B")
            axis.plot([ms * 1e3 for ms in PAPER["gaviss-11"][c]], [0.5, 0.95], color=self.color[c], **HOLLOW)
        axis.set_xscale("log")
        axis.set_xlabel("us (hollow: the paper)")
        axis.set_ylabel("share of packets")

    def gaviss_12(self, axis):
        saved = {p: [] for p in ("p50", "p95")}
        for chain in CHAINS.values():
            own, other = (self.m.loaded(name, chain, "last") for name in ("gaviss-11", "gaviss-12"))
            for p in saved:
                saved[p].append(less(own[p], other[p]))
        bars(axis, list(CHAINS), list(saved), saved, self.colors)
        for i, c in enumerate(CHAINS):
            if c in PAPER["gaviss-12"]:
                axis.plot(
                    [i + 0.2, i + 0.2], PAPER["gaviss-12"][c], color="#000000", marker="o", markersize=9,
                    markerfacecolor="none", linestyle="--", label="the paper, p95" if i == 0 else None,
                )
        axis.set_ylabel("% less latency than without sharing")

    def gaviss_13(self, axis):
        ways = ("region", "selective")
        rates = {way: self.m.files[f"gaviss-13-{way}"]["results"][0] for way in ways}
        axis.bar(
            ["all", "without dropped"], [rates[way]["packets-per-second"] * 1e-6 for way in ways], 0.5,
            color=self.colors[:2],
        )
        axis.plot(
            [1], [rates["region"]["packets-per-second"] * 1e-6 / PAPER["gaviss-13"]], color="#000000",
            label="the paper: all / 15.3", **HOLLOW,
        )
        axis.set_ylabel("Mpkt/s, 200 of 1024 B a batch, 41 % dropped")

    def gen_6a(self, axis):
        rows = self.m.results("gen-6a")
        names = {chain: c for c, chain in CHAINS.items()}
        groups, gains, papers = [], [], []
        for r in rows:
            groups.append(f"{names[r['chain']]}\n{r['traffic']} B\n{r['workers']} w.")
            gains.append((over(self.m.fused(r), r["packets-per-second"]) - 1) * 100)
            papers.append(PAPER["gen-6a"][r["traffic"]])
        axis.bar(range(len(groups)), gains, 0.6, color=self.colors[0])
        axis.plot(range(len(groups)), papers, color="#000000", label="the paper", **HOLLOW)
        axis.set_xticks(range(len(groups)), groups, fontsize=7)
        axis.set_ylabel("% more packets fused than pipelined")

    def gen_6b(self, axis):
        names = {"fused": "gaviss-11", "pipelined": "gen-6b"}
        late = {
            way: [self.m.loaded(name, CHAINS[c], "first")["p95"] for c in ("C2", "C4")] for way, name in names.items()
        }
        bars(axis, ["C2", "C4"], list(late), late, self.colors)
        axis.plot(
            [0, 1], [us * (1 - PAPER["gen-6b"] / 100) for us in late["pipelined"]], color="#000000",
            label="the paper: 33.7 % less", **HOLLOW,
        )
        axis.set_ylabel("p95 in us at 20 Gb/s of 512 B")

    def gen_7(self, axis):
        step = [s for s in self.m.files["gaviss-11"]["steps"] if "series" in s][-1]
        series = step["series"]
        axis.plot(
            [p["ms"] for p in series], [p["received-packets-per-second"] * 1e-6 for p in series],
            color=self.colors[0], label="in",
        )
        axis.plot(
            [p["ms"] for p in series], [p["sent-packets-per-second"] * 1e-6 for p in series], color=self.colors[1],
            label="out",
        )
        axis.set_xlabel(f"ms around a step from 10 to 40 Gb/s, C4, 512 B; {settled(step)[0]:.1f} ms")
        axis.set_ylabel("Mpkt/s; dotted: packets of a batch / 100")
        axis.plot(
            [p["ms"] for p in series], [p["batch-packets"] / 100 for p in series], ":", color=self.colors[2],
            label="batch / 100",
        )

    def thesis_47(self, axis):
        for i, name in enumerate(("full-path", "master-worker")):
            rows = self.m.results("thesis-4.7-" + name)
            axis.plot(
                [r["workers"] for r in rows], [r["packets-per-second"] * WIRE_BITS * 1e-9 for r in rows],
                marker=self.markers[i], color=self.colors[i], label=name,
            )
        axis.axhline(PAPER["thesis-4.7"], linestyle="--", color=self.colors[1], label="the thesis: master-worker")
        axis.set_xlabel("workers; mirror, 64 B")
        axis.set_ylabel("Gb/s on the wire")

    def thesis_410(self, axis):
        names = sorted((n for n in self.m.files if n.startswith("thesis-4.10-")), key=lambda n: int(n.split("-")[2]))
        sizes = [int(n.split("-")[2]) for n in names]
        late = axis.twinx()
        for i, chain in enumerate(("mirror", "router")):
            rows = [self.m.results(n, chain=chain)[0] for n in names]
            axis.plot(
                sizes, [r["packets-per-second"] * 1e-6 for r in rows], marker=self.markers[i], color=self.colors[i],
                label=chain,
            )
            late.plot(sizes, [r["latency-us"]["p50"] for r in rows], ":", marker=self.markers[i], color=self.colors[i])
            axis.axvline(
                PAPER["thesis-4.10"][chain], linestyle="--", color=self.colors[i],
                label=f"the thesis: enough for {chain}",
            )
        axis.set_xscale("log", base=2)
        axis.set_xlabel("most packets of a batch; 128 B, 4 workers")
        axis.set_ylabel("Mpkt/s")
        late.set_yscale("log")
        late.set_ylabel("p50 in us at that rate (dotted)")

    def thesis_412(self, axis):
        chains = ("mirror", "router")
        rates = {"launches": [self.m.way(c, "fused")["packets-per-second"] * 1e-6 for c in chains],
                 "persistent": [self.m.rate("thesis-4.12", chain=c) * 1e-6 for c in chains]}
        bars(axis, chains, list(rates), rates, self.colors)
        axis.set_ylabel("Mpkt/s; 64 B, one worker, batches of 1024")

    def thesis_414(self, axis):
        ways = {
            "fused, packed": "packed by the CPU", "fused, gather": "gathered by a kernel",
            "fused, zero-copy": "zero-copy",
        }
        chains = ("mirror", "router")
        rates = {ways[w]: [self.m.way(c, w)["packets-per-second"] * 1e-6 for c in chains] for w in ways}
        bars(axis, chains, list(rates), rates, self.colors)
        axis.set_ylabel("Mpkt/s; 64 B, one worker, batches of 1024")

    def thesis_bytes(self, axis):
        names = list(dict.fromkeys(way["way"] for way in self.m.files["thesis-4.14"]["ways"]))
        rows = [self.m.way("router", name) for name in names]
        for key, label, color, left in (
            ("bytes-to-device-per-packet", "there", self.colors[0], 0),
            ("bytes-to-host-per-packet", "back", self.colors[1], 1),
        ):
            axis.barh(
                range(len(names)), [r[key] for r in rows], 0.6,
                left=[left * r["bytes-to-device-per-packet"] for r in rows], color=color, label=label,
            )
        axis.set_yticks(range(len(names)), names, fontsize=8)
        axis.set_xlabel("bytes of a packet of 64 B over the bus; router")

    def thesis_latency(self, axis):
        names = {
            "thesis-4.14-copies": "packed, copied", "thesis-4.14-zero-copy": "zero-copy",
            "thesis-4.12-launches": "launches", "thesis-4.12-persistent": "persistent",
        }
        rows = {
            p: [self.m.results(n)[0]["latency-us"][p] if self.m.has(n) else None for n in names] for p in ("p50", "p99")
        }
        bars(axis, list(names.values()), list(rows), rows, self.colors)
        axis.set_ylabel("us at 100 Mb/s; mirror, 64 B, one worker")

    def thesis_45(self, axis):
        for i, (name, label) in enumerate((("thesis-4.5-contiguous", "GPU, contiguous"), ("thesis-4.5", "GPU, mbufs"))):
            rows = self.m.results(name)
            axis.plot(
                range(len(rows)), [r["gbps"] for r in rows], marker=self.markers[i], color=self.colors[i],
                label=f"{label}, {rows[0]['workers']} workers",
            )
        rows = self.m.results("thesis-4.5-cpu")
        for i, workers in enumerate(sorted({r["workers"] for r in rows})):
            own = [r for r in rows if r["workers"] == workers]
            axis.plot(
                range(len(own)), [r["gbps"] for r in own], "--", marker=self.markers[2 + i], color=self.colors[2 + i],
                label=f"CPU, {workers} cores",
            )
        sizes = self.m.sizes("thesis-4.5")
        for (on_cpu, size), text in PAPER["thesis-4.5"].items():
            axis.plot(
                [sizes.index(size)], [float(text.split()[0])], color=self.colors[3 if on_cpu else 1],
                label=f"the thesis: {'CPU' if on_cpu else 'GPU'} {text}", **HOLLOW,
            )
        axis.set_xticks(range(len(sizes)), sizes)
        axis.set_xlabel("frame, bytes without CRC")
        axis.set_ylabel("Gb/s of CRC-32 set")

    def watts(self, axis, names):
        first = self.m.results(list(names)[0])
        groups = [f"{r['chain']}\n{r['traffic']} B" for r in first]
        power = {
            label: [r.get("power", {}).get("gpu", {}).get("watts") for r in self.m.results(name)]
            for name, label in names.items()
        }
        bars(axis, groups, list(power), power, self.colors)
        idle = [
            r["power"]["gpu"]["idle-watts"]
            for name in names
            for r in self.m.results(name)
            if "idle-watts" in r.get("power", {}).get("gpu", {})
        ]
        if idle:
            axis.axhline(sum(idle) / len(idle), linestyle="--", color="#555555", label="idle")
        axis.set_ylabel("watts of the GPU's board; one worker")

    def thesis_413(self, axis):
        self.watts(axis, {"thesis-4.13-launches": "launches", "thesis-4.13-persistent": "a kernel that stays"})

    def thesis_415(self, axis):
        self.watts(axis, {"thesis-4.15-copies": "packed and copied", "thesis-4.15-zero-copy": "zero-copy"})

    def thesis_416(self, axis):
        late = axis.twinx()
        rows = self.m.results("thesis-4.16")
        for i, (chain, size) in enumerate(dict.fromkeys((r["chain"], r["traffic"]) for r in rows)):
            own = [r for r in rows if (r["chain"], r["traffic"]) == (chain, size)]
            axis.plot(
                [r["workers"] for r in own], [r["gbps"] for r in own], marker=self.markers[i], color=self.colors[i],
                label=f"{chain}, {size} B",
            )
            late.plot(
                [r["workers"] for r in own],
                [r.get("power", {}).get("gpu", {}).get("watts", float("nan")) for r in own], ":",
                color=self.colors[i],
            )
        axis.set_xlabel("queues, each filled by a worker, with a kernel that stays")
        axis.set_ylabel("Gb/s")
        late.set_ylabel("watts of the GPU (dotted)")

    def thesis_418(self, axis):
        names = sorted(
            (n for n in self.m.files if n.startswith("thesis-4.18-") and n != "thesis-4.18-tables"),
            key=lambda n: int(n.split("-")[2]),
        )
        routes = [int(n.split("-")[2]) for n in names]
        for i, (label, on_cpu) in enumerate((("GPU", False), ("CPU", True))):
            rows = [next(r for r in self.m.results(n) if (r["device"] == "cpu") == on_cpu) for n in names]
            axis.plot(
                routes, [r["packets-per-second"] * WIRE_BITS * 1e-9 for r in rows], marker=self.markers[i],
                color=self.colors[i], label=label,
            )
            paper = PAPER["thesis-4.18"]
            axis.plot(
                [int(n) for n in paper], [p[label.lower()] for p in paper.values()], color=self.colors[i],
                label=f"the thesis: {label}", **HOLLOW,
            )
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("routes, one after the other; 64 B, 4 workers")
        axis.set_ylabel("Gb/s on the wire")


PANELS = [
    ("Gaviss 5: throughput", Twins.gaviss_5, ["gaviss-5"]),
    ("Gaviss 6: gain by the shared buffer", Twins.gaviss_6, ["gaviss-5", "gaviss-6"]),
    ("Gaviss 7: against the CPU", Twins.gaviss_7, ["gaviss-5", "gaviss-7"]),
    ("Gaviss 9: bytes over the bus", Twins.gaviss_9, ["gaviss-5", "gaviss-6"]),
    ("Gaviss 11: latency", Twins.gaviss_11, ["gaviss-11"]),
    ("Gaviss 12: latency at the same load", Twins.gaviss_12, ["gaviss-11", "gaviss-12"]),
    ("Gaviss 13: transfer of all and of what is left", Twins.gaviss_13, ["gaviss-13-region", "gaviss-13-selective"]),
    ("GEN 6(a): one kernel or several", Twins.gen_6a, ["gaviss-5", "gen-6a", "gen-6a-fused"]),
    ("GEN 6(b): latency of both", Twins.gen_6b, ["gaviss-11", "gen-6b"]),
    ("GEN 7: batches follow the load", Twins.gen_7, ["gaviss-11"]),
    ("thesis 4.5: CRC", Twins.thesis_45, ["thesis-4.5", "thesis-4.5-contiguous", "thesis-4.5-cpu"]),
    ("thesis 4.7: threading", Twins.thesis_47, ["thesis-4.7-full-path", "thesis-4.7-master-worker"]),
    ("thesis 4.10: batching", Twins.thesis_410, ["thesis-4.10-256"]),
    ("thesis 4.12: launches or a kernel that stays", Twins.thesis_412, ["thesis-4.12", "thesis-4.14"]),
    ("thesis 4.14: ways in", Twins.thesis_414, ["thesis-4.14"]),
    ("thesis 4.14: bytes over the bus by way", Twins.thesis_bytes, ["thesis-4.14"]),
    (
        "thesis 4.12, 4.14: latency at a fixed rate", Twins.thesis_latency,
        ["thesis-4.14-copies", "thesis-4.12-launches"],
    ),
    ("thesis 4.13: watts by control flow", Twins.thesis_413, ["thesis-4.13-launches", "thesis-4.13-persistent"]),
    ("thesis 4.15: watts by transfer", Twins.thesis_415, ["thesis-4.15-copies", "thesis-4.15-zero-copy"]),
    ("thesis 4.16, 4.17: queues", Twins.thesis_416, ["thesis-4.16"]),
    ("thesis 4.18: lookup by number of routes", Twins.thesis_418, ["thesis-4.18-10", "thesis-4.18-100000"]),
]


def papers(measured, colors, markers):
    """The panels whose files are among those given, at most three a row."""
    panels = [panel for panel in PANELS if measured.has(*panel[2])]
    columns = min(len(panels), 3)
    rows = -(-len(panels) // columns)
    plot, axes = plt.subplots(rows, columns, figsize=(5.4 * columns, 4.6 * rows), squeeze=False)
    twins = Twins(measured, colors, markers)
    for axis, (title, draw, _) in zip(axes.flat, panels):
        draw(twins, axis)
        axis.set_title(title, fontsize=10)
        if axis.get_yscale() == "linear":
            axis.set_ylim(bottom=min(axis.get_ylim()[0], 0))
        if axis.get_legend_handles_labels()[1]:
            axis.legend(fontsize=7)
    for axis in list(axes.flat)[len(panels):]:
        axis.remove()
    return plot
