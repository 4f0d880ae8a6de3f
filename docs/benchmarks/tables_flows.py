"""The tables of flows.md."""

import json

from records import BUSY, COMES, FLOWS, Missing, lines_of


def million(rate):
    return f"{rate / 1e6:.1f}"


def rates(page, name):
    """Packets a second of a record, by workers; none where it is not there."""
    try:
        return [r["packets-per-second"] for r in page.results(name)]
    except Missing:
        return []


def table_flows(page):
    """A row for each record of a GPU that is there."""
    none = rates(page, "flows-none")
    rows = []
    for comes in COMES:
        for flows in FLOWS:
            gpu = rates(page, f"flows-{comes}-{flows}")
            if not gpu:
                continue
            one, cores = rates(page, f"cpu-flows-{comes}-{flows}") or (None, None)
            rows.append(
                [
                    f"{flows:,}", {"even": "each in turn", "zipf": "Zipf"}[comes], million(gpu[0]),
                    f"{gpu[0] / none[0]:.2f}" if none else "–", million(cores) if cores else "–",
                    f"{gpu[0] / cores:.1f}" if cores else "–", million(one) if one else "–",
                ]
            )
    heads = [
        "connections", "they come", "one GPU, 6 workers", "of a mirror's", "CPU, 16 workers", "GPU to CPU",
        "CPU, 1 worker",
    ]
    return lines_of(heads, rows)


def table_flows_busy(page):
    rows = []
    for name, text in [*((f"busy-{count}", f"{count:,}") for count in BUSY), ("captures", "of the captures")]:
        gpu, cpu = (page.results(f"{where}flows-{name}")[0]["packets-per-second"] for where in ("", "cpu-"))
        rows.append([text, million(gpu), million(cpu), f"{gpu / cpu:.2f}"])
    return lines_of(["connections", "one GPU, 6 workers", "CPU, 16 workers", "GPU to CPU"], rows)


def table_flows_opened(page):
    def rate(name):
        return page.results(name)[0]["packets-per-second"]

    gpu, unwritten, cpu = (rate(name) for name in ("flows-opened", "flows-opened-unwritten", "cpu-flows-opened"))
    return lines_of(
        ["one GPU, 6 workers", "without a journal", "CPU, 16 workers", "GPU to CPU"],
        [[million(gpu), million(unwritten), million(cpu), f"{gpu / cpu:.1f}"]],
    )


def table_flows_times(page):
    kernels = page.load("flows-times")["kernels"]
    names = [part["name"] for part in kernels[0]["parts"]]
    rows = []
    for run in kernels:
        times = {part["name"]: part["ns-per-packet"] * run["batch-packets"] / 1e3 for part in run["parts"]}
        parts = [f"{times[name]:.0f}" for name in names]
        rows.append([f"{run['batch-packets']:,}", *parts, million(run["kernel-packets-per-second"])])
    return lines_of(["packets", *names, "many batches, Mpkt/s"], rows)


def table_keyed_core(page):
    record = json.loads((page.folder / "keyed.json").read_text())
    cycles = {one["name"]: one["cycles"] for one in record["benchmarks"]}
    rows = []
    for size in (16, 112):
        for comes, text in ((0, "evenly"), (1, "Zipf")):
            for keys in (1000, 65536, 1000000, 4000000):
                ours, dpdk = (cycles[f"{who}<{size}>/{keys}/{comes}"] for who in ("ours", "dpdk"))
                rows.append([f"{keys:,}", text, f"{size} B", f"{ours:.0f}", f"{dpdk:.0f}", f"{dpdk / ours:.2f}"])
    return lines_of(["keys", "they come", "a value", "ours, cycles", "rte_hash, cycles", "rte_hash to ours"], rows)
