#!/usr/bin/env python3
"""What the papers' texts say of their figures, beside what scripts/bench-papers measured: papers.py FOLDER prints
both."""
import json
import pathlib
import sys

CHAINS = {
    "C1": "nids+ipsec", "C2": "nids+router+ipsec", "C3": "firewall+nids+ipsec", "C4": "firewall+nids+router+ipsec",
}
TEN_GBPS = 10e9 / 8 / 512  # packets a second of 512 B

# By figure; only what a paper's text names, as its figures are drawn without numbers.
PAPER = {
    "gaviss-5": {"C1": 33.8, "C4": 23.5},  # Gb/s at most; 5.2
    "gaviss-6": {"small": (10.3, 13.2), "all": (2.6, 13.2)},  # times; up to 256 B, all sizes; 5.2
    "gaviss-7": (1.3, 2.8),  # times the CPU; 5.3
    "gaviss-9": (24.3, 48.4),  # per cent less to the device; 5.4
    "gaviss-11": {"C1": (2.9, 3.4), "C2": (3.4, 4.0), "C3": (3.6, 4.1), "C4": (4.0, 4.5)},  # p50, p95 in ms; 5.5
    "gaviss-12": {"C1": (14.9, 19.8), "C4": (35.2, 37.9)},  # per cent less p95; 5.5
    "gaviss-13": 15.3,  # times slower at most, 40 % dropped; 5.6
    "gen-6a": {"64": 29.2, "128": 28.1},  # per cent more; 4
    "gen-6b": 33.7,  # per cent less p95 at 20 Gb/s; 4
    "thesis-4.5": {
        (True, "1024"): "50 (16 cores)", (False, "1024"): "80 (1 core)",
    },  # Gb/s of CRC, by whether on the CPU; 4.6
    "thesis-4.18": {
        "10": {"gpu": 20, "cpu": 20}, "1000": {"gpu": 20, "cpu": 5}, "10000": {"gpu": 2, "cpu": 0.5},
        "100000": {"gpu": 0.1, "cpu": 0.05},
    },  # Gb/s; 4.11
    "thesis-4.7": 5.0,  # Gb/s on the wire of a master with workers, however many; 4.5
    "thesis-4.10": {"mirror": 128, "router": 256},  # packets of a batch that are enough; 4.7
}
WIRE_BITS = (64 + 24) * 8  # of a frame of 64 B, with its CRC, preamble and gap, as the thesis counts (4.2.2)


def over(above, below):
    """Their ratio; not a number where nothing came through in so short a time."""
    return above / below if below else float("nan")


def less(own, other):
    """By how many per cent `own` is less."""
    return (1 - over(own, other)) * 100


class Measured:
    """The files of one run, by name."""

    def __init__(self, files):
        self.files = files

    def has(self, *names):
        return all(name in self.files for name in names)

    def results(self, name, **conditions):
        """Results with these members, such as workers=6; an underscore stands for a hyphen."""
        wanted = {key.replace("_", "-"): value for key, value in conditions.items()}
        return [r for r in self.files[name]["results"] if all(r[key] == value for key, value in wanted.items())]

    def rate(self, name, **conditions):
        return self.results(name, **conditions)[0]["packets-per-second"]

    def sizes(self, name):
        return list(dict.fromkeys(r["traffic"] for r in self.files[name]["results"]))

    def ratios(self, above, below, sizes, value=lambda r: r["packets-per-second"]):
        """Of one file's values to another's, by chain and size."""
        return {
            (c, s): over(
                value(self.results(above, chain=chain, traffic=s)[0]),
                value(self.results(below, chain=chain, traffic=s)[0]),
            )
            for c, chain in CHAINS.items()
            for s in sizes
        }

    def loaded(self, name, chain, share):
        """Latencies in us at the first or last share of the load; what comes after those is the step."""
        shares = len(self.files[name]["curves"]) // len(self.files[name]["steps"])
        return self.results(name, chain=chain)[0 if share == "first" else shares - 1]["latency-us"]

    def fused(self, pipelined):
        """The same point as this result of gen-6a, fused."""
        point = {key: pipelined[key] for key in ("chain", "traffic", "workers")}
        return next(r for name in ("gen-6a-fused", "gaviss-5") for r in self.results(name, **point))[
            "packets-per-second"
        ]

    def way(self, chain, name):
        """What one way of transfer made in 4.14."""
        figures = self.files["thesis-4.14"]
        return next(
            r for r, way in zip(figures["results"], figures["ways"]) if (r["chain"], way["way"]) == (chain, name)
        )


def read(folder):
    return Measured({path.stem: json.loads(path.read_text()) for path in sorted(pathlib.Path(folder).glob("*.json"))})


def span(values, digits=1):
    values = list(values)
    return f"{min(values):.{digits}f} to {max(values):.{digits}f}"


def settled(step):
    """Milliseconds after a step until as many packets leave as come, on average over a millisecond; and batches before
    and after."""
    after = [p for p in step["series"] if p["ms"] > 0]
    before = [p for p in step["series"] if p["ms"] <= 0]
    end = after[len(after) // 2:]
    goal = 0.95 * sum(p["received-packets-per-second"] for p in end) / len(end)
    mean = lambda points, key: sum(p[key] for p in points) / max(len(points), 1)
    time = next(
        (after[i]["ms"] for i in range(len(after)) if mean(after[i : i + 5], "sent-packets-per-second") >= goal),
        float("nan"),
    )
    return time, mean(before, "batch-packets"), mean(end, "batch-packets")


def gaviss(m):
    """Rows of (what, the paper, measured, ratio), the last two as text."""
    if m.has("gaviss-5"):
        for c in CHAINS:
            most = max(r["gbps"] for r in m.results("gaviss-5", chain=CHAINS[c]))
            paper = PAPER["gaviss-5"].get(c)
            yield (
                f"Gaviss 5: {c}, the most, Gb/s", f"{paper}" if paper else "", f"{most:.1f}",
                f"{most / paper:.1f}" if paper else "",
            )
    if m.has("gaviss-5", "gaviss-6"):
        gains = m.ratios("gaviss-5", "gaviss-6", m.sizes("gaviss-6"))
        for s in m.sizes("gaviss-6"):
            low, high = PAPER["gaviss-6"]["small" if int(s) <= 256 else "all"]
            yield (
                f"Gaviss 6: shared / not shared, {s} B, four chains", f"{low} to {high}",
                span((g for (_, size), g in gains.items() if size == s), 2), "",
            )
        yield (
            "Gaviss 6: the same, C4, all sizes", "2.6 to 13.2",
            span((g for (c, _), g in gains.items() if c == "C4"), 2), "",
        )
        for way in ("device", "host"):
            saved = m.ratios("gaviss-5", "gaviss-6", m.sizes("gaviss-6"), lambda r: r[f"bytes-to-{way}-per-packet"])
            yield (f"Gaviss 9: bytes less to the {way}, %", "24.3 to 48.4" if way == "device" else "0",
                   span((1 - g) * 100 for g in saved.values()), "")
    if m.has("gaviss-5", "gaviss-7"):
        times = m.ratios("gaviss-5", "gaviss-7", m.sizes("gaviss-7"))
        yield "Gaviss 7: GPU / CPU, four chains", "1.3 to 2.8", span(times.values()), ""
    if m.has("gaviss-11"):
        for c, chain in CHAINS.items():
            us = m.loaded("gaviss-11", chain, "last")
            p50, p95 = PAPER["gaviss-11"][c]
            yield (
                f"Gaviss 11: {c}, p50, p95, us", f"{p50 * 1e3:.0f}, {p95 * 1e3:.0f}",
                f"{us['p50']:.0f}, {us['p95']:.0f}", f"{us['p50'] / p50 * 1e-3:.2f}, {us['p95'] / p95 * 1e-3:.2f}",
            )
    if m.has("gaviss-11", "gaviss-12"):
        for c, chain in CHAINS.items():
            own, other = m.loaded("gaviss-11", chain, "last"), m.loaded("gaviss-12", chain, "last")
            p50, p95 = (less(own[p], other[p]) for p in ("p50", "p95"))
            paper = "{} to {}".format(*PAPER["gaviss-12"][c]) if c in PAPER["gaviss-12"] else ""
            yield (
                f"Gaviss 12: {c}, p95 less, %", paper, f"{p95:.1f} (p50 {p50:.1f})",
                f"p95 {over(own['p95'], other['p95']):.2f} of {other['p95']:.0f} us",
            )
    if m.has("gaviss-13-region", "gaviss-13-selective"):
        region, selective = (m.files[f"gaviss-13-{way}"]["results"][0] for way in ("region", "selective"))
        dropped = over(region["dropped"], region["packets-per-second"] * region["seconds"])
        times = over(region["packets-per-second"], selective["packets-per-second"])
        yield (
            f"Gaviss 13: all / selective transfer, {dropped:.0%} dropped", f"up to {PAPER['gaviss-13']}",
            f"{times:.2f}", "",
        )


def gen(m):
    if m.has("gaviss-5", "gen-6a", "gen-6a-fused"):
        for r in m.results("gen-6a"):
            fused = m.fused(r)
            paper = f"{1 + PAPER['gen-6a'][r['traffic']] / 100:.2f}"
            yield (
                f"GEN 6(a): fused / pipelined, {r['chain']}, {r['traffic']} B, {r['workers']} workers", paper,
                f"{over(fused, r['packets-per-second']):.2f}", f"{fused * 1e-6:.1f} Mpkt/s",
            )
    if m.has("gaviss-11", "gen-6b"):
        for c in ("C2", "C4"):
            own, other = (m.loaded(name, CHAINS[c], "first") for name in ("gaviss-11", "gen-6b"))
            yield (
                f"GEN 6(b): {c}, p95 less, %", f"{PAPER['gen-6b']}", f"{less(own['p95'], other['p95']):.1f}",
                f"{own['p95']:.0f} of {other['p95']:.0f} us",
            )
    if m.has("gaviss-11"):
        for step in m.files["gaviss-11"]["steps"]:
            if "series" in step:
                time, before, after = settled(step)
                yield (
                    f"GEN 7: batches before, after a step, {step['chain']}", "", f"{before:.0f}, {after:.0f}",
                    f"{time:.1f} ms, {step['missed']} missed",
                )


def thesis(m):
    if m.has("thesis-4.7-full-path", "thesis-4.7-master-worker"):
        for r in m.results("thesis-4.7-full-path"):
            master = m.rate("thesis-4.7-master-worker", workers=r["workers"])
            yield (
                f"thesis 4.7: master-worker, {r['workers']} workers, Gb/s on the wire", "5",
                f"{master * WIRE_BITS * 1e-9:.1f}",
                f"full path {r['packets-per-second'] * WIRE_BITS * 1e-9:.1f}, "
                f"{over(r['packets-per-second'], master):.1f} times",
            )
    for name in sorted((n for n in m.files if n.startswith("thesis-4.10-")), key=lambda n: int(n.split("-")[2])):
        for r in m.results(name):
            yield (
                f"thesis 4.10: {r['chain']}, batches of {name.split('-')[2]}", "",
                f"{r['packets-per-second'] * 1e-6:.1f} Mpkt/s", f"p50 {r['latency-us']['p50']:.0f} us",
            )
    if m.has("thesis-4.14"):
        for r, way in zip(m.files["thesis-4.14"]["results"], m.files["thesis-4.14"]["ways"]):
            yield (f"thesis 4.14: {r['chain']}, {way['way']}", "", f"{r['packets-per-second'] * 1e-6:.1f} Mpkt/s",
                   f"{r['bytes-to-device-per-packet']:.0f} B there, {r['bytes-to-host-per-packet']:.0f} back")
    if m.has("thesis-4.12", "thesis-4.14"):
        for r in m.results("thesis-4.12"):
            launches = m.way(r["chain"], "fused")["packets-per-second"]
            yield (
                f"thesis 4.12: {r['chain']}, persistent / launches", "",
                f"{over(r['packets-per-second'], launches):.2f}", f"{r['packets-per-second'] * 1e-6:.1f} Mpkt/s",
            )
    for name, what in (
        ("4.14-copies", "packed, copied"), ("4.14-zero-copy", "zero-copy"), ("4.12-launches", "launches"),
        ("4.12-persistent", "persistent"),
    ):
        if m.has("thesis-" + name):
            us = m.results("thesis-" + name)[0]["latency-us"]
            yield (
                f"thesis {name[:4]}: mirror, 100 Mb/s, {what}, p50, p99, us", "", f"{us['p50']:.0f}, {us['p99']:.0f}",
                "",
            )


def thesis_besides(m):
    """Its CRC, watts, queues and linear lookup."""
    rate = lambda r: f"{r['packets-per-second'] * 1e-6:.2f} Mpkt/s"
    watts = lambda r: "{watts:.0f} W, idle {idle-watts:.0f} W".format(
        **{"watts": float("nan"), "idle-watts": float("nan"), **r.get("power", {}).get("gpu", {})}
    )
    for name in ("thesis-4.5", "thesis-4.5-contiguous", "thesis-4.5-cpu"):
        for r in m.results(name) if m.has(name) else []:
            yield (
                f"thesis 4.5: CRC, {r['traffic']} B, {r['device']}, {r['layout']}, {r['workers']} workers",
                PAPER["thesis-4.5"].get((r["device"] == "cpu", r["traffic"]), ""), f"{r['gbps']:.1f} Gb/s",
                f"{r.get('bus', {}).get('share', 0):.2f} of the bus" if "bus" in r else rate(r),
            )
    for name in sorted(
        (n for n in m.files if n.startswith(("thesis-4.10e-", "thesis-4.11-"))),
        key=lambda n: (n.split("-")[1], int(n.split("-")[2])),
    ):
        for r in m.results(name):
            yield (
                f"thesis {name.split('-')[1]}: {r['chain']}, {r['workers']} workers, batches of {name.split('-')[2]}",
                "", rate(r), f"p50 {r['latency-us']['p50']:.0f} us",
            )
    for name in (
        "thesis-4.13-launches", "thesis-4.13-persistent", "thesis-4.15-copies", "thesis-4.15-zero-copy",
        "thesis-4.16",
    ):
        for r in m.results(name) if m.has(name) else []:
            yield (
                f"{name.replace('-', ' ', 1)}: {r['chain']}, {r['traffic']} B, {r['workers']} workers", "", rate(r),
                watts(r),
            )
    for name in sorted(
        (n for n in m.files if n.startswith("thesis-4.18-") and n != "thesis-4.18-tables"),
        key=lambda n: int(n.split("-")[2]),
    ):
        for r in m.results(name):
            wire = r["packets-per-second"] * WIRE_BITS * 1e-9
            paper = PAPER["thesis-4.18"].get(name.split("-")[2], {}).get("cpu" if r["device"] == "cpu" else "gpu", "")
            yield (
                f"thesis 4.18: {name.split('-')[2]} routes, {r['device']}, Gb/s on the wire", f"{paper}",
                f"{wire:.3f}", rate(r),
            )
    for r in m.results("thesis-4.18-tables") if m.has("thesis-4.18-tables") else []:
        yield f"thesis 4.18: by tables, {r['device']}", "", rate(r), ""


def main():
    measured = read(sys.argv[1])
    print("| what | paper | measured | ratio, or more |\n| --- | ---: | ---: | --- |")
    for part in (gaviss, gen, thesis, thesis_besides):
        for row in part(measured):
            print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()
