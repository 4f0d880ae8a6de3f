#!/usr/bin/env python3
"""What must not stand in the tree: unfinished work, paths of somebody's machine, words that the field has others for.
usage: words.py ROOT"""
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(sys.argv[1])
# Written so that this file does not contain the words itself.
unfinished = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X)\b|not implement" + r"ed yet")
machine = re.compile(r"(?<![\w./])/(?:wor" + r"k|ho" + r"me/\w+|roo" + r"t|far" + r"m)/")
# Contiguous (memory), concurrent (time) or interleaved (data); receive block; in flight; staged; verdict; scattered;
# light; sequence; kMax; and in names on_receive, round trip, result buffer.
retired = re.compile(
    r"\b(side by " + r"side|frame " + r"runs?|fly" + r"ing|set ap" + r"art|fat" + r"es?|land" + r"ed|cal" + r"m"
    r"|ahead of (?:its|their) tur" + r"n|batch's tur" + r"n|kMos" + r"t\w*"
    r"|on_cam" + r"e\w*|awa" + r"y_ns|region_buffe" + r"r)\b",
    re.IGNORECASE,
)
# What the recorded clients really sent, and the rules that look for it.
data = ("examples/record/", "examples/nids.rules")
binary = (".pcap", ".xz", ".gz", ".svg", ".png")
listed = subprocess.run(
    ["git", "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True
)
mistakes, count = [], 0
for name in listed.stdout.split("\n"):
    if not name or name.endswith(binary) or name.startswith(data) or not (root / name).is_file():
        continue
    count += 1
    for number, line in enumerate((root / name).read_text(errors="replace").splitlines(), 1):
        for kind, pattern in (("unfinished work", unfinished), ("a path of one machine", machine),
                              ("a word that the field has another for", retired)):
            if pattern.search(line):
                mistakes.append(f"{name}:{number}: {kind}: {line.strip()[:100]}")
print("\n".join(mistakes) or f"{count} files are clean")
sys.exit(bool(mistakes) or count == 0)
