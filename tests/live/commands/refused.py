#!/usr/bin/env python3
"""Hostile configurations and command lines, by the program: `check` and `run` agree on each, say the place of what they
refuse, take few seconds and little memory, and harm no file.

usage: refused.py MILLRACE CAPTURE [NAME...]
  MILLRACE  the program
  CAPTURE   a capture with packets
  NAME      only the cases whose name has this in it
"""
import concurrent.futures
import functools
import hashlib
import lzma
import os
import pathlib
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile

HANG_SECONDS = 180  # by the clock; how much a processor works is limited by `seconds`, however busy the machine is
MARK = "§"  # stands where the mistake is said to be
HEAD = "version: 1\noutput: out\nports:\n  lan: {pcap: t.pcap}\n  wan: {output: o.pcap}\nchains:\n"
CHAIN = HEAD + "  c:\n    input: lan\n    output: wan\n"
RULE = 'rule: \'alert tcp any any -> any any (msg:"x"; sid:1;)\''
SA = "name: a, direction: out, spi: 0x1000, local: 192.0.2.1, remote: 192.0.2.2, cipher: aes-128-ctr"

cases = []


def case(name, text, refused=True, files=None, args=(), only_run=False, seconds=10):
    """One case. `text`: the configuration, or a function that gives it. `refused`: whether it is (status 2); a number:
    the status of `run`, where `check` finds it sound. `files`: what lies beside it, by name: bytes, text, or a function
    that makes it at a path. `args`: more arguments of `run`; `only_run`: `check` has none of them."""
    cases.append(dict(name=name, text=text, refused=refused, files=files or {}, args=args, only_run=only_run,
                      seconds=seconds))


def instead(old, new, text=CHAIN):
    assert old in text, old
    return text.replace(old, new, 1)


def source(fields):
    return instead("{pcap: t.pcap}", "{source: {" + fields + "}}")


def nf(text):
    return CHAIN + "    nfs:\n      - " + text + "\n"


def link_to(target):
    return lambda path: os.symlink(target, path)


def other_name_of(name):
    return lambda path: os.link(path.parent / name, path)


def unix_socket(path):
    here = os.getcwd()
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path, here))


@functools.cache
def packed_zeros():
    return lzma.compress(bytes(64 << 20), preset=0)


def zeros(gibibytes):
    """Some kilobytes that unpack to so much: the same stream again and again, which are one file's to whoever reads
    it."""
    return lambda path: path.write_bytes(packed_zeros() * (gibibytes * 16))


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
case("60 MB of comments", lambda: ("#" * 70 + "\n") * 887000)
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
case("output over alerts", instead("o.pcap", "§eve.json") + "    nfs:\n      - nids: {eve: eve.json, " + RULE + "}\n")
case("two outputs, one file", instead("chains:", "  wan2: {output: §o.pcap}\nchains:"))
case("two outputs, one file, two paths", instead("chains:", "  wan2: {output: §x/../o.pcap}\nchains:"))
case("output to a full device", instead("o.pcap", "/dev/full"), refused=1)
case("output to nowhere", instead("o.pcap", "/dev/null"), refused=False)
case("output to a folder", instead("o.pcap", "§/tmp"))
case("a file as the output folder", instead("output: out\n", "output: §t.pcap/x\n"))
case("an output folder that can't be made", instead("output: out\n", "output: §/proc/x\n"))
case("a list as the output folder", instead("output: out\n", "output: §[a, b]\n"))
case("an input twice", CHAIN + "  d:\n    input: §lan\n    output: wan\n")
for key, values in {"loop": ("-1", "1e30", "x"), "rate": ("-5", "0", "nan", "inf"), "queues": ("0", "4000000000"),
                    "buffers": ("1", "-1", "2e9"), "max-frame": ("63", "4294967296")}.items():
    for value in values:
        case(f"{key} {value}", instead("t.pcap", f"t.pcap, {key}: §{value}"))
for fields in ("size: §0, count: 10", "size: §9000000000, count: 10", "size: 64, count: §-1",
               "size: 64, count: 10, flows: §4294967296"):
    case("source " + fields.replace("§", ""), source(fields))
for option in ("restore: nothing", "layout: contiguous", "descriptors: 64"):  # what benchmarks alone ask of sources
    case("source " + option, source("size: 64, count: 10, §" + option))
case("a sink that keeps 1e12", instead("{output: o.pcap}", "{sink: {keep: §1000000000000}}"))
case("a ring with one end", instead("{output: o.pcap}", "{ring: §w}"))
case("a ring with three ends", instead("chains:", "  a: {ring: w}\n  b: {ring: w}\n  d: {ring: §w}\nchains:"))
case("a ring of 4 billion", instead("chains:", "  a: {ring: w, slots: §4294967296}\n  b: {ring: w}\nchains:"))
# `check` may be on another machine than the ports.
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
case("a circle of two chains", CHAIN + "    nfs: [{mirror: , on: {forward: chain d}}]\n"
     "  d: {nfs: [{mirror: , on: {forward: §chain c}}]}\n")
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
case("no such plugin", CHAIN + "plugins: [§nowhere.so]\n")
case("a capture as a plugin", CHAIN + "plugins: [§t.pcap]\n")
case("classify without a chain", CHAIN + "classify: [§{match: {port: lan}}]\n")
for match in ("src: §10.0.0.1/8", "vlan: §5000", "protocol: tcp, dst-port: §90-80", "protocol: §256"):
    case("classify " + match.replace("§", ""), CHAIN + "classify: [{match: {" + match + "}, chain: c}]\n")

# --- network functions ---
for file in ("/dev/zero", "/tmp", "/dev/urandom"):
    case("firewall file " + file, nf("firewall: {file: §" + file + "}"))
    case("firewall classbench " + file, nf("firewall: {classbench: §" + file + "}"))
    case("router file " + file, nf("router: {routes: [§" + file + "], next-hops: {a: {port: wan}}}"))
case("firewall rules of 4 GB", nf("firewall: {file: §bomb.xz}"), files={"bomb.xz": zeros(4)}, seconds=30)
case("firewall rules in a FIFO", nf("firewall: {file: §fifo}"), files={"fifo": os.mkfifo})
case("firewall of nine million rules in a line", lambda: nf(
    'firewall: {rules: [§"permit tcp from ' + ",".join(f"10.{i // 256}.{i % 256}.0/24" for i in range(3000)) + " to " +
    ",".join(f"11.{i // 256}.{i % 256}.0/24" for i in range(3000)) + '"]}'))
case("firewall max-table 0", nf("firewall: §{rules: [permit tcp], max-table: 0}"))
case("firewall without its file", nf("firewall: {§file: }"))
case("firewall rules in a map", nf("firewall: {rules: {§a: b}}"))
case("an unknown option", nf("firewall: {§rulez: []}"))
case("router prefix /33", nf("router: {routes: [{prefix: §10.0.0.0/33, via: a}], next-hops: {a: {port: wan}}}"))
case(
    "router without its next hop", nf("router: {routes: [{prefix: 10.0.0.0/8, via: §b}], next-hops: {a: {port: wan}}}")
)
case("router MAC", nf('router: {routes: [], next-hops: {a: {mac: §"zz:00:00:00:00:00"}}}'))
case("nids alerts into a folder", nf("nids: {eve: §/tmp, " + RULE + "}"))
case("nids alerts into no folder", nf("nids: {eve: §nosuch/dir/eve.json, " + RULE + "}"))
case(
    "nids expression of 50,000 brackets",
    lambda: nf(
        'nids: {rule: \'alert tcp any any -> any any (msg:"x"; pcre:"/'
        + "(" * 50000
        + "a"
        + ")" * 50000
        + '/"; sid:1;)\'}'
    ),
    refused=False,
)
case(
    "nids variables in a circle",
    nf('nids: {variables: {A: $B, B: $A}, rule: \'alert tcp $A any -> any any (msg:"x"; sid:1;)\'}'),
)
case(
    "ipsec key of three digits",
    nf("ipsec: {sas: [{" + SA + ', key: §"123", nonce: "00000000", auth-key: "' + "0" * 40 + '"}]}'),
)
case(
    "ipsec keys in a folder", nf("ipsec: {keys: §kd, sas: [{" + SA + "}]}"),
    files={"kd": lambda path: os.mkdir(path, 0o700)},
)
case("ipsec mtu -1", nf("ipsec: {default: bypass, mtu: §-1}"))
case("switch flow", nf("switch: {flows: [§'priority=99999999,actions=fly']}"))
case("switch max-flows", nf("switch: {flows: ['actions=output:2'], max-flows: §4000000000}"))
case("switch controller", nf("switch: {controller: §'tls:localhost'}"))
case("switch controller's port", nf("switch: {controller: §'tcp:127.0.0.1:99999'}"))
case("switch groups in a circle", nf("switch: {flows: ['actions=group:1'], groups: g.txt}"),
     files={"g.txt": "group_id=1,type=select,bucket=actions=group:1\n"})

# --- the command line ---
case("--cores 9999", CHAIN, args=("--cores", "9999"), refused=1, only_run=True)
for option in ("--json", "--verdicts", "--timeline"):
    case(option + " to a full device", CHAIN, args=(option, "/dev/full"), refused=1, only_run=True)
    case(option + " into no folder", CHAIN, args=(option, "no/such/x"), only_run=True)
    case(option + " over the input", CHAIN, args=(option, "t.pcap"), refused=2, only_run=True)
    case(option + " over the configuration", CHAIN, args=(option, "case.yaml"), refused=2, only_run=True)
    case(option + " over the output", CHAIN, args=(option, "out/o.pcap"), refused=2, only_run=True)
for option, value in (("--workers", "0"), ("--workers", "100000"), ("--for", "nan"), ("--for", "-1")):
    case(f"{option} {value}", CHAIN, args=(option, value), refused=2, only_run=True)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_fifo() else None


def place_of(text):
    """Line and column of the mark, counted in characters from 1."""
    before = text.split(MARK)[0]
    return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


def run_one(program, capture, one):
    """What is wrong with how the program takes this case."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="refused-"))
    wrong = []
    try:
        text = one["text"]() if callable(one["text"]) else one["text"]
        shutil.copy(capture, folder / "t.pcap")
        marked = isinstance(text, str) and MARK in text
        place = place_of(text) if marked else None
        plain = text.replace(MARK, "").encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        (folder / "case.yaml").write_bytes(plain)
        for name, content in one["files"].items():
            if callable(content):
                content(folder / name)
            else:
                (folder / name).write_bytes(content.encode())
        before = {path.name: digest(path) for path in folder.iterdir()}
        for command in ("run",) if one["only_run"] else ("check", "run"):
            more = list(one["args"]) if command == "run" else []
            if command == "run" and "--for" not in more:
                more += ["--for", "5"]
            with subprocess.Popen([program, command, "case.yaml", *more], cwd=folder, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  preexec_fn=lambda: resource.setrlimit(
                                      resource.RLIMIT_CPU, (one["seconds"], one["seconds"]))) as process:
                try:
                    said = process.communicate(timeout=HANG_SECONDS)[0].decode(errors="replace")
                except subprocess.TimeoutExpired:
                    process.kill()
                    said = process.communicate()[0].decode(errors="replace")
                    wrong.append(f"{command}: still at work after {HANG_SECONDS} s")
                    continue
            refused = one["refused"]
            want = 2 if refused is True else 0 if refused is False or command == "check" else refused
            first = said.strip().split("\n")[0][:300]
            if process.returncode != want:
                wrong.append(f"{command}: status {process.returncode}, not {want}: {first}")
            elif want == 2 and not one["args"]:
                found = re.search(r"(?:case\.yaml|g\.txt):(\d+):(\d+):", said)
                if not found:
                    wrong.append(f"{command}: no place: {first}")
                elif place and (int(found[1]), int(found[2])) != place:
                    wrong.append(f"{command}: said at {found[1]}:{found[2]}, is at {place[0]}:{place[1]}: {first}")
            if len(said) > 20000:
                wrong.append(f"{command}: {len(said)} bytes of output")
            if command == "check" and (folder / "out").exists():
                wrong.append("check: wrote into the output folder")
        for path in folder.iterdir():
            if path.name in before and digest(path) != before[path.name]:
                wrong.append(f"{path.name} was changed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return wrong


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, capture, names = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3:]
    chosen = [one for one in cases if not names or any(name in one["name"] for name in names)]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for one, wrong in zip(chosen, pool.map(lambda one: run_one(program, capture, one), chosen)):
            failed += bool(wrong)
            for line in wrong:
                print(f"{one['name']}: {line}", flush=True)
    print(f"{len(chosen)} cases, {failed} failed")
    sys.exit(failed != 0 or not chosen)


if __name__ == "__main__":
    main()
