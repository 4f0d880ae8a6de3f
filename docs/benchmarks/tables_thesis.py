"""Sections of papers.md about the thesis' CRC, watts, queues and linear lookup: each is there once its records are.

scripts/bench-papers leaves the records; papers/ is where they belong. tables.py puts the sections in."""

import textwrap

from papers import WIRE_BITS
from records import Missing, lines_of, million

BATCHES_CRC, BATCHES_QUEUES, ROUTES = (32, 256, 1024), (32, 256, 2048), (10, 100, 1000, 10000, 100000)
RECORDS = {
    "4.5 and 4.10, CRC": ["thesis-4.5", "thesis-4.5-contiguous", "thesis-4.5-cpu"]
    + [f"thesis-4.10e-{batch}" for batch in BATCHES_CRC],
    "4.13 and 4.15, watts": [
        "thesis-4.13-launches",
        "thesis-4.13-persistent",
        "thesis-4.15-copies",
        "thesis-4.15-zero-copy",
    ],
    "4.11, 4.16 and 4.17, queues": ["thesis-4.16"] + [f"thesis-4.11-{batch}" for batch in BATCHES_QUEUES],
    "4.18, linear lookup": [f"thesis-4.18-{routes}" for routes in ROUTES] + ["thesis-4.18-tables"],
}


def paragraph(text, indent=""):
    """Lines of a page."""
    return textwrap.wrap(text, 118, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def need(page, what):
    """All records of a section, or Missing."""
    return [page.load(name) for name in RECORDS[what]]


def origin(page, what):
    """Where a section's figures come from."""
    records = need(page, what)
    commits = ", ".join(dict.fromkeys(f"{r['commit']}, {r['date']}" for r in records))
    gpus = {r["engine"].split(" (")[0] for record in records for r in record["results"] if r["device"] != "cpu"}
    links = [f"[{name}](papers/{name}.json)" for name in RECORDS[what]]
    return ["", *paragraph(f"Commit {commits}; {', '.join(sorted(gpus))}; records: {', '.join(links)}.")]


def watts(result, part="gpu"):
    """Average watts while it ran; None where nobody tells."""
    return result.get("power", {}).get(part, {}).get("watts")


def idle(records, part="gpu"):
    values = {
        round(r["power"][part]["idle-watts"])
        for record in records
        for r in record["results"]
        if "idle-watts" in r.get("power", {}).get(part, {})
    }
    if not values:
        return "no idle power is known"
    low, high = min(values), max(values)
    return f"{low} W idle" if low == high else f"{low} to {high} W idle"


def cell(value, digits=1):
    return "–" if value is None else f"{value:.{digits}f}"


def section_thesis_crc(page):
    what = "4.5 and 4.10, CRC"
    need(page, what)
    sizes = [r["traffic"] for r in page.results("thesis-4.5")]
    cores = max(r["workers"] for r in page.results("thesis-4.5-cpu"))
    rows = []
    for size in sizes:
        mbufs, dense = (page.results(name, traffic=size)[0] for name in ("thesis-4.5", "thesis-4.5-contiguous"))
        one, all_cores = (page.results("thesis-4.5-cpu", traffic=size, workers=n)[0] for n in (1, cores))
        rows.append(
            [
                f"{size} B",
                *(f"{million(r['packets-per-second'])}, {r['gbps']:.0f}" for r in (dense, mbufs)),
                *(cell(r.get("bus", {}).get("share"), 2) for r in (dense, mbufs)),
                *(f"{million(r['packets-per-second'])}, {r['gbps']:.0f}" for r in (one, all_cores)),
            ]
        )
    workers = page.results("thesis-4.5")[0]["workers"]
    lines = [
        *paragraph(
            "**4.5, CRC** (4.4: `bench chain --chain crc`, CRC-32 set, held against the CPU's). The thesis: 50 Gb/s "
            "by 16 "
            "CPU cores, and 80 Gb/s by a GPU that one core feeds, at 1024 B. Here the whole frame crosses the bus "
            "there and "
            "back; the CPU half of a portable program is intel-ipsec-mb. Mpkt/s, and Gb/s of frames that came in:"
        ),
        "",
        *lines_of(
            [
                "",
                f"GPU, contiguous (source of ours), {workers} workers",
                f"GPU, mbufs, {workers} workers",
                "of the bus, contiguous",
                "mbufs",
                "CPU, 1 core",
                f"CPU, {cores} cores",
            ],
            rows,
        ),
        "",
        *paragraph(
            "**4.10, CRC by batch** (4.7: 128 B, 4 workers). The thesis: 256 packets of a batch are enough. Here, "
            "Mpkt/s "
            "and p50:"
        ),
        "",
        *lines_of(
            ["batches of at most", *BATCHES_CRC],
            [
                ["CRC"]
                + [
                    f"{million(r['packets-per-second'])}, {r['latency-us']['p50']:.0f} us"
                    for r in (page.results(f"thesis-4.10e-{batch}")[0] for batch in BATCHES_CRC)
                ]
            ],
        ),
    ]
    return lines + origin(page, what)


def section_thesis_watts(page):
    what = "4.13 and 4.15, watts"
    records = need(page, what)
    rows = []
    for first in page.results(RECORDS[what][0]):
        own = [
            page.results(name, chain=first["chain"], traffic=first["traffic"])[0] for name in RECORDS[what]
        ]
        rows.append(
            [first["chain"], f"{first['traffic']} B"]
            + [f"{cell(watts(r), 0)} W, {million(r['packets-per-second'])}" for r in own]
        )
    return [
        *paragraph(
            "**4.13 and 4.15, watts** (4.8, 4.9; one worker, batches of up to 1,024). The thesis, of a board of 70 W: "
            "a "
            "kernel that stays takes up to 15 W more for light work and 5 W more for CRC; zero-copy 10 W more for "
            "light "
            "work, and no more for CRC. Here, average watts of the whole board by NVML, and Mpkt/s. With the device "
            "opened "
            f"and no packet: {idle(records)}."
        ),
        "",
        *lines_of(["", "", "launches", "a kernel that stays", "packed and copied", "zero-copy"], rows, 2),
        *origin(page, what),
    ]


def section_thesis_queues(page):
    what = "4.11, 4.16 and 4.17, queues"
    need(page, what)
    record = page.load("thesis-4.16")
    queues = sorted({r["workers"] for r in record["results"]})
    kinds = list(dict.fromkeys((r["chain"], r["traffic"]) for r in record["results"]))
    rows = []
    for chain, size in kinds:
        own = [page.results("thesis-4.16", chain=chain, traffic=size, workers=n)[0] for n in queues]
        rows.append(
            [f"{chain}, {size} B"] + [f"{r['gbps']:.1f} Gb/s, {cell(watts(r), 0)} W" for r in own]
        )
    batches = [page.load(f"thesis-4.11-{batch}")["results"] for batch in BATCHES_QUEUES]
    by_batch = [
        [r["chain"]]
        + [
            f"{own[i]['gbps']:.1f} Gb/s, {own[i]['latency-us']['p50']:.0f} us, {own[i]['latency-us']['p99']:.0f} us"
            for own in batches
        ]
        for i, r in enumerate(batches[0])
    ]
    return [
        *paragraph(
            "**4.16 and 4.17, queues** (4.10). The thesis' NIC fills up to 8 queues in the GPU's memory, a block of 32 "
            "threads for each: throughput grows with them, to 2 Gb/s of CRC with 8, at 40 W, 50 W for its mirror at "
            "1024 B. "
            "Here a worker of the CPU fills each queue, with a kernel that stays; Gb/s of frames and watts of the GPU "
            f"({idle([record])}):"
        ),
        "",
        *lines_of(["queues", *queues], rows),
        "",
        *paragraph(
            f"**4.11, batches of queues** (4.7: 128 B, 8 queues there, {batches[0][0]['workers']} here). The thesis, "
            f"its "
            "mirror: 8 Gb/s and 100 us with batches of 32, 11 Gb/s and 1.5 ms with 2,048. Here, with p50 and p99 at "
            "that "
            "rate:"
        ),
        "",
        *lines_of(["batches of at most", *BATCHES_QUEUES], by_batch),
        *origin(page, what),
    ]


def section_thesis_linear(page):
    what = "4.18, linear lookup"
    need(page, what)
    paper = {10: "20 (ROI), 20", 100: "20 (ROI)", 1000: "20 (ROI), 5", 10000: "2, 0.5", 100000: "0.1, 0.05"}

    def of(name, on_cpu):
        return next(r for r in page.results(name) if (r["device"] == "cpu") == on_cpu)

    rows = []
    for routes in ROUTES:
        gpu, cpu = (of(f"thesis-4.18-{routes}", on_cpu) for on_cpu in (False, True))
        ratio = gpu["packets-per-second"] / cpu["packets-per-second"] if cpu["packets-per-second"] else None
        rows.append(
            [f"{routes:,}"]
            + [
                f"{r['packets-per-second'] * 1e-6:.3g}, {r['packets-per-second'] * WIRE_BITS * 1e-9:.2g}"
                for r in (gpu, cpu)
            ]
            + [cell(ratio), paper.get(routes, "")]
        )
    gpu, cpu = (of("thesis-4.18-tables", on_cpu) for on_cpu in (False, True))
    workers = gpu["workers"]
    return [
        *paragraph(
            f"**4.18, lookup one route after the other** (4.11: 64 B, batches of up to 1,024, {workers} workers; "
            f"`engine: "
            "linear`, nearly all routes compared for each packet). The thesis: 20 Gb/s on both for few routes; the "
            "GPU's "
            "gain grows with the routes up to 10,000, and shrinks beyond. Here, Mpkt/s, and Gb/s with preamble, gap "
            "and CRC:"
        ),
        "",
        *lines_of(["routes", "GPU", f"CPU, {workers} cores", "GPU to CPU", "the thesis, Gb/s: GPU, CPU"], rows),
        "",
        *paragraph(
            f"By the router's own tables (`dir-24-8`), whatever the number of routes, it is "
            f"{million(gpu['packets-per-second'])} Mpkt/s on the GPU and {million(cpu['packets-per-second'])} on the "
            f"CPU, by "
            "rte_fib, in the same run."
        ),
        *origin(page, what),
    ]


def section_thesis_missing(page):
    """What is still to be measured, as items of a list."""
    lines = []
    for what, names in RECORDS.items():
        try:
            need(page, what)
        except Missing as missing:
            chosen = " ".join(dict.fromkeys("-".join(name.split("-")[:2]) for name in names))
            lines += paragraph(
                f"- thesis {what}: not measured yet, there is no {missing}; `scripts/bench-papers FOLDER cuda 0.25 "
                f"{chosen}`",
                "  ",
            )
    return lines
