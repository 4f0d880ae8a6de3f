#!/usr/bin/env python3
"""Every network function has the same files, its README names every outcome, and GPUs run its tests and its largest
inputs, and every other test program that asks for devices. usage: nf_folders.py ROOT"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
wanted = ("device.hpp", "host.cpp", "golden.yaml", "README.md")
on_gpus = (root / "scripts/gpu-test").read_text()
largest = (root / "tests/live/functions/largest.sh").read_text()
mistakes, names = [], []
for folder in sorted((root / "src/millrace/nf").iterdir()):
    if not folder.is_dir():
        continue
    sources = list(folder.glob("*.cpp"))
    if not any(re.search(r"\bRegister<\w+, \w+>", source.read_text()) for source in sources):
        continue  # shared code, not an NF
    names.append(folder.name)
    missing = [name for name in wanted if not (folder / name).exists()]
    mistakes += [f"{folder}: {name} is missing" for name in missing]
    if "README.md" in missing:
        continue
    readme = (folder / "README.md").read_text()
    outcomes = re.findall(
        r'\{\s*"([a-z][a-z0-9-]*)",\s*(?:nf::)?Disposition::', "".join(s.read_text() for s in sources)
    )
    mistakes += [
        f"{folder}/README.md does not name the outcome '{outcome}'" for outcome in outcomes if outcome not in readme
    ]
    if not (root / "tests/nf" / folder.name).is_dir():
        mistakes.append(f"{folder} has no tests in tests/nf/{folder.name}")
    if not re.search(rf"\btest_nf_{folder.name}\b", on_gpus):
        mistakes.append(f"scripts/gpu-test does not run test_nf_{folder.name}")
    if f"case_{folder.name}()" not in largest:
        mistakes.append(f"tests/live/functions/largest.sh has no case for {folder.name}")
for test in sorted((root / "tests").rglob("*_test.cpp")):
    program = "test_" + "_".join(test.relative_to(root / "tests").parts[:-1])
    if re.search(r"\b(offload_devices|open_device)\(", test.read_text()) and not re.search(rf"\b{program}\b", on_gpus):
        mistakes.append(f"scripts/gpu-test does not run {program}, whose {test.name} asks for devices")
if not names:
    mistakes.append("no network function found")
print("\n".join(mistakes) or f"{len(names)} network functions have all their files: {', '.join(names)}")
sys.exit(bool(mistakes))
