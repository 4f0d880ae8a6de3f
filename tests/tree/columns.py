#!/usr/bin/env python3
"""All rows of a table of the documents have as many cells."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
folders = ("docs", "src", "tests", "examples", "benchmarks", "fuzz")
pages = sorted(root.glob("*.md")) + [p for f in folders for p in sorted((root / f).rglob("*.md"))]
if len(pages) < 20:
    sys.exit(f"columns.py: {root} has {len(pages)} documents: is that the tree?")


def cells(row):
    """How many there are; a bar in `code` parts none, nor does \\|."""
    return len(re.split(r"\|", re.sub(r"`[^`]*`|\\\|", "", row.strip()))) - 2


uneven = []
for page in pages:
    head = 0
    for number, line in enumerate(re.sub(r"```.*?```", lambda code: "\n" * code[0].count("\n"), page.read_text(),
                                         flags=re.S).split("\n"), 1):
        if not line.startswith("|"):
            head = 0
        elif head == 0:
            head = cells(line)
        elif cells(line) != head:
            uneven.append(f"{page.relative_to(root)}:{number}: {cells(line)} cells, where the head has {head}")
if uneven:
    sys.exit("\n".join(uneven))
