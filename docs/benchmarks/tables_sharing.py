"""The tables of sharing.md: functions of a chain apart on one GPU, by each way to share it."""

from records import Refused, lines_of, million

WAYS = ("in one piece", "spatial", "temporal", "fair", "uncoordinated")
# What G-NET's figures 11, 13 and 14 say that spatial sharing does more, at most or on average.
PAPER = {"temporal": "1.708", "fair": "1.167 to 1.340", "uncoordinated": "1.508 to 2.301"}


def by_way(page, same_load):
    """For each chain and frame size, in their order, the results by way, with the way's plan."""
    record = page.load("sharing")
    found = {}
    for way, result in zip(record["ways"], record["results"], strict=True):
        if way["same-load"] == same_load:
            found.setdefault((result["chain"], result["traffic"]), {})[way["way"]] = (result, way["plan"])
    if not found:
        raise Refused("sharing.json has no results")
    return found


def name_of(chain):
    return chain.replace("+", " → ")


def table_sharing(page):
    rows = []
    for (chain, size), ways in by_way(page, False).items():
        rates = {way: ways[way][0]["packets-per-second"] for way in WAYS if way in ways}
        ratios = [
            f"{rates['spatial'] / rates[other]:.2f}" if other in rates and "spatial" in rates else "–"
            for other in ("temporal", "fair", "uncoordinated")
        ]
        cells = [million(rates[way]) if way in rates else "–" for way in WAYS]
        rows.append([name_of(chain), f"{size} B", *cells, *ratios])
    head = ["functions", "frame", *WAYS, "spatial to temporal", "to fair", "to uncoordinated"]
    return lines_of(head, rows, 2)


def table_sharing_latency(page):
    rows = []
    for (chain, size), ways in by_way(page, True).items():
        load = next(iter(ways.values()))[0]["offered-packets-per-second"]
        cells = []
        for way in WAYS:
            latency = ways[way][0]["latency-us"] if way in ways else None
            cells.append(f"{latency['p50']:.0f}, {latency['p95']:.0f}" if latency else "–")
        both = [ways[way][0]["latency-us"]["p95"] if way in ways else None for way in ("spatial", "temporal")]
        rows.append(
            [name_of(chain), f"{size} B", million(load), *cells, f"{both[0] / both[1]:.2f}" if all(both) else "–"]
        )
    return lines_of(["functions", "frame", "Mpkt/s", *WAYS, "p95, spatial to temporal"], rows, 2)


def table_sharing_plan(page):
    rows = []
    for (chain, size), ways in by_way(page, True).items():
        if "spatial" not in ways:
            continue
        parts = ways["spatial"][1]["parts"]
        for function, part in zip(chain.split("+"), parts, strict=True):
            rows.append([name_of(chain), f"{size} B", function, part["sms"], part["batch"], f"{part['wait-us']:.0f}"])
    return lines_of(["functions", "frame", "function", "multiprocessors", "packets of a batch", "wait, us"], rows, 3)
