#!/usr/bin/env python3
"""Lines of the documents are at most 120 characters long, but for rows of figures, which are made from records."""
import pathlib
import sys

root = pathlib.Path(sys.argv[1])
folders = ("docs", "src", "tests", "examples", "benchmarks", "fuzz")
pages = sorted(root.glob("*.md")) + [p for f in folders for p in sorted((root / f).rglob("*.md"))]
if len(pages) < 20:
    sys.exit(f"columns.py: {root} has {len(pages)} documents: is that the tree?")
long = [
    f"{page.relative_to(root)}:{number}: {len(line)} characters"
    for page in pages
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
    if len(line) > 120 and not (line.startswith("|") and root / "docs/benchmarks" in page.parents)
]
if long:
    sys.exit("\n".join(long + ["columns.py: break these lines at 120 characters"]))
