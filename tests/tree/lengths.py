#!/usr/bin/env python3
"""Sources and scripts have at most 400 lines: one concept a file."""
import pathlib
import sys

MAX_LINES = 400
root = pathlib.Path(sys.argv[1])
suffixes = {".cpp", ".hpp", ".h", ".cu", ".py", ".sh", ".bash", ".cmake"}
folders = ("src", "tests", "benchmarks", "fuzz", "docs", "examples", "scripts", "cmake", ".ci")
sources = [
    path
    for folder in folders
    for path in sorted((root / folder).rglob("*"))
    if path.is_file() and (path.suffix in suffixes or path.name == "CMakeLists.txt" or folder in ("scripts", ".ci"))
]
if len(sources) < 500:
    sys.exit(f"lengths.py: {root} has {len(sources)} sources: is that the tree?")
long = []
for path in sources:
    lines = path.read_text(encoding="utf-8").count("\n")
    if lines > MAX_LINES:
        long.append(f"{path.relative_to(root)}: {lines} lines")
if long:
    sys.exit("\n".join(long + [f"lengths.py: split these along their concepts, at most {MAX_LINES} lines each"]))
