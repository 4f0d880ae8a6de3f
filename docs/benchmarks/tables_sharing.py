"""The tables of sharing.md: functions of a chain apart on one GPU, by each way to share it."""

from records import Refused, lines_of, million

WAYS = ("in one piece", "spatial", "temporal", "fair", "uncoordinated")
LATENCY_WAYS = ("in one piece", "spatial", "temporal", "uncoordinated")


def by_way(page, same_load):
    """For each chain and frame size, in their order, the results by way."""
    record = page.load("sharing")
    found = {}
    for way, result in zip(record["ways"], record["results"], strict=True):
        if way["same-load"] == same_load:
            found.setdefault((result["chain"], result["traffic"]), {})[way["way"]] = result
    if not found:
        raise Refused("sharing.json has no results")
    return found


def name_of(chain):
    return chain.replace("+", " → ")


def table_sharing(page):
    rows = []
    for (chain, size), ways in by_way(page, False).items():
        rates = {way: ways[way]["packets-per-second"] for way in WAYS if way in ways}
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
        load = next(iter(ways.values()))["offered-packets-per-second"]
        cells = []
        for way in LATENCY_WAYS:
            own = ways.get(way)
            carried = "" if own is None or own["packets-per-second"] > 0.98 * load else ", not carried"
            cells.append(f"{own['latency-us']['p50']:,.0f}, {own['latency-us']['p99']:,.0f}{carried}" if own else "–")
        rows.append([name_of(chain), f"{size} B", million(load), *cells])
    return lines_of(["functions", "frame", "Mpkt/s", *LATENCY_WAYS], rows, 2)
