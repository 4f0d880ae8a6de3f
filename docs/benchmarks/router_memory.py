#!/usr/bin/env python3
"""What routers take that have few routes or many: the run's memory, how long a start takes, bytes on a device, as JSON.
usage: router_memory.py MILLRACE FILE.json WAY:ROUTERS:ROUTES...

WAY: cpu or sim, whose routes are in files, or kernel, whose routes are Linux': each router has a table of its own. Each
run forwards a few packets of a capture and ends; seconds are of all of it, processor time of both. The routes are
random, most of them /24s; each router has one more that no other has, so that none share a table. `kernel` needs root.
"""
import datetime
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

CAPTURE = pathlib.Path(__file__).resolve().parents[2] / "examples/traffic.pcap"


def prefixes(count):
    """So many, as text."""
    source, found = random.Random(1), set()
    while len(found) < count:
        length = source.choices((16, 20, 22, 24, 28), (10, 10, 20, 58, 0.2))[0]
        found.add((source.randrange(16 << 24, 127 << 24) >> (32 - length) << (32 - length), length))
    return [f"{a >> 24}.{a >> 16 & 255}.{a >> 8 & 255}.{a & 255}/{length}" for a, length in sorted(found)]


def own_prefix(router):
    return f"10.{router >> 8}.{router & 255}.0/24"


def write_configuration(folder, way, routers, routes):
    (folder / "routes.txt").write_text("".join(f"{p} a\n" for p in prefixes(max(routes - 1, 0))))
    lines = ["version: 1", "ports:", f"  in: {{pcap: {CAPTURE}}}", "  out: {output: out.pcap}", "classify:"]
    lines += [f"  - {{match: {{vlan: {i}}}, chain: c{i}}}" for i in range(routers)]
    lines += ["chains:"]
    for i in range(routers):
        listed = f"routes.txt, {{prefix: {own_prefix(i)}, via: a}}" if routes else ""
        options = f"kernel: {{table: {1000 + i}, interfaces: {{wire0: out}}}}" if way == "kernel" else \
            f"next-hops: {{a: {{}}}}, routes: [{listed}]"
        lines.append(f"  c{i}: {{output: out, nfs: [router: {{{options}}}]}}")
    (folder / "routers.yaml").write_text("\n".join(lines) + "\n")


def add_to_kernel(name, routers, routes, folder):
    subprocess.run(["ip", "netns", "add", name], check=True)
    for words in (("link", "add", "wire0", "type", "veth", "peer", "wire1"), ("link", "set", "wire0", "up")):
        subprocess.run(["ip", "-n", name, *words], check=True)
    batch = folder / "batch"
    batch.write_text("".join(f"route add blackhole {p} table {1000 + i}\n" for i in range(routers)
                             for p in ([*prefixes(routes - 1), own_prefix(i)] if routes else [])))
    subprocess.run(["ip", "-n", name, "-batch", str(batch)], check=True)


def measure(millrace, way, routers, routes):
    name = f"mr-{os.getpid()}"
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        write_configuration(folder, way, routers, routes)
        command = [millrace, "run", "routers.yaml", "--no-socket", "--output", "out", "--json", "report.json",
                   "--device", "cpu" if way == "kernel" else way]
        try:
            if way == "kernel":
                add_to_kernel(name, routers, routes, folder)
                command = ["ip", "netns", "exec", name, *command]
            # What a process has had at most includes what its parent had when it was made: that is a small program.
            command = ["/usr/bin/time", "-q", "-f", "%e %U %S %M", "-o", "times", *command]
            told = subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                  check=False)
        finally:
            if way == "kernel":
                subprocess.run(["ip", "netns", "del", name], check=False)
        wall, user, system, most = map(float, (folder / "times").read_text().split())
        result = {"seconds": wall, "processor-seconds": round(user + system, 2), "MiB": int(most) >> 10}
        if told.returncode != 0:
            return {**result, "refused": told.stderr.strip().splitlines()[-1]}
        report = json.loads((folder / "report.json").read_text())
        tables = sum(nf["statistics"]["table-bytes"] for chain in report["chains"] for nf in chain["nfs"])
        return {**result, "table-KiB": tables >> 10}


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    millrace, file, ways = os.path.realpath(sys.argv[1]), sys.argv[2], sys.argv[3:]
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=CAPTURE.parent, capture_output=True,
                            text=True, check=False).stdout.strip()
    made = {}
    for one in ways:
        way, routers, routes = one.split(":")
        load = os.getloadavg()[0]
        made[one] = {**measure(millrace, way, int(routers), int(routes)), "load": round(load, 1)}
        print(one, made[one], file=sys.stderr)
    pathlib.Path(file).write_text(json.dumps({
        "command": "docs/benchmarks/router_memory.py MILLRACE FILE.json " + " ".join(ways), "commit": commit,
        "date": datetime.date.today().isoformat(), "ways": made}, indent=1) + "\n")


if __name__ == "__main__":
    main()
