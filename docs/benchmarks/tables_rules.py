"""The tables of rules.md: published rules in the NIDS, how long a start takes, tunnels on the CPU's cores."""

from records import lines_of, million

SIZES = ("64", "512", "1518", "imix")
TUNNELS = (1, 16, 256, 1024, 16384)
CIPHERS = ("aes-128-ctr", "aes-256-ctr", "aes-256-cbc", "aes-128-gcm", "aes-256-gcm")


HEAD = [
    "bare patterns, Mpkt/s", "of the bus", "rules, Mpkt/s", "of the bus", "CPU, bare", "CPU, rules",
    "GPU to CPU, rules",
]


def compared(page, prefix, gpu, traffic=None):
    """Cells of HEAD: bare patterns and rules on the GPU, by the records that end so, and on the CPU where it has
    run."""
    wanted = {"traffic": traffic} if traffic else {}
    bare, rules = (page.results(f"{prefix}{what}{gpu}", **wanted)[0] for what in ("-bare", ""))
    cells = [cell for r in (bare, rules) for cell in (million(r["packets-per-second"]), f"{r['bus']['share']:.2f}")]
    if not traffic:
        return [*cells, "–", "–", "–"]
    wanted["device"] = "cpu"
    cores = [page.results(f"{prefix}{what}-cpu", **wanted)[0]["packets-per-second"] for what in ("-bare", "")]
    return [*cells, *map(million, cores), f"{rules['packets-per-second'] / cores[1]:.1f}"]


def table_rules(page):
    rows = [
        [f"{size} B" if size.isdigit() else "IMIX", "contiguous frames", *compared(page, "rules", "", size)]
        for size in SIZES
    ]
    rows += [[f"{size} B", "mbufs", *compared(page, "rules", "-mbufs", size)] for size in ("512", "1518")]
    rows.append(["captures", "contiguous frames", *compared(page, "rules", "-replay")])
    return lines_of(["frame", "as", *HEAD], rows, 2)


def table_rules_counters(page):
    record = page.load("rules-counters")
    packets = record["packets"]
    cache = {(m["frame-bytes"], m["kernel"]): m for m in record["instruction-cache"]["measured"]}
    measured = [{**cache[m["frame-bytes"], m["kernel"]], **m} for m in record["measured"]]
    facts = [
        ("cycles that a multiprocessor is at work, thousands", lambda m: f"{m['cycles-active'] / 1000:.0f}"),
        ("cycles until the last packet, thousands", lambda m: f"{m['cycles-elapsed'] / 1000:,.0f}"),
        ("instructions of a warp, a packet", lambda m: f"{m['instructions'] / packets:,.0f}"),
        ("look-ups of the instruction cache that missed, a packet", lambda m: f"{m['icc-misses'] / packets:.0f}"),
        (
            "cycles between two instructions of a warp",
            lambda m: f"{m['cycles-of-a-warp-between-two-instructions']:.1f}",
        ),
    ]
    head = ["", *(f"{m['frame-bytes']} B, {m['kernel']}" for m in measured)]
    return lines_of(head, [[name, *map(of, measured)] for name, of in facts])


FLOWS = (("nothing", "rules"), ("flows", "rules-flows"), ("flows and streams", "rules-streams"),
         ("and HTTP messages", "rules-messages"))


def table_rules_flows(page):
    rows = []
    for what, record in FLOWS:
        cells = [page.results(record, traffic=size)[0] for size in ("512", "1518")]
        rows.append(
            [what, *(text for r in cells for text in (million(r["packets-per-second"]), f"{r['bus']['share']:.2f}"))]
        )
    return lines_of(["what is kept of flows", "512 B, Mpkt/s", "of the bus", "1518 B, Mpkt/s", "of the bus"], rows)


def table_rules_growth(page):
    results = {r["workers"]: r["packets-per-second"] for r in page.results("rules-workers")}
    results[6] = page.results("rules-chains-1")[0]["packets-per-second"]
    rows = [[f"{n}", "1", million(results[n])] for n in sorted(results)]
    return lines_of(["workers", "chains", "512 B, Mpkt/s"], rows)


def table_rules_chains(page):
    rates = {n: page.results(f"rules-chains-{n}")[0]["packets-per-second"] for n in (1, 8, 64, 500)}
    rows = [[f"{n}", f"{million(rate)} ({rate / rates[1]:.2f})"] for n, rate in rates.items()]
    return lines_of(["chains", "512 B, Mpkt/s"], rows)


def table_translations(page):
    rows = []
    for flows in (1000, 65536):
        for nat, text in (("nat", "NAT44"), ("nat64", "NAT64")):
            gpu, cpu = (page.results(f"translations-{where}{nat}-{flows}")[0] for where in ("", "cpu-"))
            rows.append([text, f"{flows:,}", million(gpu["packets-per-second"]), million(cpu["packets-per-second"])])
    return lines_of(["", "endpoints inside", "one GPU, 6 workers", "CPU, 16 workers"], rows)


def table_translated_chain(page):
    gpu, cpu = (page.results(f"translations-{where}gateway-1000000")[0]["packets-per-second"] for where in ("", "cpu-"))
    rows = [["1,000,000", million(gpu), million(cpu), f"{gpu / cpu:.1f}"]]
    return lines_of(["endpoints inside", "one GPU, 6 workers", "CPU, 16 workers", "ratio"], rows)


def table_start(page):
    seconds = page.load("start")["seconds"]
    rows = [["no kernel on disk", f"{seconds['cold']:.1f}"]]
    rows.append(["kernels on disk, one run after the other", ", ".join(f"{s:.1f}" for s in seconds["kept"])])
    return lines_of(["start with", "s"], rows)


def table_cpu_tunnels(page):
    rows = []
    for workers in (1, 16):
        rates = [page.results(f"cpu-tunnels-{n}", workers=workers)[0]["packets-per-second"] for n in TUNNELS]
        rows.append([workers, *(f"{million(rate)} ({rate / rates[0]:.2f})" for rate in rates)])
    return lines_of(["workers", *(f"{n:,} tunnel{'' if n == 1 else 's'}" for n in TUNNELS)], rows)


def table_cpu_ciphers(page):
    rows = []
    for size in ("64", "512", "1518"):
        rates = [
            page.results(f"cpu-cipher-{one}", workers=16, traffic=size)[0]["packets-per-second"] for one in CIPHERS
        ]
        rows.append([f"{size} B", *map(million, rates)])
    return lines_of(["frame", *CIPHERS], rows)
