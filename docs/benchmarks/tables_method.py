"""The tables of method.md. But for the inputs, their records do not come from scripts/bench-gpu: measured once."""

from records import lines_of, million


def table_inputs(page):
    inputs = page.load("chain-contiguous")["inputs"]
    rows = [[key, f"{value:,}" if isinstance(value, int) else value] for key, value in inputs.items() if value]
    return lines_of(["input", "what"], rows, 2)


def table_profile(page):
    """The figures of one GPU's bus that millrace has built in."""
    record = page.load("profile")
    f = record["figures"]

    def way(key, name, item):
        p = f[key]
        return [
            name,
            f"{p['start-ns'] * 1e-3:.1f} us" if p["start-ns"] else "–",
            f"{p['item-ns']:.2g} ns a {item}" if p["item-ns"] else "–",
            f"{1 / p['byte-ns']:.1f} GB/s",
        ]

    return lines_of(
        ["way", "each time", "each item", "bytes"],
        [
            way("copy-in", "copy in", "copy"),
            way("copy-out", "copy back", "copy"),
            way("rows", "rows of a 2-D copy", "row"),
            way("gather", "gather by a kernel", "frame"),
            way("zero-copy", "the chain's kernel reads host memory", "frame"),
            way("heads-out", "a kernel writes heads into host memory", "head"),
            way("pack", "packing by the CPU", "frame"),
        ],
    )


def table_profile_fit(page):
    """How far the model lies from what was measured."""
    record = page.load("profile")
    errors = sorted(abs(s["fitted-ns"] / s["measured-ns"] - 1) for s in record["samples"])
    most = [f"{errors[int(len(errors) * share) - 1]:.0%}" for share in (0.5, 0.9)]
    return lines_of(
        ["device", "measurements", "half lie within", "nine of ten within", "commit, date"],
        [[record["device"], len(errors), *most, f"{record['commit']}, {record['date']}"]],
    )


def table_once(page):
    rows = []

    def row(what, measured, name):
        record = page.load(name)
        link = f"[{name}](gpu/{name}.json)"
        rows.append([what, measured(record), f"{record.get('commit', 'a bare program')}, {record['date']}", link])

    def compaction(record):
        rate = {
            (k["dropped-percent"], k["compacted"]): k["kernel-packets-per-second"]
            for k in record["kernels"]
            if k["traffic"] == "512"
        }
        return "; ".join(
            f"{percent:g} % dropped: {million(rate[percent, False])} and {million(rate[percent, True])} Mpkt/s"
            for percent in sorted({percent for percent, _ in rate})
        )

    def gather(record):
        rates = next(w["rates"] for w in record["ways"] if w["frame-bytes"] == 512)
        few, many = (
            rates["32 blocks of 512, 8 a frame"],
            rates["gather: 256 blocks of 256 threads, 8 a frame, in order"],
        )
        return f"32 blocks of 512 threads: {few:g} GB/s; 256 blocks of 256: {many:g}"

    def launches(record):
        cost = {
            r["way"]: r["cpu-us-per-batch"]
            for r in record["rows"]
            if (r["frame"], r["packets"], r["kernel-us"]) == (64, 2048, 8)
        }
        calls, graph = cost["calls on a stream"], cost["graph, nodes updated"]
        return f"calls: {calls:.1f} us of a core; a graph with new parameters: {graph:.1f}"

    def transfers(record):
        def named(way):
            return way.replace("fused, ", "").replace("fused", "chosen by the model")

        return (
            "; ".join(
                f"{named(way['way'])}: {million(r['packets-per-second'])}"
                for way, r in zip(record["ways"], record["results"])
            )
            + " Mpkt/s"
        )

    def hardware_queues(record):
        own = {}
        for r in record["results"]:
            if r["workers"] == 6 and ("bare" in r["what"] or "flows" in r["what"]):
                own.setdefault(r["queues"], []).append(million(r["packets-per-second"]))
        return "; ".join(f"{n} queues: {', '.join(rates)}" for n, rates in own.items()) + " Mpkt/s"

    def long_batches(record):
        own = {}
        for r in record["results"]:
            if r["queues"] == 8 and r["what"].endswith("rules") and r["traffic"] != "64":
                own.setdefault((r["long-batch-bytes"], r["traffic"]), []).append(r["packets-per-second"])
        rates = {key: million(sum(values) / len(values)) for key, values in own.items()}
        sizes = {None: "none is long", 4 << 20: "from 4 MiB", 0: "all are"}
        return (
            "; ".join(f"{name}: {rates[size, '512']}, {rates[size, '1518']}" for size, name in sizes.items())
            + " Mpkt/s"
        )

    def no_sharing(record):
        return "; ".join(f"{r['traffic']} B: {million(r['packets-per-second'])} Mpkt/s" for r in record["results"])

    def bare(record):
        return "; ".join(
            f"{r['traffic']} B: {million(r['packets-per-second'])} Mpkt/s"
            for r in record["results"]
            if r["traffic"] in ("64", "512", "1518")
        )

    def batches(record):
        cycles = sorted(r["cycles-per-packet"] for r in record["results"])
        return f"{cycles[0]:.0f} to {cycles[-1]:.0f} cycles"

    row(
        "a block lists the packets that wait for an NF: kernels at 512 B, without and with the list",
        compaction,
        "compaction",
    )
    row("reads of host memory under way at once: 512 B frames gathered while as much goes back", gather, "gather")
    row("what a batch of 2,048 frames of 64 B costs to put on the device", launches, "launches")
    row("the router at 64 B with mbufs, by way of transfer", transfers, "transfers")
    row(
        "queues of the hardware: four NFs at 64 B; with 12,508 rules and state of flows at 512 B, 1518 B; six workers",
        hardware_queues,
        "queues",
    )
    row(
        "ordered kernels of long batches by themselves: four NFs with 12,508 rules at 512 B, 1518 B; H100",
        long_batches,
        "long-batches",
    )
    row(
        "each NF moves its own frames (`--mode no-sharing`), contiguous; fused made 316.5 and 207.5 Mpkt/s then",
        no_sharing,
        "modes-no-sharing",
    )
    row(
        "a packet of 64 B with mbufs through a device that takes no time, six workers, batches of 1,024 to 8,192",
        batches,
        "batches",
    )
    row("a bare loop around the same CPU libraries, 16 cores", bare, "bare-loop")
    return lines_of(["what", "measured", "commit, date", "record"], rows)
