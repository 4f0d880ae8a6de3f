"""What tables.py and plot.py know of the records in gpu/, and how tables are laid out."""

import hashlib
import re

FLOWS, COMES = (1000, 65536, 1000000, 16000000), ("even", "zipf")
BUSY = (1, 16, 256, 4096)
# What grows: the records of each number of them.
GROWTH = {
    "tunnels": [f"tunnels-{count}" for count in (1, 16, 256, 1024, 16384)],
    "chains": [f"chains-{count}" for count in (1, 2, 8, 64, 1000)],
    "rules-chains": [f"rules-chains-{count}" for count in (1, 8, 64, 500)],
    "cpu-tunnels": [f"cpu-tunnels-{count}" for count in (1, 16, 256, 1024, 16384)],
}
PLOTS = {
    "throughput": ["chain-contiguous", "chain-mbufs", "cpu"],
    **GROWTH,
    "flows": [f"{where}flows-{comes}-{count}" for where in ("", "cpu-") for comes in COMES for count in FLOWS],
    "nf-times": ["nf-times"],
    "latency": ["latency", "latency-shared", "latency-mbufs"],
    "rules-workers": ["rules-workers", "rules-chains-1"],
    "two-gpus": ["two-gpus-few-workers", "two-gpus-64"],
    "profile": ["profile"],
    "sharing": ["sharing"],
    "queues": ["queues"],
}


class Missing(Exception):
    """A record that is not there."""


class Refused(Exception):
    """A record or a page that does not count, and why."""


def digest(folder, plot):
    """What a plot's file bears to tell which records it was drawn from."""
    files = [folder / f"{name}.json" for name in PLOTS[plot]]
    return hashlib.sha256(b"".join(f.read_bytes() for f in files if f.exists())).hexdigest()[:16]


STAGES = ["waiting", "layout", "in-line", "calls", "round-trip", "results"]


def stages_of(result):
    """Microseconds of each stage of a batch; older records call the round trip `away`."""
    return {"round-trip" if stage == "away" else stage: us for stage, us in result.get("batch-us", {}).items()}


def layout_of(result):
    """How frames lie: method.md."""
    return "mbufs" if result.get("layout", "buffers") in ("buffers", "mbufs") else "contiguous"


def rules_of(record):
    nids = record["inputs"]["nids"]
    return "made-up patterns" if "made up" in nids else "bare patterns" if "patterns" in nids else "real rules"


def basis(record, result):
    """What a figure stands on: how frames lie, and what the NIDS looks for."""
    return ", ".join(
        [f"{layout_of(result)} frames".replace("mbufs frames", "mbufs")]
        + ([rules_of(record)] if "nids" in result["chain"] else [])
    )


def frame(result):
    """A frame's size, or what traffic it is, with the mean size."""
    traffic = result["traffic"].split("/")[-1]
    if traffic.isdigit():
        return f"{traffic} B"
    name = {"imix": "IMIX"}.get(traffic, re.sub(r"\.pcap(ng)?(\.\w+)?$", "", traffic))
    bytes_in = result.get("frame-bytes-in", result.get("frame-bytes"))
    return f"{name} ({bytes_in:.0f} B)" if bytes_in else name


def million(packets):
    return f"{packets * 1e-6:.1f}"


def optional(value, text):
    return "–" if value is None else format(value, text)


def curve_results(record):
    """Of a record of latencies: for each curve its result, and for each step of the load."""
    left = [r for r in record["results"] if "offered-packets-per-second" in r]

    def take(device, traffic, rate):
        for r in left:
            if (r["device"], r["traffic"]) == (device, traffic) and (
                rate is None or r["offered-packets-per-second"] == rate
            ):
                left.remove(r)
                return r
        raise Refused("a curve without its result")

    curves = [(c, take(c["device"], c["traffic"], c["offered-packets-per-second"])) for c in record["curves"]]
    return curves, [(s, take(s["device"], s["traffic"], None)) for s in record["steps"]]


def lines_of(head, rows, text_columns=1):
    """A table; all columns but the first ones are numbers where each of their cells is one."""

    def number(column):
        return all(re.fullmatch(r"[\d,.–]+%?( \([\d.]+\))?|", str(row[column])) for row in rows)

    align = ["---:" if i >= text_columns and number(i) else "---" for i in range(len(head))]
    return ["| " + " | ".join(map(str, row)) + " |" for row in [head, align, *rows]]


def grounded(head, rows, bases, text_columns=1):
    """A table that says what its figures stand on: above it where all stand on the same, else in each line."""
    if len(set(bases)) == 1:
        return [bases[0][0].upper() + bases[0][1:] + ":", "", *lines_of(head, rows, text_columns)]
    return lines_of([*head, "stands on"], [[*row, base] for row, base in zip(rows, bases)], text_columns)
