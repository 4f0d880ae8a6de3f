#!/usr/bin/env python3
"""A full BGP table that comes to a running router by way of Linux, as JSON: until when the kernel has it, until when
packets are forwarded by it, and what memory it takes.
usage: full_table.py MILLRACE TABLE FILE.json WAY...

TABLE: a list of prefixes of both families, plain or packed with xz. WAY: bird or frr, which daemon is the router's, and
behind a colon who forwards, a device of Millrace or `kernel`: bird:kernel bird:cpu frr:sim. BIRD is the neighbour that
announces. Needs root, BIRD, and FRR where a way has it. Times are of the last route that came, looked for every 0.2 s;
the kernel's memory is what Slab, Percpu and VmallocUsed of /proc/meminfo have grown by.
"""
import datetime
import json
import lzma
import os
import pathlib
import subprocess
import sys
import tempfile
import time

TURN, QUIET = 0.2, 5.0  # seconds between looks, and without a change until it is over
EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/linux-router.yaml"
BIRD = """router id {id};
protocol device {{ }}
{more}
protocol bgp bgp4 {{
  local {own4} as {own}; neighbor {other4} as {other}; connect delay time 1; connect retry time 1;
  ipv4 {{ import {imports}; export {exports}; next hop self; }};
}}
protocol bgp bgp6 {{
  local {own6} as {own}; neighbor {other6} as {other}; connect delay time 1; connect retry time 1;
  ipv6 {{ import {imports}; export {exports}; next hop self; }};
}}
"""
KERNEL = "protocol kernel {{ ipv{0} {{ import none; export where source = RTS_BGP; }}; }}\n"
TABLE = "protocol static table{0} {{ disabled; ipv{0} {{ }};\ninclude \"table{0}\";\n}}\n"
ROUTER = {"own": 65001, "own4": "192.0.2.1", "own6": "2001:db8:20::1"}
PEER = {"other": 65002, "other4": "192.0.2.10", "other6": "2001:db8:20::10"}
FRR = """router bgp 65001
 bgp router-id 192.0.2.1
 no bgp ebgp-requires-policy
 no bgp default ipv4-unicast
 neighbor 192.0.2.10 remote-as 65002
 neighbor 192.0.2.10 timers connect 1
 neighbor 2001:db8:20::10 remote-as 65002
 neighbor 2001:db8:20::10 timers connect 1
 address-family ipv4 unicast
  neighbor 192.0.2.10 activate
 exit-address-family
 address-family ipv6 unicast
  neighbor 2001:db8:20::10 activate
 exit-address-family
"""


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def meminfo():
    lines = (line.split() for line in pathlib.Path("/proc/meminfo").read_text().splitlines())
    return sum(int(words[1]) for words in lines if words[0] in ("Slab:", "Percpu:", "VmallocUsed:")) / 1024


def resident(process, what="VmRSS"):
    for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
        if line.startswith(what):
            return int(line.split()[1]) / 1024
    return 0


def spent(process):
    words = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, words[11:13])) / os.sysconf("SC_CLK_TCK")


def write_tables(table, folder):
    """Both families as BIRD's static routes; how many there are."""
    opened = lzma.open(table, "rt") if table.endswith(".xz") else open(table, encoding="ascii")
    with opened as lines:
        prefixes = sorted({line.strip() for line in lines if line.strip()})
    for family, has in ((4, lambda p: ":" not in p), (6, lambda p: ":" in p)):
        (folder / f"table{family}").write_text("".join(f"route {p} blackhole;\n" for p in prefixes if has(p)))
    return len(prefixes)


class Network:
    """A router and the neighbour that announces, each in a namespace, with BGP between them."""

    def __init__(self, millrace, way, folder):
        self.millrace, self.folder = millrace, folder
        self.daemon, self.forwards = way.split(":")
        self.names = {role: f"mr-{os.getpid()}-{role}" for role in ("client", "middle", "server")}
        self.processes = {}
        for name in self.names.values():
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        self.make_links()
        for role, last in (("middle", "1"), ("server", "10")):
            device = "wan0" if role == "middle" else "eth0"
            ip("-n", self.names[role], "link", "set", device, "up")
            ip("-n", self.names[role], "address", "add", f"192.0.2.{last}/24", "dev", device)
            ip("-n", self.names[role], "address", "add", f"2001:db8:20::{last}/64", "dev", device, "nodad")
        self.start_daemons()

    def make_links(self):
        middle, bare = self.names["middle"], self.forwards == "kernel"
        for side, host in (("lan", "client"), ("wan", "server")):
            name = f"{side}0" if bare else f"mr-{side}"
            ip("-n", middle, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", self.names[host])
            ip("-n", middle, "link", "set", name, *([] if bare else ["arp", "off"]), "up")
            ip("-n", self.names[host], "link", "set", "eth0", "up")
        if bare:
            return
        for side in ("lan", "wan"):
            subprocess.run(["ip", "netns", "exec", middle, "sysctl", "-qw",
                            f"net.ipv6.conf.mr-{side}.disable_ipv6=1"], check=True)
        (self.folder / "router.yaml").write_text(EXAMPLE.read_text())
        self.start("millrace", "middle", self.millrace, "run", "router.yaml", "--device", self.forwards,
                   "--output", "out")
        self.wait(lambda: subprocess.run(["ip", "-n", middle, "link", "show", "wan0", "up"], check=False,
                                         capture_output=True).stdout, 30, "Millrace's taps")

    def start(self, name, role, *command):
        with (self.folder / f"{name}.out").open("w") as out:
            self.processes[name] = subprocess.Popen(["ip", "netns", "exec", self.names[role], *command],
                                                    cwd=self.folder, stdout=out, stderr=out)

    def start_daemons(self):
        tables = "".join(TABLE.format(family) for family in (4, 6))
        mirrored = {key.replace("own", "other"): value for key, value in ROUTER.items()}
        mirrored |= {key.replace("other", "own"): value for key, value in PEER.items()}
        (self.folder / "peer.conf").write_text(BIRD.format(
            id="192.0.2.10", more=tables, imports="none", exports="where source = RTS_STATIC", **mirrored))
        self.start("peer", "server", "bird", "-f", "-c", "peer.conf", "-s", "peer.ctl")
        if self.daemon == "bird":
            (self.folder / "router.conf").write_text(BIRD.format(
                id="192.0.2.1", more=KERNEL.format(4) + KERNEL.format(6), imports="all", exports="none", **ROUTER,
                **PEER))
            self.start("bird", "middle", "bird", "-f", "-c", "router.conf", "-s", "router.ctl")
        else:
            frr = self.folder / "frr"
            frr.mkdir()
            (frr / "zebra.conf").write_text("hostname router\n")
            (frr / "bgpd.conf").write_text(FRR)
            subprocess.run(["chown", "-R", "frr:frr", frr], check=True)
            os.chmod(self.folder, 0o755)
            for name in ("zebra", "bgpd"):
                self.start(name, "middle", f"/usr/lib/frr/{name}", "-u", "frr", "-g", "frr", "-z", frr / "zserv.api",
                           "--vty_socket", frr, "-A", "127.0.0.1", "-i", frr / f"{name}.pid", "-f",
                           frr / f"{name}.conf")
                self.wait((frr / f"{name}.vty").exists, 10, name)
        self.wait(lambda: self.peer("show", "protocols").count("Established") == 2, 60, "BGP")

    def peer(self, *words):
        return subprocess.run(["birdc", "-s", "peer.ctl", *words], cwd=self.folder, check=False, capture_output=True,
                              text=True).stdout

    def wait(self, there, seconds, what):
        end = time.monotonic() + seconds
        while not there():
            if time.monotonic() > end:
                sys.exit(f"full_table.py: {what} did not come")
            time.sleep(0.1)

    def kernel_routes(self):
        """Those of both families in the router's namespace."""
        net = pathlib.Path(f"/proc/{self.processes['bird' if self.daemon == 'bird' else 'zebra'].pid}/net")
        ipv4 = next(line for line in (net / "fib_triestat").read_text().splitlines() if "Prefixes:" in line)
        return int(ipv4.split()[1]) + int((net / "rt6_stats").read_text().split()[3], 16)

    def statistics(self):
        said = subprocess.run([self.millrace, "show", "chains", "--json", "--socket", "out/millrace.sock"],
                              cwd=self.folder, check=True, capture_output=True, text=True).stdout
        return json.loads(said)["chains"][0]["nfs"][0]["statistics"]

    def looked_up(self):
        numbers = self.statistics()
        return numbers["routes-ipv4"] + numbers["routes-ipv6"]

    def follow(self):
        """When each count changed for the last time, in seconds from now on, and what it has grown by."""
        counts = {"kernel": self.kernel_routes} | ({} if self.forwards == "kernel" else {"millrace": self.looked_up})
        first = {name: count() for name, count in counts.items()}
        last, at = dict(first), {name: 0.0 for name in counts}
        for family in (4, 6):
            self.peer("enable", f"table{family}")
        begin = time.monotonic()
        while last == first or time.monotonic() - begin < max(at.values()) + QUIET:
            time.sleep(TURN)
            for name, count in counts.items():
                now = count()
                if now != last[name]:
                    last[name], at[name] = now, time.monotonic() - begin
        return {name: {"routes": last[name] - first[name], "seconds": round(at[name], 1)} for name in counts}

    def measure(self):
        time.sleep(2)
        before, kernel = {name: resident(each) for name, each in self.processes.items()}, meminfo()
        used = {name: spent(each) for name, each in self.processes.items()}
        resyncs = self.statistics()["resyncs"] if "millrace" in before else 0
        result = self.follow()
        result["kernel"]["MiB"] = round(meminfo() - kernel)
        for name, each in self.processes.items():
            if name != "peer":
                result.setdefault(name, {}).update(
                    {"MiB": round(resident(each) - before[name]), "most-MiB": round(resident(each, "VmHWM")),
                     "processor-seconds": round(spent(each) - used[name], 1)})
        if "millrace" in result:
            numbers = self.statistics()
            result["millrace"].update({"tables-MiB": round(numbers["table-bytes"] / 2**20),
                                       "resyncs": numbers["resyncs"] - resyncs})
        return result

    def close(self):
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            process.wait()
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False)


def main():
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    millrace, table, file, ways = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2], sys.argv[3], sys.argv[4:]
    measured, load, prefixes = {}, {}, 0
    for way in ways:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            prefixes = write_tables(table, folder)
            network = Network(millrace, way, folder)
            try:
                measured[way] = network.measure()
                load[way] = round(os.getloadavg()[0], 1)
            finally:
                network.close()
        print(way, json.dumps(measured[way]), file=sys.stderr)
    cpus = [line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True,
                            cwd=pathlib.Path(__file__).parent).stdout.strip()
    result = {
        "command": "docs/benchmarks/full_table.py MILLRACE TABLE FILE.json " + " ".join(ways), "commit": commit,
        "date": str(datetime.date.today()),
        "machine": f"{len(cpus)} cores of {cpus[0]}, Linux {os.uname().release.split('-')[0]}",
        "prefixes": prefixes, "load": load, "ways": measured,
    }
    pathlib.Path(file).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
