#!/usr/bin/env python3
"""Includes point one way: base <- packet <- nf <- chain <- device <- exec, io <- doctor, nftest, openflow, show,
tenancy <- lab <- cli.

An NF's folder knows base, packet, nf's own headers, the shared folders (classify, crypto, flows, prefixes, state) and
itself; `packet` and the device halves know nothing of the host. Of the commands, those in
MEASURING alone know the laboratory. usage: includes.py ROOT
"""
import pathlib
import re
import sys

RANK = {
    "base": 0, "packet": 0, "isolation": 1, "schedule": 1, "nf": 2, "chain": 3, "device": 4, "exec": 5, "io": 5,
    "doctor": 6, "nftest": 6, "openflow": 6, "show": 6, "tenancy": 6, "lab": 7, "cli": 8,
}
MEASURING = {"bench", "profile"}
SHARED = {"classify", "crypto", "flows", "mappings", "prefixes", "state"}
source = pathlib.Path(sys.argv[1]) / "src"
root = source / "millrace"
mistakes = []
files = [file for file in sorted(source.rglob("*")) if file.suffix in (".hpp", ".cpp")]
for file in files:
    parts = file.relative_to(root).parts if root in file.parents else file.relative_to(source).parts
    for number, line in enumerate(file.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not found:
            continue
        place = f"{file}:{number}: "
        target = found[1].split("/")
        if target[0] not in ("millrace", "lab"):
            mistakes.append(f'{place}"{found[1]}" is not a path from src/: write "millrace/…" or "lab/…"')
            continue
        if not (source / found[1]).exists():
            mistakes.append(f"{place}there is no {found[1]}")
            continue
        layer, wanted = parts[0], target[1] if target[0] == "millrace" else "lab"
        if layer not in RANK or wanted not in RANK:
            mistakes.append(
                f"{place}folder '{layer if layer not in RANK else wanted}' has no place in the order of layers: give "
                f"it one in {__file__}"
            )
        elif RANK[wanted] > RANK[layer]:
            mistakes.append(f"{place}'{layer}' must not know '{wanted}'")
        elif layer == "cli" and wanted == "lab" and parts[1] not in MEASURING:
            mistakes.append(f"{place}of the commands, {' and '.join(sorted(MEASURING))} alone know 'lab'")
        elif layer == "packet" and wanted != "packet":
            mistakes.append(f"{place}'packet' compiles for GPUs and knows only itself")
        elif layer == "nf" and wanted == "nf" and len(parts) > 2 and len(target) > 3:
            if target[2] != parts[1] and target[2] not in SHARED:
                mistakes.append(f"{place}network function '{parts[1]}' must not know '{target[2]}'")
if not files:
    mistakes.append(f"{source} has no sources")
print("\n".join(mistakes) or f"{len(files)} files include in one direction")
sys.exit(bool(mistakes))
