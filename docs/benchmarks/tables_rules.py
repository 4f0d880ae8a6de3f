"""The tables of rules.md: published rules in the NIDS, how long a start takes, tunnels on the CPU's cores."""

from records import lines_of, million

SIZES = ("64", "512", "1518", "imix")
TUNNELS = (1, 16, 256, 1024, 16384)


def table_rules(page):
    """Bare patterns and published rules in mbufs and over captures, each beside what the bus carries."""
    rows = []
    for frame, name, how in (("512", "mbufs", "mbufs"), ("1518", "mbufs", "mbufs"), ("captures", "replay", "contiguous frames")):
        wanted = {"traffic": frame} if frame.isdigit() else {}
        bare, rules = (page.results(record, **wanted)[0] for record in (f"rules-bare-{name}", f"rules-{name}"))
        cells = [cell for r in (bare, rules) for cell in (million(r["packets-per-second"]), f"{r['bus']['share']:.2f}")]
        if frame.isdigit():
            cores = [page.results(record, traffic=frame)[0]["packets-per-second"] for record in ("rules-bare-cpu", "rules-cpu")]
            cells += [*(million(rate) for rate in cores), f"{rules['packets-per-second'] / cores[1]:.1f}"]
        else:
            cells += ["–", "–", "–"]
        rows.append([f"{frame} B" if frame.isdigit() else frame, how, *cells])
    return lines_of(
        [
            "frame",
            "as",
            "bare patterns, Mpkt/s",
            "of the bus",
            "rules, Mpkt/s",
            "of the bus",
            "CPU, bare",
            "CPU, rules",
            "GPU to CPU, rules",
        ],
        rows,
        2,
    )


def table_rules_before(page):
    """Bare patterns and published rules, each beside what the bus carries."""
    rows = []
    for size in SIZES:
        bare, rules, cpu_bare, cpu_rules = (
            page.results(name, traffic=size)[0] for name in ("rules-before-bare", "rules-before", "rules-before-bare-cpu", "rules-before-cpu")
        )
        rows.append(
            [
                f"{size} B" if size.isdigit() else "IMIX",
                *(cell for r in (bare, rules) for cell in (million(r["packets-per-second"]), f"{r['bus']['share']:.2f}")),
                *(million(r["packets-per-second"]) for r in (cpu_bare, cpu_rules)),
                f"{rules['packets-per-second'] / cpu_rules['packets-per-second']:.1f}",
            ]
        )
    bare, rules = (page.results(name)[0] for name in ("rules-before-bare-replay", "rules-before-replay"))
    cells = (cell for r in (bare, rules) for cell in (million(r["packets-per-second"]), f"{r['bus']['share']:.2f}"))
    rows.append(["captures", *cells, "–", "–", "–"])
    return lines_of(
        [
            "frame",
            "bare patterns, Mpkt/s",
            "of the bus",
            "rules, Mpkt/s",
            "of the bus",
            "CPU, bare",
            "CPU, rules",
            "GPU to CPU, rules",
        ],
        rows,
    )


def table_rules_before_times(page):
    """What each network function takes of the kernels, with published rules."""
    runs = page.load("rules-before-times")["kernels"]
    names = list(dict.fromkeys(part["name"] for run in runs for part in run["parts"]))
    rows = []
    for run in runs:
        parts = {part["name"]: part["ns-per-packet"] for part in run["parts"]}
        rows.append(
            [f"{run['traffic']} B", *(f"{parts.get(name, 0):.1f}" for name in names), f"{run['batch-us']:,.0f}"]
        )
    return lines_of(["frame", *(f"{name}, ns" for name in names), "a batch of 16,384, us"], rows)


def table_start(page):
    record = page.load("start")
    before = record["seconds-before"]
    rows = [
        [one["commit"], f"{one['seconds']['cold']:.1f}", ", ".join(f"{s:.1f}" for s in one["seconds"]["kept"])]
        for one in ({"commit": before["commit"], "seconds": before}, record)
    ]
    return lines_of(["commit", "no kernel on disk, s", "kernels on disk, s"], rows)


def table_cpu_tunnels(page):
    rows = []
    for workers in (1, 16):
        rates = [page.results(f"cpu-tunnels-{n}", workers=workers)[0]["packets-per-second"] for n in TUNNELS]
        rows.append([workers, *(f"{million(rate)} ({rate / rates[0]:.2f})" for rate in rates)])
    return lines_of(["workers", *(f"{n:,} tunnel{'' if n == 1 else 's'}" for n in TUNNELS)], rows)
