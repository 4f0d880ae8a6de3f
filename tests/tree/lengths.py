#!/usr/bin/env python3
"""Sources and scripts have at most 400 lines: one concept a file. Those of the engines have fewer. Folders of src have
at most 25 files: one subject a folder. usage: lengths.py ROOT"""
import collections
import pathlib
import sys

MAX_LINES = 400
FEWER = {"src/millrace/exec/offload/offload_engine.cpp": 150, "src/millrace/exec/": 300}
MAX_FILES = 25
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
    lines, name = path.read_text(encoding="utf-8").count("\n"), path.relative_to(root).as_posix()
    most = next((most for place, most in FEWER.items() if name.startswith(place)), MAX_LINES)
    if lines > most:
        long.append(f"{name}: {lines} lines, at most {most}")
files = collections.Counter(path.parent for path in (root / "src").rglob("*") if path.is_file())
full = [f"{folder.relative_to(root)}: {count} files" for folder, count in sorted(files.items()) if count > MAX_FILES]
if long:
    long.append(f"lengths.py: split these along their concepts")
if full:
    full.append(f"lengths.py: give parts of these folders of their own, at most {MAX_FILES} files each")
if long or full:
    sys.exit("\n".join(long + full))
