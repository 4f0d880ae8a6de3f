#!/usr/bin/python3
"""Fills the tables of the pages of figures from the JSON files of gpu/: tables.py [--check]

A table stands between `<!-- table NAME -->` and `<!-- end -->`; all files that a page's tables read must be of one commit, which
`<!-- commit -->` … `<!-- end -->` names. --check changes nothing and fails where a page says something else than its files.
"""
import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
PAGES = ["gpu.md", "latency.md", "several-gpus.md"]


class Page:
    """The tables of one page, and the records that they were made from."""

    def __init__(self):
        self.used = {}

    def load(self, name):
        path = HERE / "gpu" / f"{name}.json"
        self.used[name] = json.loads(path.read_text())
        return self.used[name]

    def results(self, name, **conditions):
        return [r for r in self.load(name)["results"] if all(r[key] == value for key, value in conditions.items())]

    def commit(self):
        origins = {(d["commit"], d["date"]) for d in self.used.values()}
        if len({commit for commit, _ in origins}) != 1:
            sys.exit(f"tables.py: records of several commits: {sorted(origins)}: {sorted(self.used)}")
        machine = next(iter(self.used.values()))["machine"]
        return [f"Commit {sorted(origins)[0][0]}, {', '.join(sorted({date for _, date in origins}))}; {machine['cores']} cores of "
                f"{machine['processor'].replace('(R)', '')} at {machine['tsc-ghz']:.1f} GHz (time stamp counter)."]

    @staticmethod
    def table(head, rows):
        align = ["---"] + ["---:"] * (len(head) - 1)
        return ["| " + " | ".join(map(str, row)) + " |" for row in [head, align, *rows]]

    @staticmethod
    def frame(traffic):
        name = {"imix": "IMIX (360 B)"}.get(traffic, traffic.split("/")[-1])
        return f"{name} B" if name.isdigit() else name

    def throughput(self, record):
        """By frame size, for each number of workers: Mpkt/s, and of the best Gb/s, share of the bus and packets for a joule."""
        results = self.results(record)
        workers = sorted({r["workers"] for r in results})
        rows = []
        for traffic in dict.fromkeys(r["traffic"] for r in results):
            own = [r for r in results if r["traffic"] == traffic]
            best = max(own, key=lambda r: r["packets-per-second"])
            rates = [f"{r['packets-per-second'] * 1e-6:.1f}" for w in workers for r in own if r["workers"] == w]
            rows.append([self.frame(traffic), *rates, f"{best['gbps']:.0f}", f"{best['bus']['share']:.2f}",
                         f"{best['bus']['crossing-share']:.2f}", f"{best['gpu-packets-per-joule'] * 1e-6:.3f}"])
        head = ["frame", *(f"{w} workers, Mpkt/s" for w in workers), "best, Gb/s", "of the bus", "of what crosses", "Mpkt/J"]
        return self.table(head, rows)

    def table_contiguous(self):
        return self.throughput("chain-contiguous")

    def table_mbufs(self):
        return self.throughput("chain-mbufs")

    def table_others(self):
        rows = []
        for record, what in (("router", "router alone, 64 B, heads cross"), ("replay", "four NFs, 214,000 frames of captures (589 B)")):
            for r in self.results(record):
                rows.append([what, r["workers"], f"{r['packets-per-second'] * 1e-6:.1f}", f"{r['gbps']:.0f}", f"{r['bus']['share']:.2f}"])
        return self.table(["chain, traffic", "workers", "Mpkt/s", "Gb/s", "of the bus"], rows)

    def table_tunnels(self):
        counts = [1, 16, 256, 1024]
        rows = []
        for size in ("64", "512"):
            rates = [self.results(f"tunnels-{n}", traffic=size)[0]["packets-per-second"] for n in counts]
            rows.append([self.frame(size), *(f"{rate * 1e-6:.1f} ({rate / rates[0]:.2f})" for rate in rates)])
        return self.table(["frame", *(f"{n:,} tunnel{'s' if n > 1 else ''}" for n in counts)], rows)

    def table_modes(self):
        rows = []
        for size in ("64", "128"):
            fused, pipelined = (self.results(f"modes-{mode}", traffic=size)[0]["packets-per-second"] for mode in ("fused", "pipelined"))
            rows.append([self.frame(size), f"{fused * 1e-6:.1f}", f"{pipelined * 1e-6:.1f}", f"{fused / pipelined:.2f}"])
        return self.table(["frame", "fused, Mpkt/s", "pipelined, Mpkt/s", "ratio"], rows)

    def table_times(self):
        kernels = self.load("nf-times")["kernels"]
        names = list(dict.fromkeys(p["name"] for k in kernels for p in k["parts"]))
        rows = []
        for k in kernels:
            batch = k["batch-packets"]
            part = {name: sum(p["ns-per-packet"] for p in k["parts"] if p["name"] == name) * batch * 1e-3 for name in names}
            rows.append([f"{self.frame(k['traffic'])}, {batch:,}", *(f"{part[name]:.1f}" for name in names), f"{sum(part.values()):.0f}",
                         f"{k['kernel-packets-per-second'] * 1e-6:.0f}"])
        return self.table(["frame, packets", *names, "all, us", "Mpkt/s at once"], rows)

    def table_cpu(self):
        gpu = {}
        for r in self.results("chain-contiguous") + self.results("chain-mbufs"):
            key = (r["traffic"], r["layout"])
            gpu[key] = max(gpu.get(key, 0), r["packets-per-second"])
        rows = []
        for r in self.results("cpu"):
            rate, size = r["packets-per-second"], r["traffic"]
            contiguous = next(v for (s, layout), v in gpu.items() if s == size and layout != "buffers")
            rows.append([self.frame(size), f"{rate * 1e-6:.1f}", f"{contiguous / rate:.1f}", f"{gpu[size, 'buffers'] / rate:.1f}"])
        workers = self.results("cpu")[0]["workers"]
        return self.table(["frame", f"cpu, {workers} workers, Mpkt/s", "GPU, contiguous frames: times", "GPU, mbufs: times"], rows)

    def latency_rows(self, record):
        """One row for each share of the load. `curves` names them; what a step of the load measured comes behind them."""
        rows = []
        whole = self.load(record)
        for r, curve in zip(whole["results"], whole["curves"]):
            us = r["latency-us"]
            rows.append([f"{curve['share']:.0%}", f"{r['packets-per-second'] * 1e-6:.1f}", f"{r.get('batch-packets', 0):,.0f}",
                         f"{us['p50']:.0f}", f"{us['p99']:.0f}", f"{us['p99.9']:.0f}", f"{r['missed-packets']:,}"])
        return self.table(["load", "Mpkt/s", "packets a batch", "p50, us", "p99, us", "p99.9, us", "missed"], rows)

    def table_latency(self):
        return self.latency_rows("latency")

    def table_shared(self):
        return self.latency_rows("latency-shared")

    def table_latency_mbufs(self):
        return self.latency_rows("latency-mbufs")

    def table_two_gpus(self):
        results = self.results("two-gpus")
        rows = []
        for key in dict.fromkeys((r["traffic"], r["workers"]) for r in results):
            one, two = (next((r for r in results if (r["traffic"], r["workers"]) == key and ("+" in r["device"]) == pair), None)
                        for pair in (False, True))
            rows.append([self.frame(key[0]), key[1], f"{one['packets-per-second'] * 1e-6:.1f}", f"{two['packets-per-second'] * 1e-6:.1f}",
                         f"{two['packets-per-second'] / one['packets-per-second']:.2f}",
                         f"{two['bus']['limit-packets-per-second'] / one['bus']['limit-packets-per-second']:.2f}"])
        return self.table(["frame", "workers", "one GPU, Mpkt/s", "two", "times", "the buses: times"], rows)


def filled(text):
    page = Page()

    def table(match):
        return "\n".join([match[1], *getattr(page, "table_" + match[2].replace("-", "_"))(), match[3]])

    text = re.sub(r"(<!-- table ([\w-]+) -->).*?(<!-- end -->)", table, text, flags=re.S)
    return re.sub(r"(<!-- commit -->).*?(<!-- end -->)", lambda m: "\n".join([m[1], *page.commit(), m[2]]), text, flags=re.S)


def main():
    wrong = []
    for name in PAGES:
        path = HERE / name
        text = path.read_text()
        new = filled(text)
        if new != text:
            wrong.append(name)
            if "--check" not in sys.argv:
                path.write_text(new)
    if wrong and "--check" in sys.argv:
        sys.exit(f"docs/benchmarks: run tables.py: {', '.join(wrong)} differ from the JSON files")
    print(f"{len(PAGES)} pages " + (f"filled anew: {', '.join(wrong)}" if wrong else "agree with their files"))


if __name__ == "__main__":
    main()
