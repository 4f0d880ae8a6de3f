"""The tables of several-gpus.md."""

from records import PLOTS, basis, frame, grounded, million


def table_two_gpus(page):
    rows, bases = [], []
    for name in ("two-gpus-large-batches", "two-gpus", "two-gpus-nids"):
        record, results = page.load(name), page.results(name)
        for key in dict.fromkeys((r["traffic"], r["workers"]) for r in results):
            one, two = (
                next(r for r in results if (r["traffic"], r["workers"]) == key and ("+" in r["device"]) == pair)
                for pair in (False, True)
            )
            rates = [r["packets-per-second"] for r in (one, two)]
            buses = two["bus"]["limit-packets-per-second"] / one["bus"]["limit-packets-per-second"]
            rows.append(
                [
                    one["chain"].replace("+", ", "),
                    frame(one),
                    key[1],
                    f"{record['inputs']['max-batch']:,}",
                    *map(million, rates),
                    f"{rates[1] / rates[0]:.2f}",
                    f"{buses:.2f}",
                    record["commit"],
                ]
            )
            bases.append(basis(record, one))
    return grounded(
        [
            "chain",
            "frame",
            "workers",
            "batches up to",
            "one GPU, Mpkt/s",
            "two, Mpkt/s",
            "times",
            "two buses: times",
            "commit",
        ],
        rows,
        bases,
        2,
    )


def table_gpu_workers(page):
    found = [(page.load(name), r) for name in PLOTS["two-gpus"] for r in page.results(name) if "+" in r["device"]]
    found.sort(key=lambda each: each[1]["workers"])
    rows = [
        [r["workers"], million(r["packets-per-second"]), f"{r['batch-us']['calls']:.0f}", record["commit"]]
        for record, r in found
    ]
    return grounded(
        ["workers", "two GPUs, Mpkt/s", "driver's calls of a batch, us", "commit"],
        rows,
        [f"{frame(r)}, {basis(record, r)}" for record, r in found],
        0,
    )
