#!/usr/bin/env python3
"""docs/tenants.md can be followed: its chain stands in the example, and its commands do what it says, one after the
other, with a tenant of another user. usage: tenant_tutorial.py MILLRACE SOURCE. Exit status 77: skipped."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

millrace, source = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
if os.geteuid() != 0 or not shutil.which("setpriv"):
    print("SKIPPED: only root can be another user, and needs 'setpriv'")
    sys.exit(77)
page = (source / "docs/tenants.md").read_text()
tutorial = page.partition("## Try it")[2].partition("\n## ")[0]
block = re.search(r"^```yaml\n(.*?)^```$", tutorial, re.MULTILINE | re.DOTALL)[1]
commands = [
    re.sub(r"\\\n\s*", "", text)
    for text in re.findall(r"^    ((?:[^\n]*\\\n)*[^\n]*)$", tutorial.replace(block, ""), re.MULTILINE)
]


def lines_of(text):
    return [line for line in (re.sub(r"\s*#.*", "", line).strip() for line in text.splitlines()) if line]


rest = iter(lines_of((source / "examples/tenant.yaml").read_text()))
missing = [line for line in lines_of(block) if line not in rest]
if missing:
    print(f"FAILED: docs/tenants.md has '{missing[0]}', and examples/tenant.yaml does not, or elsewhere")
    sys.exit(1)

folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-tenants-"))
# The tree may lie where only its owner looks.
(folder / "build").mkdir()
(folder / "examples").mkdir()
(folder / "acme").mkdir()
shutil.copy(millrace, folder / "build/millrace")
for name in ("tenant.yaml", "tenant-guard.yaml"):
    text = (source / "examples" / name).read_text().replace("/tmp/millrace-tenants.sock", f"{folder}/tenants.sock")
    (folder / "examples" / name).write_text(text)
subprocess.run(["chmod", "-R", "go+rX", folder], check=True)
shutil.chown(folder / "acme", "nobody")
group = subprocess.check_output(["id", "-g", "nobody"], text=True).strip()
as_nobody = f"setpriv --reuid nobody --regid {group} --clear-groups"
# A shell does all commands, and tells the status of each.
shell = subprocess.Popen(
    ["bash"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    start_new_session=True,
)


def do(command):
    for words, own in (
        ("sudo -u nobody", as_nobody), ("/tmp/millrace-tenants.sock", f"{folder}/tenants.sock"),
        ("/tmp/acme", f"{folder}/acme"),
    ):
        command = command.replace(words, own)
    quiet = " > acme/out 2>&1 &" if command.endswith("&") and ">" not in command else ""
    shell.stdin.write((command[:-1] + quiet if quiet else command) + "\necho \"status $?\"\n")
    shell.stdin.flush()
    out = []
    while not (line := shell.stdout.readline()).startswith("status "):
        if not line:
            raise SystemExit(f"FAILED: the shell ended with: {command}")
        out.append(line)
    return int(line.split()[1]), "".join(out)


def shown():
    status, out = do("build/millrace show tenants --json 2>&1")
    try:
        return json.loads(out)["tenants"][0] if status == 0 else {}
    except ValueError:
        return {}


def wait_for(what, holds):
    end = time.time() + 60
    while time.time() < end:
        if holds(tenant := shown()):
            return tenant
        time.sleep(0.02)
    raise SystemExit(
        f"FAILED: {what}, says docs/tenants.md, and that did not come to pass: {shown()} "
        f"{(folder / 'acme/out').read_text() if (folder / 'acme/out').exists() else ''}"
    )


def sentence(words):
    if words not in " ".join(tutorial.split()):
        raise SystemExit(f"FAILED: docs/tenants.md does not say any more: {words}")


nobody = int(subprocess.check_output(["id", "-u", "nobody"], text=True))
# What must have come to pass when a command of the tutorial has been done, by what stands in it.
steps = [
    (
        "build/millrace run",
        lambda: wait_for("the tenant is away", lambda t: t.get("state") == "away" and t["absent"].get("away", 0) > 0),
    ),
    (
        "sudo -u nobody build/millrace tenant",
        lambda: wait_for(
            "it is attached",
            lambda t: (
                t.get("state") == "attached"
                and t["user"] == nobody
                and t["answered"] > 500
                and t["promise"]["now"] == "kept"
            ),
        ),
    ),
    ("--once", None),
    ("process=$(", None),
    (
        "kill -STOP",
        lambda: wait_for(
            "it is detached as late",
            lambda t: t.get("state") == "late" and t["misdeeds"].get("late", 0) > 3 and t["promise"]["now"] == "rate",
        ),
    ),
    ("grep 'is detached' run.out", None),
    (
        "kill -CONT",
        lambda: wait_for(
            "it attaches again",
            lambda t: t.get("state") == "attached" and t["attached"] >= 2 and t["promise"]["now"] == "kept",
        ),
    ),
    ("kill -INT", None),
]
failed = []
try:
    done = 0
    for command in commands:
        status, out = do(command)
        if "--once" in command and (status != 1 or "may not be this tenant" not in out):
            failed.append(f"another user was not refused: {status} {out}")
        elif "grep" in command and "process=" not in command and f"(user {nobody}, process " not in out:
            failed.append(f"the run does not name the tenant: {out}")
        elif "--once" not in command and status != 0:
            failed.append(f"{command}: {status} {out}")
        if done < len(steps) and steps[done][0] in command:
            if steps[done][1]:
                steps[done][1]()
            done += 1
    if done < len(steps):
        failed.append(f"docs/tenants.md has no command with '{steps[done][0]}'; has its form changed?")
    for words in (
        "is `kept`", '"the rate is broken"', "`absent: bypass`", "attaches again", "It is detached as `late`",
    ):
        sentence(words)
    do("wait %1")
    closing = (folder / "run.out").read_text()
    counts = re.search(
        r"chain gateway: ([\d,]+) in.*?chain gateway/firewall: ([\d,]+) in, ([\d,]+) sent", closing, re.DOTALL
    )
    denied = re.search(r"deny ([\d,]+) → drop", closing)
    if not counts or not denied:
        failed.append(f"the closing table has other words: {closing}")
    else:
        came, behind, sent = (int(text.replace(",", "")) for text in counts.groups())
        if came != behind + int(denied[1].replace(",", "")) or sent != behind:
            failed.append(f"packets were lost: {closing}")
finally:
    shell.stdin.close()
    os.killpg(shell.pid, signal.SIGKILL)
    shutil.rmtree(folder)
print("\n".join("FAILED: " + one for one in failed) or f"{len(commands)} commands of docs/tenants.md do what it says")
sys.exit(bool(failed))
