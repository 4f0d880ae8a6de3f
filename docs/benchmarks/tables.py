#!/usr/bin/python3
"""Fills the tables of the pages of figures from the JSON files of gpu/: tables.py [--check] [FOLDER]

What stands between one of these lines and `<!-- end -->` is made from the files:

    <!-- table NAME -->        a table: a function table_NAME of tables_*.py
    <!-- plot NAME TEXT -->    the plot gpu/NAME.svg, which plot.py draws, with a text for it
    <!-- commit -->            commit, date and machine of all files of the page, which must be of one commit
    <!-- commits -->           the same where a page has files of several commits
    <!-- section NAME -->      in papers.md: section_NAME of tables_thesis.py, of files of papers/; nothing without them

A record that is not there leaves a line that says so, but for sections. --check changes nothing and fails where a page
says something else than its files, where a plot was drawn of other files, and where a record does not count: method.md,
"What makes a figure count".
FOLDER is where the pages are, unless it is this file's.
"""

import json
import pathlib
import re
import sys

import tables_flows
import tables_gpu
import tables_latency
import tables_method
import tables_rules
import tables_several_gpus
import tables_sharing
import tables_tenants
import tables_thesis
from records import Missing, Refused, digest, lines_of

PAPERS = "papers.md"  # whose records are in papers/
PAGES = [
    PAPERS, "gpu.md", "chains.md", "tunnels.md", "kernels.md", "rules.md", "flows.md", "translations.md", "latency.md",
    "several-gpus.md", "sharing.md", "tenants.md", "method.md",
]


def machine_of(record):
    m = record["machine"]
    if isinstance(m, str):
        return m
    return f"{m['cores']} cores of {m['processor'].replace('(R)', '')} at {m['tsc-ghz']:.1f} GHz (time stamp counter)"


class Page:
    """The tables of one page, and the records that they were made from."""

    def __init__(self, folder):
        self.folder = folder
        self.used = {}

    def load(self, name):
        path = self.folder / f"{name}.json"
        if not path.exists():
            raise Missing(f"{name}.json")
        record = json.loads(path.read_text())
        for r in record["results"] if isinstance(record.get("results"), list) else []:
            wrong = [
                what
                for what, good in (
                    ("lost packets", r.get("conserved", True)),
                    ("trouble", not r.get("trouble")),
                    ("wrong packets", not r.get("check", {}).get("different")),
                    ("packets that the CPU did again", not r.get("retried-on-cpu")),
                )
                if not good
            ]
            if wrong:
                raise Refused(f"{name}.json: {r['device']}, {r['traffic']}: {', '.join(wrong)}")
        if record.get("stopped"):
            raise Refused(f"{name}.json was stopped before its end")
        self.used[name] = record
        return record

    def results(self, name, **conditions):
        found = [r for r in self.load(name)["results"] if all(r[key] == value for key, value in conditions.items())]
        if not found:
            raise Refused(f"{name}.json has no result with {conditions}")
        return found

    # What stands below a page's title.

    def origins(self):
        """Records by commit and machine."""
        origins = {}
        for name, record in self.used.items():
            gpus = [r["engine"] for r in record.get("results", []) if "cuda" in r.get("device", "")]
            origins.setdefault((record["commit"], machine_of(record)), []).append((record["date"], name, gpus))
        return origins

    @staticmethod
    def links(names):
        return " ".join(f"[{name}](gpu/{name}.json)" for name in names)

    def commit(self):
        origins = self.origins()
        if not origins:
            return ["Not measured yet."]
        commits = {commit for commit, _ in origins}
        if len(commits) != 1:
            raise Refused(
                f"records of several commits: { {key[0]: [n for _, n, _ in value] for key, value in origins.items()} }"
            )
        entries = [entry for value in origins.values() for entry in value]
        dates = ", ".join(sorted({date for date, _, _ in entries}))
        gpus = sorted({re.sub(r"\(cuda:\d+, ", "(", gpu) for _, _, own in entries for gpu in own})
        drivers = {m["driver"] for m in (r["machine"] for r in self.used.values()) if "driver" in m}
        bench = self.folder / "machine.json"
        if bench.exists():
            drivers.add(json.loads(bench.read_text())["driver"])
        lines = [f"Commit {commits.pop()}, {dates}."]
        for machine in dict.fromkeys(machine for _, machine in origins):
            lines.append(f"{'; '.join(gpus) + '; ' if gpus else ''}{machine}.")
        if drivers:
            text = f"Driver {', '.join(sorted(drivers))}"
            lines.append(f"{text} ([machine](gpu/machine.json))." if bench.exists() else text + ".")
        return lines + ["Records:"] + [self.links([name]) for name in sorted(self.used)]

    def commits(self):
        def gpus(own):
            return ", ".join(
                sorted(
                    {
                        re.sub(r" *\(.*", "", gpu)
                        for _, _, engines in own
                        for engine in engines
                        for gpu in engine.split(" + ")
                    }
                )
            )

        rows = [
            [
                commit,
                ", ".join(sorted({date for date, _, _ in own})),
                "; ".join(filter(None, (gpus(own), machine))),
                self.links(sorted(name for _, name, _ in own)),
            ]
            for (commit, machine), own in self.origins().items()
        ]
        return lines_of(["commit", "date", "machine", "records"], rows, 4) if rows else ["Not measured yet."]

    def plot(self, name, text):
        return (
            [f"![{text}](gpu/{name}.svg)"]
            if (self.folder / f"{name}.svg").exists()
            else [f"No plot yet: plot.py draws {name}.svg."]
        )


def find_table(name):
    """The function that makes a table."""
    own = "table_" + name.replace("-", "_")
    for module in (
        tables_flows, tables_gpu, tables_latency, tables_several_gpus, tables_method, tables_rules, tables_sharing,
        tables_tenants,
    ):
        if hasattr(module, own):
            return getattr(module, own)
    raise Refused(f"no table is called {name}")


def filled(text, folder):
    """The text with what its markers ask for. Plots that were drawn of other files are added to the second list."""
    page, old = Page(folder), []

    def part(match):
        kind, name, rest = match[2], match[3], (match[4] or "").strip()
        try:
            if kind == "section":
                lines = getattr(tables_thesis, "section_" + name.replace("-", "_"))(page)
            elif kind == "table":
                make = find_table(name)
                lines = make(page)
            else:
                lines = page.plot(name, rest)
                svg = folder / f"{name}.svg"
                if svg.exists() and digest(folder, name) not in svg.read_text():
                    old.append(f"{name}.svg")
        except Missing as missing:
            lines = [] if kind == "section" else [f"Not measured: there is no {missing}."]
        return "\n".join([match[1], *lines, match[5]])

    text = re.sub(r"(<!-- (table|plot|section) ([\w-]+)( [^>]*?)? -->).*?(<!-- end -->)", part, text, flags=re.S)
    text = re.sub(
        r"(<!-- (commits?) -->).*?(<!-- end -->)",
        lambda m: "\n".join([m[1], *getattr(page, m[2])(), m[3]]),
        text,
        flags=re.S,
    )
    return text, old


def main():
    arguments = [a for a in sys.argv[1:] if a != "--check"]
    check = "--check" in sys.argv
    folder = pathlib.Path(arguments[0]) if arguments else pathlib.Path(__file__).parent
    wrong, plots = [], []
    for path in [folder / name for name in PAGES if (folder / name).exists()]:
        text = path.read_text()
        try:
            new, old = filled(text, folder / ("papers" if path.name == PAPERS else "gpu"))
        except Refused as refused:
            sys.exit(f"tables.py: {path.name}: {refused}")
        plots += old
        if new != text:
            wrong.append(path.name)
            if not check:
                path.write_text(new)
    if check and wrong:
        sys.exit(f"tables.py: {', '.join(wrong)} differ from the JSON files: run docs/benchmarks/tables.py")
    if check and plots:
        sys.exit(f"tables.py: {', '.join(plots)} were drawn of other JSON files: run docs/benchmarks/plot.py")
    print("pages " + (f"filled anew: {', '.join(wrong)}" if wrong else "agree with their files"))


if __name__ == "__main__":
    main()
