#!/usr/bin/env python3
"""The tutorial can be followed: its code stands in the example word by word, and its commands do what it says, one
after the other: Millrace is installed, the plugin is built against that, tested, run and watched. usage: tutorial.py
ROOT MILLRACE BUILD"""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

root, millrace, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
page = (root / "docs/nf-tutorial.md").read_text()
examples = [root / f"examples/nf-{name}" for name in ("ttl-guard", "source-policer", "customer-marks")]
mistakes = []


def lines_of(text):
    """Lines of code without comments, indents and what is empty."""
    lines = (re.sub(r"\s*(//.*|# .*)$", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


files = {
    str(path.relative_to(root)): lines_of(path.read_text())
    for example in examples
    for path in sorted(example.rglob("*"))
    if path.is_file()
}
blocks = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
chains = [text for _, text in blocks if text.startswith("version: 1\n")]
for language, text in blocks:
    if text in chains:
        continue
    wanted = lines_of(text)
    # A block may leave lines out; what it has stands in one file, in this order.
    def holds(lines):
        rest = iter(lines)
        return all(line in rest for line in wanted)
    if not any(holds(lines) for lines in files.values()):
        mistakes.append(
            f"docs/nf-tutorial.md: the {language} block that begins with '{wanted[0]}' does not stand in an example"
        )

commands = re.findall(r"^    ((?:build/millrace|make|cmake) .*?)(?:  +#.*)?$", page, re.MULTILINE)
steps = [
    "make install", "cmake -S", "nf show", "nf test", "nf check", "run guarded.yaml --device", "--checked",
    "nf watch",
]
mistakes += [f"docs/nf-tutorial.md: it has no command with '{words}'; has its form changed?" for words in steps
             if not any(words in command for command in commands)]
if len(chains) != 1:
    mistakes.append("docs/nf-tutorial.md: one chain was looked for; has its form changed?")


def follow(command, here, environment):
    """Status and words of a command. `make install` would build Millrace first; it lies in `build` already."""
    if command.startswith("make install"):
        prefix = re.search(r"PREFIX=(\S+)", command)[1]
        command = f"cmake --install '{build}' --prefix {prefix}"
    ran = subprocess.run(["bash", "-c", command], cwd=here, env=environment, capture_output=True, text=True)
    return ran.returncode, ran.stdout + ran.stderr


def follow_watch(command, here, environment):
    """The same of a command that ends when it is told to. It must test and run twice: at once, and when a file was
    saved."""
    said = here / "said"
    with said.open("w") as out:
        watch = subprocess.Popen(["bash", "-c", "exec " + command], cwd=here, env=environment, stdout=out, stderr=out)

    def seen(words, times):
        until = time.monotonic() + 120
        while said.read_text().count(words) < times and watch.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        return said.read_text().count(words) >= times

    good = True
    for times in (1, 2):
        good = good and seen("all passed", times) and seen("the chain ended with status 0", times)
        device = here / "examples/nf-ttl-guard/ttl_guard/device.hpp"
        device.write_text(device.read_text() + "// saved\n")
    watch.send_signal(signal.SIGINT)
    return watch.wait() or not good, said.read_text()


environment = dict(os.environ)
for folder in root.glob(".venv/lib/python3*/site-packages/nvidia/cu13/lib"):
    environment.setdefault("MILLRACE_CUDA", str(folder))
with tempfile.TemporaryDirectory() as folder:
    here = pathlib.Path(folder).resolve()
    environment["HOME"] = folder
    (here / "build").mkdir()
    (here / "build/millrace").symlink_to(millrace)
    shutil.copytree(root / "examples", here / "examples")
    (here / "guarded.yaml").write_text(chains[0] if chains else "")
    for command in commands:
        status, said = (follow_watch if "nf watch" in command else follow)(command, here, environment)
        if status and not ("nf check" in command and "was not found" in said):
            mistakes.append(f"docs/nf-tutorial.md: '{command}' ends with {status}:\n{said}")

print("\n".join(mistakes) if mistakes else f"{len(blocks)} blocks and {len(commands)} commands of the tutorial hold")
sys.exit(bool(mistakes))
