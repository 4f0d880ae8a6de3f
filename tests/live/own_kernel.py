#!/usr/bin/env python3
"""Runs a command on a Linux kernel of its own, in user mode (package user-mode-linux), for what this machine's can't
do.

    own_kernel.py COMMAND...

The command sees this machine's files; /run, the folder of temporary files and the network are its own, and end with
it. Exit status: the
command's; 77 where there is no such kernel.
"""
import ctypes
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

MODULES = """hmac sha512_generic jitterentropy_rng drbg seqiv echainiv authenc authencesn gcm ctr cbc ghash_generic
    xfrm_user esp4 esp6 tun veth dummy vrf""".split()
MEMORY = "1536M"
INIT_MODULE = 175  # the system call, on x86-64


def load_modules(folder):
    """Those of MODULES that the kernel has, behind what they need."""
    paths = {os.path.basename(path)[:-3].replace("-", "_"): path
             for path in glob.glob(folder + "/**/*.ko", recursive=True)}
    libc = ctypes.CDLL(None, use_errno=True)

    def load(name):
        path = paths.pop(name.replace("-", "_"), None)
        if path is None:
            return
        with open(path, "rb") as file:
            image = file.read()
        depends = re.search(rb"\0depends=([^\0]*)\0", image)
        for other in depends.group(1).decode().split(",") if depends else []:
            load(other)
        if libc.syscall(INIT_MODULE, image, ctypes.c_ulong(len(image)), b"") != 0:
            print(f"module {name}: {os.strerror(ctypes.get_errno())}")

    for name in MODULES:
        load(name)


def inside():
    """As the first process of that kernel."""
    folder = os.environ["OWN_KERNEL"]
    with open(folder + "/job") as file:
        job = json.load(file)
    with open(folder + "/status", "w") as status:
        for kind, place in (("proc", "/proc"), ("sysfs", "/sys"), ("tmpfs", "/run"),
                            ("tmpfs", folder + "/tmp")):
            subprocess.run(["mount", "-t", kind, kind, place], check=True)
        load_modules("/usr/lib/uml/modules/" + os.uname().release)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        os.chdir(job["folder"])
        status.write(str(subprocess.run(job["command"], env=job["environment"]).returncode))
    with open("/proc/sysrq-trigger", "w") as trigger:
        trigger.write("o")
    signal.pause()


def main():
    program = shutil.which("linux.uml")
    if program is None or os.geteuid() != 0:
        print("SKIPPED: needs root and a kernel in user mode: apt install user-mode-linux")
        return 77
    with tempfile.TemporaryDirectory(prefix="millrace-kernel-") as folder:
        os.mkdir(folder + "/tmp")
        environment = dict(os.environ, TMPDIR=folder + "/tmp", TEST_TMPDIR=folder + "/tmp")
        with open(folder + "/job", "w") as file:
            json.dump({"command": sys.argv[1:], "folder": os.getcwd(), "environment": environment}, file)
        kernel = subprocess.Popen(
            [program, "mem=" + MEMORY, "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw", "quiet", "selinux=0",
             "con=null", "con0=fd:0,fd:1", "uml_dir=" + folder + "/", "umid=kernel",
             "init=" + os.path.abspath(__file__), "OWN_KERNEL=" + folder],
            stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

        def end(*_):
            os.killpg(kernel.pid, signal.SIGKILL)

        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, end)
        kernel.wait()
        with open(folder + "/status") as file:
            said = file.read()
    return int(said) if said else 1


if os.getpid() == 1:
    inside()
else:
    sys.exit(main())
