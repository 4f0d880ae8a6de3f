"""The plots of the pages that tables.py fills, from the same records: plot.py without files draws them."""

import json

import matplotlib.pyplot as plt

from records import GROWTH, PLOTS, digest, layout_of, rules_of

SIZES = ["64", "128", "256", "512", "1024", "1518"]


def lines(axis, colors, markers, entries):
    """`entries`: (label, x, y) of each line."""
    for i, (label, x, y) in enumerate(entries):
        axis.plot(x, y, marker=markers[i % 8], color=colors[i % 7], label=label)


def throughput(records, colors, markers):
    """Packets and bits a second against frame size: frames contiguous, mbufs, the CPU, and what the bus carries."""
    plot, axes = plt.subplots(1, 2, figsize=(11, 4.4))
    entries, limits = {}, {}
    for record in records:
        for r in record["results"]:
            if r["traffic"] not in SIZES:
                continue
            kind = "CPU" if r["device"] == "cpu" else f"GPU, {layout_of(r)}"
            entries.setdefault(f"{kind}, {r['workers']} workers", []).append(r)
            if "bus" in r:
                size = int(r["traffic"])
                limits[size] = max(limits.get(size, 0), r["bus"]["limit-packets-per-second"])
    for axis, scale in zip(axes, (lambda size: 1e-6, lambda size: size * 8e-9)):
        lines(
            axis,
            colors,
            markers,
            [
                (
                    label,
                    [int(r["traffic"]) for r in own],
                    [r["packets-per-second"] * scale(int(r["traffic"])) for r in own],
                )
                for label, own in entries.items()
            ],
        )
        if limits:
            axis.plot(
                sorted(limits),
                [limits[size] * scale(size) for size in sorted(limits)],
                "--",
                color="#555555",
                label="limit of the bus",
            )
        axis.set_xscale("log", base=2)
        axis.set_xticks([int(size) for size in SIZES], SIZES)
        axis.set_xlabel("frame, bytes without CRC")
        axis.grid(alpha=0.3)
    axes[0].set_yscale("log")
    axes[0].set_ylabel("Mpkt/s")
    axes[1].set_ylim(bottom=0)
    axes[1].set_ylabel("Gb/s of frames that came in")
    axes[0].legend(fontsize=8)
    axes[0].set_title(f"{records[0]['results'][0]['chain'].replace('+', ' → ')}, {rules_of(records[0])}", fontsize=9)
    return plot


def from_zero(axis, what):
    """Ends an axis whose values count from zero."""
    axis.set_ylabel(what)
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)


def growth(what, label):
    """How to draw packets a second against how many of them there are, a line for each frame size and layout of a GPU,
    or for each number of cores."""

    def draw(records, colors, markers):
        plot, axis = plt.subplots(figsize=(5.5, 4.2))
        counts = [int(name.split("-")[-1]) for name in GROWTH[what]]
        own = {}
        for record in records:
            for r in record["results"]:
                cores = f"{r['workers']} core{'s' if r['workers'] > 1 else ''}"
                line = f"{r['traffic']} B, {cores if r['device'] == 'cpu' else layout_of(r)}"
                own.setdefault(line, []).append(r["packets-per-second"] * 1e-6)
        lines(axis, colors, markers, [(name, counts, rates) for name, rates in own.items()])
        axis.set_xscale("log", base=2)
        axis.set_xticks(counts, [f"{n:,}" for n in counts])
        axis.set_xlabel(label)
        axis.set_ylabel("Mpkt/s")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
        return plot

    return draw


def flows(records, colors, markers):
    """Packets a second against connections that are followed, by how they come."""
    plot, axis = plt.subplots(figsize=(6, 4.2))
    own = {}
    for record in records:
        inputs = record["inputs"]
        for r in record["results"]:
            where = "GPU" if "cuda" in r["device"] else f"{r['workers']} core{'s' if r['workers'] > 1 else ''}"
            name = f"{where}, {'by Zipf' if inputs['popularity'] == 'zipf' else 'each in turn'}"
            own.setdefault(name, {})[inputs["flows"]] = r["packets-per-second"] * 1e-6
    counts = sorted({count for rates in own.values() for count in rates})
    entries = [(name, sorted(rates), [rates[n] for n in sorted(rates)]) for name, rates in own.items()]
    lines(axis, colors, markers, entries)
    axis.set_xscale("log")
    axis.set_xticks(counts, [f"{n:,}" for n in counts])
    axis.set_xlabel("connections that are followed")
    from_zero(axis, "Mpkt/s")
    return plot


def workers(records, colors, markers):
    """Packets a second of a chain against workers, at the frame size of the first record."""
    plot, axis = plt.subplots(figsize=(5.5, 4.2))
    traffic = records[0]["results"][0]["traffic"]
    rates = {
        r["workers"]: r["packets-per-second"] * 1e-6
        for record in records
        for r in record["results"]
        if r["traffic"] == traffic
    }
    found = sorted(rates)
    lines(axis, colors, markers, [(f"{traffic} B, contiguous", found, [rates[n] for n in found])])
    axis.set_xticks(found)
    axis.set_xlabel("workers")
    from_zero(axis, "Mpkt/s")
    return plot


def two_gpus(records, colors, markers):
    """Packets a second against workers."""
    plot, axis = plt.subplots(figsize=(5.5, 4.2))
    own = {}
    for record in records:
        for r in record["results"]:
            own.setdefault("two GPUs" if "+" in r["device"] else "one GPU", []).append(
                (r["workers"], r["packets-per-second"] * 1e-6)
            )
    lines(axis, colors, markers, [(label, *zip(*sorted(points))) for label, points in own.items()])
    axis.set_xticks(sorted({workers for points in own.values() for workers, _ in points}))
    axis.set_xlabel("workers; frames of 64 B, contiguous")
    from_zero(axis, "Mpkt/s")
    return plot


def sharing(records, colors, _markers):
    """Throughput of functions apart by each way to share a GPU, and p99 at the same load."""
    plot, axes = plt.subplots(2, 1, figsize=(9, 7))
    both = zip(records[0]["ways"], records[0]["results"], strict=True)
    found = [(way["way"], way["same-load"], result) for way, result in both]
    points = list(dict.fromkeys((result["chain"], result["traffic"]) for _, _, result in found))
    ways = list(dict.fromkeys(way for way, _, _ in found))
    for axis, same_load, what, of in (
        (axes[0], False, "Mpkt/s", lambda result: result["packets-per-second"] * 1e-6),
        (axes[1], True, "p99 at the same load, us", lambda result: result["latency-us"]["p99"]),
    ):
        for i, way in enumerate(ways):
            heights = [
                next((of(r) for w, s, r in found if (w, s, r["chain"], r["traffic"]) == (way, same_load, *point)), 0)
                for point in points
            ]
            places = [at + (i - (len(ways) - 1) / 2) * 0.16 for at in range(len(points))]
            axis.bar(places, heights, 0.16, label=way, color=colors[i])
        axis.set_xticks(range(len(points)), [f"{c.replace('+', chr(10))}\n{size} B" for c, size in points], fontsize=6)
        axis.set_ylabel(what)
    axes[1].set_yscale("log")
    axes[0].legend(fontsize=8)
    return plot


def queues(records, colors, markers):
    """Packets a second against queues of the hardware, as shares of those with the 8 that the driver takes."""
    plot, axis = plt.subplots(figsize=(5.5, 4.2))
    own = {}
    for r in records[0]["results"]:
        if r["workers"] == 6:
            own.setdefault(f"{r['what'].split(', ', 1)[1]}, {r['traffic']} B", {})[r["queues"]] = r[
                "packets-per-second"
            ]
    lines(axis, colors, markers, [(what, list(of), [n / of[8] for n in of.values()]) for what, of in own.items()])
    axis.set_xscale("log", base=2)
    axis.set_xticks([2, 4, 8, 16, 32], ["2", "4", "8", "16", "32"])
    axis.set_xlabel("queues of the hardware; six workers, contiguous")
    from_zero(axis, "packets a second, of those with 8 queues")
    return plot


def draw_pages(folder, colors, markers, others):
    """Draws what there are records for. `others`: how plot.py draws files of one kind, by the plot's name."""
    own = {
        "throughput": throughput,
        "tunnels": growth("tunnels", "ESP tunnels"),
        "flows": flows,
        "chains": growth("chains", "chains of firewall and router that share a port"),
        "rules-chains": growth("rules-chains", "chains with published rules that share a port"),
        "cpu-tunnels": growth("cpu-tunnels", "ESP tunnels of IPsec alone"),
        "rules-workers": workers,
        "two-gpus": two_gpus,
        "sharing": sharing,
        "queues": queues,
    }
    for name, records in PLOTS.items():
        files = [folder / f"{record}.json" for record in records]
        found = [json.loads(f.read_text()) for f in files if f.exists()]
        wants_all = name in own and name not in ("throughput", "flows")
        if not found or (wants_all and len(found) < len(files)):
            print(f"{name}.svg: not drawn, there is no {', '.join(f.name for f in files if not f.exists())}")
            continue
        plot = own[name](found, colors, markers) if name in own else others[name](found)
        plot.tight_layout()
        plot.savefig(folder / f"{name}.svg", metadata={"Date": None, "Source": digest(folder, name)})
        plt.close(plot)
        print(f"{name}.svg")
