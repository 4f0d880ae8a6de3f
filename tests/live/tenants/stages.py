#!/usr/bin/env python3
"""Tenants with CPU stages, in processes of their own, on the manager's GPU: one after the other dies, stops, sleeps or
lies in the midst of a stage, or is killed anywhere, and costs its own chain what `absent:` says, and others nothing.
usage: stages.py MILLRACE PLUGINS [EMULATED]. EMULATED: the program that makes a GPU believe.
Exit status 77: skipped."""
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

millrace, plugins, *emulated = (str(pathlib.Path(argument).resolve()) for argument in sys.argv[1:])
scratch = tempfile.TemporaryDirectory(prefix="millrace-stages-")
folder = pathlib.Path(scratch.name)
SOURCE = "{source: {size: 128, flows: 64, addresses: {src: 10.0.0.0/24, dst: 198.51.100.0/24}, rate: 1500}}"
(folder / "run.yaml").write_text(f"""
version: 1
ports:
  in: {SOURCE}
  in2: {SOURCE}
  out: {{sink: {{}}}}
  out2: {{sink: {{}}}}
tenants: [{{name: mallory, socket: {folder}/tenants.sock}}, {{name: honest, socket: {folder}/tenants.sock}}]
chains:
  own:
    input: in
    output: out
    nfs:
      - {{tenant: mallory, reads: [ip.src], outcomes: {{pass: next}}, absent: bypass, patience: 800ms}}
  other:
    input: in2
    output: out2
    nfs:
      - tenant: honest
        reads: [ip.src, ip.tos, ip.checksum]
        writes: [ip.tos, ip.checksum]
        outcomes: {{marked: next, guest: next, stranger: drop, not-ipv4: next}}
        absent: drop
        patience: 10s
""")
(folder / "honest.yaml").write_text("customer-marks: {customers: {10.0.0.0/24: 46}}\n")
now_file = folder / "now"
processes = []


def start(*command, out):
    # A process of a test that ends must not go on.
    process = subprocess.Popen(
        [*emulated, millrace, *command], cwd=folder, stdout=(folder / out).open("w"), stderr=subprocess.STDOUT
    )
    processes.append(process)
    return process


def tenant(name, plugin, options, *more):
    return start(
        "tenant", "--manager", folder / "tenants.sock", "--name", name, "--nf", pathlib.Path(plugins) / f"{plugin}.so",
        "--options", folder / options, "--output", folder / name, "--device", "gpu", *more, out=f"{name}.out",
    )


def shown():
    command = [millrace, "show", "tenants", "--json", "--socket", folder / "out/millrace.sock"]
    done = subprocess.run(command, capture_output=True, text=True)
    try:
        return {one["name"]: one for one in json.loads(done.stdout)["tenants"]} if done.returncode == 0 else {}
    except ValueError:
        return {}


def fail(what):
    texts = {out.name: out.read_text()[-800:] for out in folder.glob("*.out")}
    raise SystemExit(f"FAILED: {what}: {json.dumps(shown(), indent=1)} {texts}")


def wait_for(what, holds, seconds=90):
    end = time.time() + seconds
    while time.time() < end and run.poll() is None:
        now = shown()
        if now and holds(now):
            return now
        time.sleep(0.05)
    fail(what)


def works(name):
    """It is on the GPU, and batches come through all three stages."""
    def holds(now):
        one = now[name]
        on_gpu = one["state"] == "attached" and one["runs-on"].startswith("GPU")
        return on_gpu and "after-ns" in one["stages"] and one["in-flight"] < one["answered"]

    return holds


def check(holds, what):
    if not holds:
        fail(what)


try:
    run = start("run", "run.yaml", "--device", "cuda", "--workers", "3", "--output", folder / "out", out="run.out")
    wait_for("nobody is attached", lambda now: len(now) == 2)
    tenant("honest", "customer-marks", "honest.yaml")
    end = time.time() + 90
    while not works("honest")(now := wait_for("it answers", lambda now: True)):
        if "NVRTC" in (text := (folder / "honest.out").read_text()):
            print(f"SKIPPED: {text}")
            sys.exit(77)
        check(time.time() < end, "the neighbour's stages do not run")
    absent_before = now["honest"]["absent"]
    gone = 0
    for place, does, state in (
        ("before", "dies", "gone"), ("after", "dies", "gone"), ("before", "stops", "late"), ("after", "stops", "late"),
        ("before", "sleeps", "late"), ("after", "sleeps", "late"), ("before", "lies", "wrong"),
        ("after", "lies", "wrong"),
    ):
        (folder / "mallory.yaml").write_text(f"trouble: {{in: {place}, does: {does}, when: {now_file}}}\n")
        process = tenant("mallory", "trouble", "mallory.yaml", "--once")
        before = wait_for("it is on the GPU", works("mallory"))
        now_file.touch()
        now = wait_for(
            f"it {does} in '{place}' and is {state}", lambda now: now["mallory"]["state"] == state
        )
        now_file.unlink()
        check(now["honest"]["answered"] > before["honest"]["answered"], "the neighbour's packets stood still")
        if does == "stops":
            process.send_signal(signal.SIGCONT)
        process.kill() if does in ("sleeps", "stops") else None
        process.wait(30)
        # Its seat is free at once, for one that keeps to what it may.
    (folder / "mallory.yaml").write_text(f"trouble: {{in: before, does: nothing, when: {now_file}}}\n")
    random.seed(5)
    for kill in range(5):
        before = shown()["mallory"]
        process = tenant("mallory", "trouble", "mallory.yaml", "--once")
        wait_for(
            "it works again",
            lambda now: works("mallory")(now) and now["mallory"]["answered"] > before["answered"] + 200,
        )
        time.sleep(random.random() / 5)
        process.kill()
        wait_for("it is gone", lambda now: now["mallory"]["state"] == "gone")
        process.wait(30)
    now = shown()
    check(now["honest"]["absent"] == absent_before, "the neighbour lost packets")
    check(now["honest"]["attached"] == 1 and not now["honest"]["misdeeds"], "the neighbour was blamed")
    check(now["mallory"]["misdeeds"]["gone"] >= 7, "not each of those that died was seen to be gone")
    check("beside" in now["honest"]["stages"], "it is not told how often stages worked beside the device")
    check(subprocess.run([millrace, "show", "tenants", "--socket", folder / "out/millrace.sock"], capture_output=True,
                         text=True).stdout.find("tenant honest has CPU stages") >= 0, "the table has no stages")
    run.send_signal(signal.SIGINT)
    check(run.wait(60) == 0, "the run does not end well")
    report = (folder / "run.out").read_text()
    check("\n3 workers on " in report, "a run without its workers")
    for chain in ("own", "other"):
        line = next(line for line in report.splitlines() if line.startswith(f"chain {chain}:"))
        came, sent = (int(line.split(word)[0].split()[-1].replace(",", "")) for word in (" in,", " sent"))
        dropped = sum(absent_before.values()) if chain == "other" else 0
        check(came == sent + dropped and came > 0, f"{line}: packets were lost")
finally:
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
print("tenants with stages died, stopped, slept and lied in each, and cost others nothing")
