"""The tables of gpu.md."""

from records import GROWTH, PLOTS, Missing, basis, frame, grounded, lines_of, million, optional, rules_of


def table_throughput(page):
    """By frame size: contiguous frames, mbufs and the CPU. Shares and energy are the best one's."""
    columns, bases = [], []

    def column(head, name, value):
        columns.append((head, {traffic: value(own) for traffic, own in by_traffic[name].items()}))

    def best(own):
        return max(own, key=lambda r: r["packets-per-second"])

    by_traffic, kinds = {}, dict(zip(PLOTS["throughput"], ("contiguous", "mbufs", "CPU")))
    for name in kinds:
        try:
            results = page.results(name)
        except Missing:
            if name == "chain-contiguous":
                raise
            continue
        by_traffic[name] = {}
        for r in results:
            by_traffic[name].setdefault(r["traffic"], []).append(r)
        bases.append(rules_of(page.load(name)))
    for name in by_traffic:
        what = kinds[name]
        for workers in sorted({r["workers"] for r in page.results(name)}):
            column(
                f"{what}, {workers} workers",
                name,
                lambda own: next((million(r["packets-per-second"]) for r in own if r["workers"] == workers), "–"),
            )
        if name == "cpu":
            continue
        column("Gb/s", name, lambda own: f"{best(own)['gbps']:.0f}")
        column("of the bus", name, lambda own: optional(best(own).get("bus", {}).get("share"), ".2f"))
        if what == "contiguous":
            column("of what crosses", name, lambda own: optional(best(own).get("bus", {}).get("crossing-share"), ".2f"))
            column(
                "Mpkt/J", name, lambda own: optional(best(own).get("gpu-packets-per-joule", 0) * 1e-6 or None, ".2f")
            )
    rows = [
        [frame(own[0]), *(values.get(traffic, "–") for _, values in columns)]
        for traffic, own in by_traffic["chain-contiguous"].items()
    ]
    return [
        f"{'; '.join(dict.fromkeys(bases)).capitalize()}; Mpkt/s unless a column says otherwise:",
        "",
        *lines_of(["frame", *(head for head, _ in columns)], rows),
    ]


def table_others(page):
    rows, bases = [], []
    for name in ("router", "replay"):
        try:
            own = page.results(name)
        except Missing as missing:
            own = []
            rows.append([name, f"not measured: there is no {missing}", *["–"] * 4])
            bases.append("–")
        for r in own:
            rows.append(
                [
                    r["chain"].replace("+", ", "),
                    frame(r),
                    r["workers"],
                    million(r["packets-per-second"]),
                    f"{r['gbps']:.0f}",
                    optional(r.get("bus", {}).get("share"), ".2f"),
                ]
            )
            bases.append(basis(page.load(name), r))
    if set(bases) == {"–"}:
        raise Missing("router.json, replay.json")
    return grounded(["chain", "frame", "workers", "Mpkt/s", "Gb/s", "of the bus"], rows, bases, 2)


def growth(page, what):
    """Rates by how many of them there are, and in brackets relative to one."""
    names, rows, bases = GROWTH[what], [], []
    for size in dict.fromkeys(r["traffic"] for r in page.results(names[0])):
        own = [page.results(name, traffic=size)[0] for name in names]
        rates = [r["packets-per-second"] for r in own]
        rows.append([frame(own[0]), *(f"{million(rate)} ({rate / rates[0]:.2f})" for rate in rates)])
        bases.append(basis(page.load(names[0]), own[0]))
    counts = [int(name.split("-")[1]) for name in names]
    return grounded(["frame", *(f"{n:,} {what[:-1]}{'s' if n > 1 else ''}" for n in counts)], rows, bases)


def table_chains_cycles(page):
    """What lays batches out and hands results on costs a worker, by how many chains there are."""
    names, rows = GROWTH["chains"], []
    own = [page.results(name)[0]["batch-cycles-per-packet"] for name in names]
    for what in ("layout", "results"):
        rows.append([what, *(f"{cycles[what]:.1f}" for cycles in own)])
    rows.append(["results, of the layout's", *(f"{cycles['results'] / cycles['layout']:.1f}" for cycles in own)])
    counts = [int(name.split("-")[1]) for name in names]
    return lines_of(["cycles a packet", *(f"{n:,} chain{'s' if n > 1 else ''}" for n in counts)], rows)


def table_tunnels(page):
    return growth(page, "tunnels")


def table_chains(page):
    return growth(page, "chains")


def table_modes(page):
    rows, bases = [], []
    for size in dict.fromkeys(r["traffic"] for r in page.results("modes-fused")):
        fused, pipelined = (page.results(f"modes-{mode}", traffic=size)[0] for mode in ("fused", "pipelined"))
        rates = [r["packets-per-second"] for r in (fused, pipelined)]
        rows.append([frame(fused), *map(million, rates), f"{rates[0] / rates[1]:.2f}"])
        bases.append(basis(page.load("modes-fused"), fused))
    return grounded(["frame", "fused, Mpkt/s", "pipelined, Mpkt/s", "ratio"], rows, bases)
