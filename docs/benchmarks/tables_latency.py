"""The tables of latency.md."""

from records import (
    PLOTS, STAGES, Missing, basis, curve_results, frame, grounded, million, optional, rules_of, stages_of,
)


def table_kernels(page):
    """What the kernels of one batch alone take, by network function."""
    record = page.load("nf-times")
    names = list(dict.fromkeys(p["name"] for k in record["kernels"] for p in k["parts"]))
    rows = []
    for k in record["kernels"]:
        ns = {name: sum(p["ns-per-packet"] for p in k["parts"] if p["name"] == name) for name in names}
        rows.append(
            [
                frame(k),
                f"{k['batch-packets']:,}",
                *(f"{ns[name] * k['batch-packets'] * 1e-3:.0f}" for name in names),
                f"{k['batch-us']:.0f}",
                million(k["kernel-packets-per-second"]),
            ]
        )
    return grounded(
        ["frame", "packets", *names, "all, us", "many batches, Mpkt/s"],
        rows,
        [f"frames in the GPU's memory, {rules_of(record)}"] * len(rows),
    )


def latencies(page):
    """(record, curves, steps) of all records of latencies that there are."""
    found = []
    for name in PLOTS["latency"]:
        try:
            record = page.load(name)
        except Missing:
            continue
        found.append((record, *curve_results(record)))
    if not found:
        raise Missing("latency.json")
    return found


def worked(r):
    workers = f"{r['workers']} worker{'s' if r['workers'] > 1 else ''}"
    return [r["device"], workers + (" and a thread for calls" if r.get("call-thread") else "")]


def table_latency(page):
    rows, bases = [], []
    for record, curves, _ in latencies(page):
        for curve, r in curves:
            us = r["latency-us"]
            rows.append(
                [
                    *worked(r),
                    f"{curve['share']:.0%}",
                    million(r["packets-per-second"]),
                    optional(r.get("batch-packets"), ",.0f"),
                    f"{us['p50']:.0f}",
                    f"{us['p99']:.0f}",
                    f"{us['p99.9']:.0f}",
                    f"{r['missed-packets']:,}",
                ]
            )
            bases.append(f"{frame(r)}, {basis(record, r)}")
    return grounded(
        ["device", "run by", "load", "Mpkt/s", "packets a batch", "p50, us", "p99, us", "p99.9, us", "missed"],
        rows,
        bases,
        2,
    )


def table_stages(page):
    own = [
        (record, curve, r)
        for record, curves, _ in latencies(page)
        for curve, r in curves
        if any(stages_of(r).values())
    ]
    rows = [
        [*worked(r), f"{curve['share']:.0%}", *(f"{stages_of(r).get(stage, 0):.0f}" for stage in STAGES)]
        for _, curve, r in own
    ]
    return grounded(
        ["device", "run by", "load", *(f"{stage}, us" for stage in STAGES)],
        rows,
        [f"{frame(r)}, {basis(record, r)}" for record, _, r in own],
        2,
    )


def table_steps(page):
    own = [(record, step, r) for record, _, steps in latencies(page) for step, r in steps]
    rows = [
        [
            *worked(r),
            f"{step['from-share']:.0%} to {step['to-share']:.0%}",
            f"{r['latency-us']['p50']:.0f}",
            f"{r['latency-us']['p99']:.0f}",
            f"{step['missed']:,}",
        ]
        for _, step, r in own
    ]
    return grounded(
        ["device", "run by", "load", "p50, us", "p99, us", "missed"],
        rows,
        [f"{frame(r)}, {basis(record, r)}" for record, _, r in own],
        3,
    )
