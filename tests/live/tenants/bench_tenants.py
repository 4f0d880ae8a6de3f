#!/usr/bin/env python3
"""`millrace bench tenants` in a small form: what it writes is whole, every packet is accounted for, and tenants were
where they should be. usage: bench_tenants.py MILLRACE DEVICE PLACE [EMULATED]. EMULATED: the program that makes a GPU
believe."""
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

millrace, device, place, *emulated = sys.argv[1:]
on_gpu = place != "process"
scratch = tempfile.TemporaryDirectory(prefix="millrace-bench-tenants-")
folder = pathlib.Path(scratch.name)
# The emulated GPU interprets fenced functions: the least of them are enough. What is the same wherever tenants run is
# tried with processes alone.
FUNCTIONS = ["--chain", "mirror+mirror"] if on_gpu else []
PARTS = ["domains", "killed", "fence"] if on_gpu else ["domains", "batch", "killed", "mixes", "victim"]


def check(holds, what):
    if not holds:
        print(f"FAILED: {what}")
        sys.exit(1)


def bench(name, *options):
    file = folder / f"{name}.json"
    done = subprocess.run(
        [
            *emulated, millrace, "bench", "tenants", "--device", device, "--workers", "1", "--rules", "20",
            "--routes", "20", "--sizes", "128", "--mixes", "2", "--kills", "1", "--json", file, *FUNCTIONS, *options,
        ],
        capture_output=True,
        text=True,
    )
    if "NVRTC" in done.stderr + done.stdout:
        print(f"SKIPPED: {done.stderr[-500:]}")
        sys.exit(77)
    check(done.returncode == 0, f"{name} ends with {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    check("\r" not in done.stdout and done.stderr, "progress belongs to the standard error")
    return json.loads(file.read_text()), done.stdout


made, out = bench("all", *(["--seconds", "120", "--only", ",".join(PARTS)] if on_gpu else ["--seconds", "80"]))
for key in ("commit", "command", "device", "device-model", "workers", "seed", "seconds"):
    check(key in made, f"the JSON does not say its {key}: {list(made)}")
check(made["mistakes"] == [] and not made["stopped"], made["mistakes"])
check(made["complete"], f"there was no time for all of it: {made['seconds-of-parts']}")
check(sorted(made["seconds-of-parts"]) == sorted(PARTS + ([] if on_gpu else ["fence"])), made["seconds-of-parts"])
for figure in made["figures"]:
    check(figure["unit"] and math.isfinite(figure["value"]), figure)
    check(figure["part"] in PARTS, figure)
check({figure["part"] for figure in made["figures"]} == set(PARTS), "a part has no figures")
check(len(out.splitlines()) >= len(made["figures"]), "not every figure is printed")


def figure(part, name):
    found = [one["value"] for one in made["figures"] if one["part"] == part and one["name"] == name]
    check(len(found) == 1, f"{part} has {len(found)} figures '{name}'")
    return found[0]


for part, name in (("domains", "one domain, nothing lost"), ("domains", "tenants, nothing lost"),
                   ("killed", "killed to noticed, longest"), ("mixes", "what all tenants carry together")):
    check(part not in PARTS or figure(part, name) > 0, f"{part}, {name}: nothing was measured")
if on_gpu:
    for name in ("mirror, none, kernels", "mirror, checked, kernels", "mirror, fenced, with copies"):
        check(
            any(one["name"] == name and one["value"] > 0 for one in made["figures"]),
            f"the fence has no figure '{name}'",
        )
    added = {
        one["isolation"]: one["added"]
        for one in made["figures"]
        if one["part"] == "fence" and one.get("function") == "mirror"
    }
    check(added["none"] == 0 < added["fenced"] < added["checked"], f"isolation adds {added}")

# What is counted, by what stands in the file alone.
scenes = made["scenes"]
check({scene["part"] for scene in scenes} == set(PARTS), "a part has no scenes")
for scene in scenes:
    name = f"{scene['part']}, {scene['name']}"
    check(scene["conserved"] and scene["elsewhere"] == [], name)
    for chain in scene["chains"]:
        check(chain["received"] == chain["sent"] + chain["dropped"] + chain["in-flight"], f"{name}: {chain}")
        check(chain["dropped"] == sum(chain["dropped-by"].values()) and chain["in-flight"] == 0, f"{name}: {chain}")
        check(chain["received"] > 0, f"{name}: nothing came: {chain}")
    for tenant in scene["tenants"]:
        check(
            tenant["packets"] == tenant["answered"] + sum(tenant["absent"].values()) + tenant["in-flight"],
            f"{name}: {tenant}",
        )
        if tenant["name"] in ("neighbour", "mortal"):
            continue
        check(tenant["state"] == "attached" and tenant["attached"] == 1, f"{name}: {tenant}")
        check(tenant["runs-on"].startswith(place), f"{name}: {tenant} is not on {place}") if not scene[
            "name"
        ].startswith("in its process") else None
        wanted = tenant["batches"] if tenant["runs-on"] != "process" else 0
        check(tenant["gpu-batches"] == wanted and tenant["batches"] > 0, f"{name}: {tenant} went elsewhere")
        if scene["part"] == "domains" or scene["name"].endswith("in its chain"):
            check(tenant["chain-batches"] == wanted, f"{name}: {tenant} was not in one piece with its chain")
killed = next(scene for scene in scenes if scene["name"] == "SIGKILL")
mortal = next(tenant for tenant in killed["tenants"] if tenant["name"] == "mortal")
check(
    mortal["attached"] == 2 and mortal["misdeeds"].get("gone") == 1,
    f"it was not killed, or did not come back: {mortal}",
)
if not on_gpu:
    check(figure("victim", "alone, p99") > 0, "the victim has no packets")
    flood = next(scene for scene in scenes if scene["name"].endswith("nobody asked for"))
    misdeeds = next(tenant for tenant in flood["tenants"] if tenant["name"] == "neighbour")["misdeeds"]
    check(misdeeds.get("unasked", 0) > 8, f"nothing was sent that nobody asked for: {misdeeds}")
    endless = next(scene for scene in scenes if scene["name"].endswith("never ends"))
    misdeeds = next(tenant for tenant in endless["tenants"] if tenant["name"] == "neighbour")["misdeeds"]
    check(misdeeds.get("late", 0) + misdeeds.get("wrong", 0) > 0, f"what never ends did: {misdeeds}")

done = subprocess.run(
    [*emulated, millrace, "bench", "tenants", "--device", device, "--chain", "nids"], capture_output=True, text=True
)
check(done.returncode == 1 and "no function of this benchmark" in done.stderr, done.stderr)

summary = f"{len(made['figures'])} figures, {len(scenes)} scenes: every packet is accounted for"
if on_gpu:
    print(summary)
    sys.exit(0)

mixes = [mix for mix in made["mixes"] if "refused" not in mix]
check(0 <= figure("mixes", "intervals in which promises were kept") <= 100, "no share")
check(len(mixes) == 2, f"{len(mixes)} mixes")
for mix in mixes:
    check(
        2 <= len(mix["tenants"]) <= 8 and len({tenant["tenant"] for tenant in mix["tenants"]}) == len(mix["tenants"]),
        mix,
    )
    for tenant in mix["tenants"]:
        check(0 < tenant["offered"] <= tenant["rate"] and tenant["intervals"] + tenant["beyond"] > 0, tenant)


def tenants_of(mixes):
    return [[tenant["tenant"] for tenant in mix["tenants"]] for mix in mixes]


# The same mixes come of the same seed, wherever they run, and the other parts are left out.
some, _ = bench("some", "--only", "mixes", "--seconds", "60")
check({one["part"] for one in some["figures"]} == {"mixes"}, "--only does not leave out others")
check(tenants_of(some["mixes"])[:1] == tenants_of(made["mixes"])[:1], "a seed gives other mixes the next time")

# Told to stop it tells what it has, ends its tenants, and leaves nothing behind.
(folder / "tmp").mkdir()
bench_process = subprocess.Popen(
    [
        *emulated, millrace, "bench", "tenants", "--device", device, "--workers", "1", "--rules", "20", "--routes",
        "20", *FUNCTIONS, "--only", "mixes", "--call-thread", "--json", folder / "stopped.json",
    ],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    env={**os.environ, "TMPDIR": str(folder / "tmp")},
)
told = ""
for line in bench_process.stderr:
    told += line
    if "mixes: 1 of" in line:
        break
children = subprocess.run(
    ["ps", "-o", "pid=", "--ppid", str(bench_process.pid)], capture_output=True, text=True
).stdout.split()
bench_process.send_signal(signal.SIGINT)
out, rest = bench_process.communicate(timeout=60)
told += rest
check(
    bench_process.returncode == 1 and "stopped before its end" in out,
    f"stopped, it ends with {bench_process.returncode}:\n{out}\n{told[-3000:]}",
)
stopped = json.loads((folder / "stopped.json").read_text())
check(stopped["stopped"], "the JSON does not say that it was stopped")
check(stopped["call-thread"] and not made["call-thread"], "the JSON does not say who calls the driver")
check(
    len(children) >= 8 and not any(pathlib.Path(f"/proc/{child}").exists() for child in children),
    f"tenants are left: {children}",
)
check(not any((folder / "tmp").iterdir()), "temporary files are left")
print(summary)
