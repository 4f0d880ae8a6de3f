#!/usr/bin/env python3
"""The pages of figures say what their JSON files say; docs/benchmarks/tables.py finds out where they do not. They show
what is, and no history of it; the page of chains on one GPU is short.

usage: benchmark_tables.py ROOT"""

import copy
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

root = pathlib.Path(sys.argv[1]).resolve()
mistakes = []


def run(folder, *options):
    """Exit status and output of tables.py."""
    done = subprocess.run(
        [sys.executable, root / "docs/benchmarks/tables.py", *options, folder], capture_output=True, text=True
    )
    return done.returncode, done.stdout + done.stderr


def expect(what, condition, output=""):
    if not condition:
        mistakes.append(f"{what}: {output.strip()}")


def history(text):
    """Headings, heads of tables and their figures that tell what was before; `code` aside."""
    past = re.compile(r"\b(before|until then|until now|now|used to be|formerly|previously)\b", re.IGNORECASE)
    figure = re.compile(r"\d[^|]*\bbefore *\||\|[^|]*(\bsince|\buntil) \d{4}-\d\d-\d\d")
    lines = [re.sub(r"`[^`]*`", "", line) for line in re.sub(r"^```.*?^```", "", text, flags=re.S | re.M).split("\n")]
    return [
        line
        for line, below in zip(lines, [*lines[1:], ""])
        if past.search(line) and (line.startswith("#") or re.match(r"\|[-:| ]+\|$", below))
        or line.startswith("|") and figure.search(line)
    ]


# What changed and what it brought stands in CHANGELOG.md and in messages of commits.
for page in sorted((root / "docs/benchmarks").glob("*.md")):
    expect(f"{page.name} shows no history", not history(page.read_text()), "; ".join(history(page.read_text())))
for text in (
    "## Before the change\n",
    "| frame | before | rate |\n| --- | ---: | ---: |\n",
    "| frame | rate | now, `-w 4` |\n| --- | --- | --- |\n",
    "| frame | memory |\n| --- | --- |\n| 64 B | 10 KiB, 32 MiB before |\n",
    "| frame | rate |\n| --- | --- |\n| 64 B, as it was until 2026-11-25 | 2.8 |\n",
):
    expect("history is found", history(text), text)
for text in (
    "Packets gather before a batch starts.\n",
    "| stage | `before` |\n| --- | --- |\n| others lose, before | 0 packets |\n",
    "## Whole and in parts\n| engine | known |\n| --- | --- |\n| bloom | looked at before the first |\n",
):
    expect("what is no history passes", not history(text), text)
words = len((root / "docs/benchmarks/gpu.md").read_text().split())
expect("gpu.md has at most 800 words", words <= 800, f"it has {words}")

status, output = run(root / "docs/benchmarks", "--check")
expect("the tree's own pages", status == 0, output)

# A folder of its own, with records that are made from one of the tree's.
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "gpu").mkdir()
    page = folder / "gpu.md"

    def write(record, name):
        (folder / "gpu" / f"{name}.json").write_text(json.dumps(record))

    def change(name, edit):
        """The record with a change, what --check says to that, and the record as it was."""
        path = folder / "gpu" / f"{name}.json"
        old = path.read_text()
        record = json.loads(old)
        edit(record)
        path.write_text(json.dumps(record))
        answer = run(folder, "--check")
        path.write_text(old)
        return answer

    base = json.loads((root / "docs/benchmarks/gpu/two-gpus.json").read_text())
    base["results"] = [r for r in base["results"] if "+" not in r["device"]]
    mbufs, cpu = copy.deepcopy(base), copy.deepcopy(base)
    for r in mbufs["results"]:
        r["layout"] = "buffers"
    for r in cpu["results"]:
        r.update({"device": "cpu", "layout": "buffers"})
        r.pop("bus")
    write(base, "chain-contiguous")
    write(mbufs, "chain-mbufs")
    write(cpu, "cpu")
    page.write_text(
        "# A page\n<!-- commit -->\n<!-- end -->\n<!-- table throughput -->\n<!-- end -->\n"
        "<!-- table tunnels -->\n<!-- end -->\n"
        "<!-- plot throughput Growth -->\n<!-- end -->\n"
    )

    status, output = run(folder, "--check")
    expect("a page whose tables are empty is found", status != 0 and "gpu.md" in output, output)
    expect("--check changes nothing", "512 B" not in page.read_text())
    status, output = run(folder)
    expect("a page is filled", status == 0, output)
    text = page.read_text()
    rate = f"{base['results'][0]['packets-per-second'] * 1e-6:.1f}"
    for needed in (
        f"Commit {base['commit']}, {base['date']}",
        "NVIDIA H200",
        f"| 512 B | {rate} |",
        "contiguous",
        "mbufs",
        "Bare patterns",
        "Not measured: there is no tunnels-1.json",
    ):
        expect(f"a filled page has '{needed}'", needed in text, text)
    status, output = run(folder, "--check")
    expect("a page that is filled passes", status == 0, output)

    page.write_text(text.replace(rate, "999.9"))
    status, output = run(folder, "--check")
    expect("a figure that was changed by hand is found", status != 0 and "gpu.md" in output, output)
    page.write_text(text)
    status, output = change("chain-mbufs", lambda d: d["results"][0].update({"packets-per-second": 1e6}))
    expect("a record that is newer than the page is found", status != 0 and "gpu.md" in output, output)
    status, output = change("chain-mbufs", lambda d: d.update({"commit": "0000000"}))
    expect("records of two commits are refused", status != 0 and "several commits" in output, output)
    status, output = change("chain-mbufs", lambda d: d["results"][0].update({"conserved": False}))
    expect("a record that lost packets is refused", status != 0 and "lost packets" in output, output)
    status, output = change("chain-mbufs", lambda d: d["results"][0]["check"].update({"different": 1}))
    expect("a record with wrong packets is refused", status != 0 and "wrong packets" in output, output)

    # A page whose records lie in papers/, with sections that are there once their records are.
    (folder / "papers").mkdir()
    papers = folder / "papers.md"
    papers.write_text("".join(f"<!-- section thesis-{s} -->\n<!-- end -->\n" for s in ("linear", "missing")))
    status, output = run(folder)
    text = papers.read_text()
    expect("a section without records is left out", status == 0 and "one route after" not in text, output + text)
    expect("what is not measured is named", "4.18, linear lookup: not measured" in text, text)
    lookup = copy.deepcopy(base)
    lookup["results"] = [copy.deepcopy(base["results"][0]) for _ in range(2)]
    lookup["results"][1]["device"] = "cpu"
    for name in ("10", "100", "1000", "10000", "100000", "tables"):
        (folder / "papers" / f"thesis-4.18-{name}.json").write_text(json.dumps(lookup))
    status, output = run(folder)
    text = papers.read_text()
    expect("a section with its records is there", status == 0 and "| 100,000 |" in text, output + text)
    expect("what is measured is not missed", "4.18, linear lookup: not measured" not in text, text)
    papers.write_text(text.replace("| 100,000 |", "| 200,000 |"))
    status, output = run(folder, "--check")
    expect("a section that was changed by hand is found", status != 0 and "papers.md" in output, output)
    papers.unlink()

    (folder / "gpu" / "throughput.svg").write_text("<svg/>")
    run(folder)
    status, output = run(folder, "--check")
    expect("a plot that was drawn of other records is found", status != 0 and "throughput.svg" in output, output)
    shutil.rmtree(folder / "gpu")

print("\n".join(mistakes) or "the pages agree with their files, and tables.py finds out where they do not")
sys.exit(bool(mistakes))
