"""Records of what the program does on one core: what classify_lines.py and tunnel_ends.py share."""

import datetime
import json
import pathlib
import subprocess
import sys
import tempfile


def report(millrace, folder, configuration):
    """What `millrace run` reports of a configuration."""
    (folder / "c.yaml").write_text(configuration)
    subprocess.run([millrace, "run", folder / "c.yaml", "-o", folder / "out", "-q", "--json", folder / "c.json"],
                   check=True, stderr=subprocess.DEVNULL)
    return json.loads((folder / "c.json").read_text())


def record(script, usage, key, measure):
    """Writes the record of a script with the arguments MILLRACE FILE.json: `measure(millrace, folder)` stands at
    `key`."""
    if len(sys.argv) != 3:
        sys.exit(usage)
    millrace, file = sys.argv[1:]
    cpus = [line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")]
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(millrace, pathlib.Path(folder))
    version = subprocess.run([millrace, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True,
                            cwd=pathlib.Path(__file__).parent).stdout.strip()
    result = {
        "command": f"docs/benchmarks/{script} MILLRACE FILE.json", "commit": commit,
        "date": str(datetime.date.today()), "version": version, "machine": f"one core of {cpus[0]}", key: measured,
    }
    pathlib.Path(file).write_text(json.dumps(result, indent=1) + "\n")
