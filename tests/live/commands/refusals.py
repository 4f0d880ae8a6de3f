"""What the tests of hostile configurations share: cases, and what the program must do with each."""
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
MARK = "§"  # stands where the mistake is said to be, or what a warning is of
HEAD = "version: 1\noutput: out\nports:\n  lan: {pcap: t.pcap}\n  wan: {output: o.pcap}\nchains:\n"
CHAIN = HEAD + "  c:\n    input: lan\n    output: wan\n"

cases = []


def case(name, text, refused=True, files=None, args=(), only_run=False, seconds=10, config="case.yaml"):
    """One case. `text`: the configuration, or a function that gives it. `refused`: whether it is (status 2); a number:
    the status of `run`, where `check` finds it sound. `files`: what lies beside it, by name: bytes, text, or a function
    that makes it at a path. `args`: more arguments of `run`; `only_run`: `check` has none of them. `config`: what the
    program gets for the configuration."""
    cases.append(dict(name=name, text=text, refused=refused, files=files or {}, args=args, only_run=only_run,
                      seconds=seconds, config=config))


def instead(old, new, text=CHAIN):
    assert old in text, old
    return text.replace(old, new, 1)


def source(fields):
    return instead("{pcap: t.pcap}", "{source: {" + fields + "}}")


def alert(options="", source="any"):
    return f"'alert tcp {source} any -> any any (msg:\"x\"; {options}sid:1;)'"


def nf(text):
    return CHAIN + "    nfs:\n      - " + text + "\n"


def grown(item):
    """A list of 8 lists of 8 lists and so on of this item: 134 million of them, in a line."""
    text = "[" + ",".join([item] * 8) + "]"
    for level in range(8):
        text = f"[&a{level} {text}" + f",*a{level}" * 7 + "]"
    return text


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
            with subprocess.Popen([program, command, one["config"], *more], cwd=folder, stdin=subprocess.DEVNULL,
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
            elif one["config"] != "case.yaml":
                if not said.startswith(one["config"] + ": error: "):
                    wrong.append(f"{command}: does not begin with the file's name: {first}")
            elif (want == 2 or marked) and not one["args"]:
                found = re.search(r"(?:case\.yaml|g\.txt):(\d+):(\d+):", said)
                if not found:
                    wrong.append(f"{command}: no place: {first}")
                elif place and (int(found[1]), int(found[2])) != place:
                    wrong.append(f"{command}: said at {found[1]}:{found[2]}, is at {place[0]}:{place[1]}: {first}")
            if len(said) > 20000:
                wrong.append(f"{command}: {len(said)} bytes of output")
            if command == "check" and (folder / "out").exists():
                wrong.append("check: wrote into the output folder")
            elif refused is True and not one["only_run"] and "out" not in before and (folder / "out").exists():
                wrong.append(f"{command}: made the output folder of what it refuses")
        for path in folder.iterdir():
            if path.name in before and digest(path) != before[path.name]:
                wrong.append(f"{path.name} was changed")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return wrong


def main(usage):
    if len(sys.argv) < 3:
        sys.exit(usage)
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
