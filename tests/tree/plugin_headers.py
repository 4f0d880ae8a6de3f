#!/usr/bin/env python3
"""What a network function outside of the tree includes stays light: all that follows from nf.hpp, the other headers of
nf and those of device halves is Millrace's own and the standard library's. Each other library's header would be read
at every build of every plugin, and would have to be installed beside it. usage: plugin_headers.py ROOT"""
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1]) / "src"
starts = sorted([*(source / "millrace/nf").glob("*.hpp"), *(source / "millrace/packet").glob("*.hpp")])
mistakes, seen, waiting = [], set(), starts
while waiting:
    file = waiting.pop()
    if file in seen:
        continue
    seen.add(file)
    for number, line in enumerate(file.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
        if not found:
            continue
        if found[1] == '"':
            waiting.append(source / found[2])
        elif not re.fullmatch(r"[a-z_]+", found[2]):
            mistakes.append(
                f"{file}:{number}: plugins must not read <{found[2]}>: declare what it needs, and include it in a .cpp"
            )
for wanted in ("millrace/nf/nf.hpp", "millrace/base/text/config.hpp", "millrace/packet/packet.hpp"):
    if source / wanted not in seen:
        mistakes.append(f"{wanted} was not looked at: have the headers moved?")
print("\n".join(mistakes) or f"{len(seen)} headers of plugins need the standard library only")
sys.exit(bool(mistakes))
