#!/usr/bin/env python3
"""Hostile configurations and command lines, by the program: `check` and `run` agree on each, say the place of what they
refuse, take few seconds and little memory, and harm no file.

usage: refused.py MILLRACE CAPTURE [NAME...]
  MILLRACE  the program
  CAPTURE   a capture with packets
  NAME      only the cases whose name has this in it
"""
import os

import refusals
from refusals import (CHAIN, HEAD, alert, case, grown, instead, link_to, nf, other_name_of, source, unix_socket,
                      zeros)

# --- the file as a whole ---
case("empty", "§")
case("a comment", "§# hello\n")
case("a scalar", "§42\n")
case("a list", "§- 1\n- 2\n")
case("two documents", CHAIN + "§---\n" + CHAIN)
case("no version", "§" + instead("version: 1\n", ""))
for version in ("2", "one", "1.0", "9" * 30, "[1]", "-1", "0"):
    case("version " + version[:5], instead("version: 1", "version: §" + version))
case("a key twice", CHAIN + "§version: 1\n")
case("a port twice", instead("  wan:", "  §lan: {pcap: t.pcap}\n  wan:"))
case("an unknown key", CHAIN + "§chainz: {}\n")
case("a tab", instead("  lan:", "\tlan§:"))
case("a brace left open", instead("{pcap: t.pcap}", "{pcap: t.pcap"))
case("bytes that are no text", instead("  lan", "  l§\udcff\udcfe\udc80n"))
case("a zero in a name", instead("t.pcap", "t§\0.pcap"))
case("UTF-16", lambda: CHAIN.encode("utf-16"))
case("a byte order mark", "\ufeff" + CHAIN, refused=False)
case("carriage returns", CHAIN.replace("\n", "\r\n"), refused=False)
case("a merge key", instead("  lan: {pcap: t.pcap}", "  x: &x {pcap: t.pcap}\n  lan: §{<<: *x}"))
case("an alias of nothing", instead("input: lan", "input: §*nobody"))
case("a tag of another language", instead("input: lan", 'input: §!!python/object/apply:os.system ["id"]'))
case("aliases that grow", CHAIN + "x: &a [1,1,1,1,1,1,1,1,1]\n" +
     "".join(f"y{i}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(20)))
case("a thousand aliases of a port", lambda: "version: 1\nx: &a {pcap: t.pcap}\nports: {" +
     ",".join(f"p{i}: *a" for i in range(1000)) + "}\nchains: {c: {input: p0}}\n")
case("functions that grow", CHAIN + "    nfs: " + grown("mirror") + "\n")
case("an anchor within itself", instead("input: lan", "input: &a [lan, *a]"))
case("functions that hold themselves", CHAIN + "    nfs: &n\n      - mirror\n      - *n\n")
case("a port that holds itself", instead("lan: {pcap: t.pcap}", "lan: &l {pcap: t.pcap, loop: *l}"))
case("a document of itself", "&all\nversion: 1\nports: *all\nchains: *all\n")
case("100,000 brackets", CHAIN + "x: " + "[" * 100000 + "]" * 100000 + "\n")
case("three million open brackets", lambda: CHAIN + "x: " + "[" * 3000000, seconds=3)
case("15 MB of values in a line", lambda: CHAIN + "x: [" + "1," * 7500000 + "1]\n", seconds=10)
case("100,000 braces", CHAIN + "x: " + "{a: " * 100000 + "}" * 100000 + "\n")
case("5,000 levels", "".join(" " * i + "a:\n" for i in range(5000)))
case("100,000 dashes", CHAIN + "x: " + "- " * 100000 + "\n")
case("dashes among functions", CHAIN + "    nfs:\n      " + "- " * 50000 + "mirror\n")
for kind in ("/tmp", "/dev/zero", "fifo", "nowhere.yaml"):
    case("a configuration from " + kind, CHAIN, files={"fifo": os.mkfifo}, config=kind)
case("100 MB of comments", lambda: CHAIN + ("#" * 70 + "\n") * 1480000)
case("60 MB of keys", lambda: CHAIN + "".join(f"key{i:07d}: v{i:07d}\n" for i in range(2600000)))
case("30 MB of one key", lambda: CHAIN + "x: " + "a" * 30000000 + "\n")
case("30 MB in a line", lambda: CHAIN + "x: [" + "1," * 15000000 + "1]\n")
case("70,000 chains", lambda: HEAD + "".join(f"  c{i}: {{}}\n" for i in range(70000)))
case(
    "70,000 functions",
    lambda: CHAIN + "    nfs:\n" + "".join(f"      - {{mirror: , name: m{i}}}\n" for i in range(70000)),
)
case(
    "1,000 functions",
    lambda: CHAIN + "    nfs:\n" + "".join(f"      - {{mirror: , name: m{i}}}\n" for i in range(1000)), refused=False,
)
case("4,096 chains in a row", lambda: instead("pcap: t.pcap", "source: {count: 1}", HEAD) + "  c0: {input: lan, nfs: " +
     "".join(f"[{{mirror: , on: {{forward: chain c{i}}}}}]}}\n  c{i}: {{nfs: " for i in range(1, 4096)) +
     "[mirror], output: wan}\n", refused=False)

# --- ports ---
case("ports in a list", instead("ports:\n  lan: {pcap: t.pcap}\n  wan: {output: o.pcap}", "ports: §[lan, wan]"))
case("a port of one word", instead("lan: {pcap: t.pcap}", "§lan: t.pcap"))
case("a port of nothing", instead("lan: {pcap: t.pcap}", "§lan:"))
case("a capture of nothing", instead("{pcap: t.pcap}", "{§pcap: }"))
case("a folder", instead("t.pcap", "§/tmp"))
case("no file", instead("t.pcap", "§nowhere.pcap"))
for device in ("zero", "full", "null", "urandom"):
    case("a capture of /dev/" + device, instead("t.pcap", "§/dev/" + device))
case("a FIFO without a writer", instead("t.pcap", "§fifo"), files={"fifo": os.mkfifo})
case("a socket", instead("t.pcap", "§sock"), files={"sock": unix_socket})
case("links in a circle", instead("t.pcap", "§loop1"), files={"loop1": link_to("loop2"), "loop2": link_to("loop1")})
case("a long name", instead("t.pcap", "§" + "a" * 5000))
case("the configuration as a capture", instead("t.pcap", "§case.yaml"))
case("text as .xz", instead("t.pcap", "§bad.xz"), files={"bad.xz": "hello"})
case("4 GB of zeros as .xz", instead("t.pcap", "§bomb.xz"), files={"bomb.xz": zeros(4)}, seconds=30)
case("output over the input", instead("o.pcap", "§../t.pcap"))
case("output over the input by a link", instead("o.pcap", "§../link.pcap"), files={"link.pcap": link_to("t.pcap")})
case(
    "output over the input by another name", instead("o.pcap", "§../hard.pcap"),
    files={"hard.pcap": other_name_of("t.pcap")},
)
case("output over the configuration", instead("o.pcap", "§../case.yaml"))
case("output over rules", instead("o.pcap", "§../fw.rules") + "    nfs:\n      - firewall: {file: fw.rules}\n",
     files={"fw.rules": "permit tcp\n"})
case("output over alerts",
     instead("o.pcap", "§eve.json") + "    nfs: [nids: {eve: eve.json, rule: " + alert() + "}]\n")
case("two outputs, one file", instead("chains:", "  wan2: {output: §o.pcap}\nchains:"))
case("two outputs, one file, two paths", instead("chains:", "  wan2: {output: §x/../o.pcap}\nchains:"))
case("output to a full device", instead("o.pcap", "/dev/full"), refused=1)
case("output to nowhere", instead("o.pcap", "/dev/null"), refused=False)
case("output to a folder", instead("o.pcap", "§/tmp"))
case("output to a folder above", instead("o.pcap", "§../../"))
case("output beside its folder", instead("o.pcap", "../o.pcap"), refused=False)
case("output of no name", instead("o.pcap", '§""'))
case("an output folder of no name", instead("output: out\n", 'output: §""\n'))
case("a file as the output folder", instead("output: out\n", "output: §t.pcap/x\n"))
case("an output folder that can't be made", instead("output: out\n", "output: §/proc/x\n"))
case("a list as the output folder", instead("output: out\n", "output: §[a, b]\n"))
case("an input twice", CHAIN + "  d:\n    input: §lan\n    output: wan\n")
for key, values in {"loop": ("-1", "0", "1e30", "x"), "rate": ("-5", "0", "nan", "inf", "1e308", "1e-300"),
                    "queues": ("0", "4000000000"), "buffers": ("1", "-1", "2e9"),
                    "max-frame": ("63", "4294967296")}.items():
    for value in values:
        case(f"{key} {value}", instead("t.pcap", f"t.pcap, {key}: §{value}"))
for fields in ("size: §0, count: 10", "size: §9000000000, count: 10", "size: 64, count: §-1",
               "size: 64, count: 10, flows: §4294967296"):
    case("source " + fields.replace("§", ""), source(fields))
for option in ("restore: nothing", "layout: contiguous", "descriptors: 64"):  # what benchmarks alone ask of sources
    case("source " + option, source("size: 64, count: 10, §" + option))
for keep in ("1000000000000", "1000000000", "1e9"):
    case("a sink that keeps " + keep, instead("{output: o.pcap}", "{sink: {keep: §" + keep + "}}"))
case("a ring with one end", instead("{output: o.pcap}", "{ring: §w}"))
case("a ring with three ends", instead("chains:", "  a: {ring: w}\n  b: {ring: w}\n  d: {ring: §w}\nchains:"))
for slots in ("4294967296", "1073741824", "1Gi"):
    case("a ring of " + slots, instead("chains:", "  a: {ring: w, slots: §" + slots + "}\n  b: {ring: w}\nchains:"))
# `check` may be on another machine than the ports.
case("buffers of 967 GB", instead("t.pcap", "t.pcap, buffers: §16Mi, max-frame: 60000"))
case("a driver that reads captures", instead("{pcap: t.pcap}", '{dpdk: §"net_pcap0,rx_pcap=/etc/passwd"}'), refused=2,
     only_run=True)
case("no such interface", instead("{pcap: t.pcap}", "{af_packet: nosuch0}"), refused=2, only_run=True)
case("a long name of an interface", instead("{pcap: t.pcap}", "{af_packet: §" + "e" * 100 + "}"))
case("options in the name of an interface", instead("{pcap: t.pcap}", '{af_packet: §"lo,framesz=1"}'))
case("a long name of a tap", instead("{pcap: t.pcap}", "{tap: §" + "e" * 100 + "}"))
case("a driver that there is not", instead("{pcap: t.pcap}", '{dpdk: "net_foo,,,=="}'), refused=2, only_run=True)

# --- chains ---
case("chains in a list", HEAD.replace("chains:\n", "chains: §[a]\n"))
case("no chains", HEAD.replace("chains:\n", "chains: §{}\n"))
case("an input that there is not", instead("input: lan", "input: §lam"))
case("an output that there is not", instead("output: wan", "output: §wam"))
case("an output that can't send", instead("  c:", "  §c:", instead("output: wan", "output: lan")))
for value in ("0", "-1", "4000000000", "0x1p3", "many", ""):
    case(f"max-batch {value}", CHAIN + f"    max-batch: §{value}\n" if value else CHAIN + "    §max-batch:\n")
for value in ("-1us", "1e30s", "100", "200y", ""):
    case(f"max-delay {value}", CHAIN + f"    max-delay: §{value}\n" if value else CHAIN + "    §max-delay:\n")
for value in ("0us", "8e9s"):
    case(f"max-delay {value}", CHAIN + f"    max-delay: {value}\ndevice: sim\n", refused=False)
case("a circle of two chains", CHAIN + "    nfs: [{mirror: , on: {forward: chain d}}]\n"
     "  d: {nfs: [{mirror: , on: {forward: §chain c}}]}\n")
case("a circle of three chains", CHAIN + "    nfs: [{mirror: , on: {forward: chain d}}]\n"
     "  d: {nfs: [{mirror: , on: {forward: chain e}}]}\n  e: {nfs: [{mirror: , on: {forward: §chain d}}]}\n")
case("a chain that leads to itself", CHAIN + "    nfs: [{mirror: , on: {forward: §chain c}}]\n")
case("a chain that nobody reaches", CHAIN + "  §d: {nfs: [mirror]}\n")
case("an unknown function", nf("§firewal: {}"))
case("two functions in an entry", nf("{firewall: {}, §mirror: {}}"))
case("a function named next", nf("{mirror: , name: §next}"))
case("a name twice", CHAIN + "    nfs: [mirror, §mirror]\n")
case("a name with a newline", nf('{mirror: , name: §"a\\n\\e[31mred"}'))
case("seven lanes", nf("{mirror: , lanes: §7}"))
case("an unknown outcome", nf("{mirror: , on: {§fly: drop}}"))
case("a target before", CHAIN + "    nfs: [{mirror: , name: a}, {mirror: , name: b, on: {forward: §a}}]\n")
case("targets in a list", nf("{mirror: , on: §[drop]}"))
for device in ("tpu", "sim:4294967296", "[cpu, cpu]"):
    case("device " + device, CHAIN + "device: §" + device + "\n")
case("17 devices", CHAIN + "device: [" + ", ".join(f"sim:{i}" for i in range(17)) + "]\n", refused=False)
case("no such plugin", CHAIN + "plugins: [§nowhere.so]\n")
case("a capture as a plugin", CHAIN + "plugins: [§t.pcap]\n")
case("classify without a chain", CHAIN + "classify: [§{match: {port: lan}}]\n")
for match in ("src: §10.0.0.1/8", "vlan: §5000", "protocol: tcp, dst-port: §90-80", "protocol: §256"):
    case("classify " + match.replace("§", ""), CHAIN + "classify: [{match: {" + match + "}, chain: c}]\n")

# --- the command line ---
case("--cores 9999", CHAIN, args=("--cores", "9999"), refused=1, only_run=True)
core = str(min(os.sched_getaffinity(0)))
case("a core three times", CHAIN, args=("--cores", ",".join([core] * 3), "-w", "3"), refused=False, only_run=True)
case("more cores than workers", CHAIN, args=("--cores", ",".join([core] * 3)), refused=2, only_run=True)
case("--workers 256", CHAIN, args=("--workers", "256"), refused=False, only_run=True)
for option in ("--json", "--verdicts", "--timeline"):
    case(option + " to a full device", CHAIN, args=(option, "/dev/full"), refused=1, only_run=True)
    case(option + " into no folder", CHAIN, args=(option, "no/such/x"), only_run=True)
    case(option + " over the input", CHAIN, args=(option, "t.pcap"), refused=2, only_run=True)
    case(option + " over the configuration", CHAIN, args=(option, "case.yaml"), refused=2, only_run=True)
    case(option + " over the output", CHAIN, args=(option, "out/o.pcap"), refused=2, only_run=True)
for option, value in (("--workers", "0"), ("--workers", "100000"), ("--for", "nan"), ("--for", "-1")):
    case(f"{option} {value}", CHAIN, args=(option, value), refused=2, only_run=True)

if __name__ == "__main__":
    refusals.main(__doc__)
