#!/usr/bin/env python3
"""The tutorial can be followed: its code stands in the example word by word, and its commands of `millrace` do what it
says, with the plugin that the build made of the example. usage: tutorial.py ROOT MILLRACE PLUGIN.so"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

root, millrace, plugin = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
page = (root / "docs/nf-tutorial.md").read_text()
example = root / "examples/nf-ttl-guard"
mistakes = []


def lines_of(text):
    """Lines of code without comments, indents and what is empty."""
    lines = (re.sub(r"\s*(//.*|# .*)$", "", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


files = {str(path.relative_to(root)): lines_of(path.read_text()) for path in sorted(example.rglob("*")) if path.is_file()}
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
        mistakes.append(f"docs/nf-tutorial.md: the {language} block that begins with '{wanted[0]}' does not stand in {example.name}")

commands = re.findall(r"^    (build/millrace .*?)(?:  +#.*)?$", page, re.MULTILINE)
if len(chains) != 1 or len(commands) < 4:
    mistakes.append("docs/nf-tutorial.md: one chain and four commands or more were looked for; has its form changed?")
environment = dict(os.environ)
for folder in root.glob(".venv/lib/python3*/site-packages/nvidia/cu13/lib"):
    environment.setdefault("MILLRACE_CUDA", str(folder))
with tempfile.TemporaryDirectory() as folder:
    here = pathlib.Path(folder)
    for name, target in {"build/millrace": millrace, "ttl/ttl-guard.so": plugin, "examples": root / "examples"}.items():
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).symlink_to(target)
    (here / "guarded.yaml").write_text(chains[0] if chains else "")
    for command in commands:
        ran = subprocess.run(shlex.split(command), cwd=here, env=environment, capture_output=True, text=True)
        if ran.returncode and not ("nf check" in command and "was not found" in ran.stderr):
            mistakes.append(f"docs/nf-tutorial.md: '{command}' ends with {ran.returncode}:\n{ran.stdout}{ran.stderr}")

print("\n".join(mistakes) if mistakes else f"{len(blocks)} blocks and {len(commands)} commands of the tutorial hold")
sys.exit(bool(mistakes))
