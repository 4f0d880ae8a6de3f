#!/usr/bin/env python3
"""From saving the tutorial's function to packets that pass through it, by `millrace nf watch`, as JSON: milliseconds of
the clock, and of processors' time.
usage: save_to_packets.py PREFIX/bin/millrace FILE.json        (`make install PREFIX=…` before)

cold: nothing is built; the watch starts, reads Millrace's headers for the first time, builds, and runs a chain, which
ends after 100 packets. warm: a chain runs; device.hpp is saved with a change, built, tested by its table, and is at
work in the chain: the least and the most of five saves.
"""
import pathlib
import shutil
import signal
import subprocess
import sys
import time

import one_core

SAVES = 5
TREE = pathlib.Path(__file__).resolve().parents[2] / "examples/nf-ttl-guard"
TICKS_MS = 10  # of /proc
CHAIN = ("version: 1\nports: {a: {source: {SOURCE}}, b: {sink: {}}}\nchains:\n"
         "  guarded: {input: a, output: b, nfs: [ttl-guard: {least: 1}]}\n")


class Watch:
    """`nf watch` of the plugin in `folder`, with a chain from this source."""

    def __init__(self, millrace, folder, source):
        (folder / "guarded.yaml").write_text(CHAIN.replace("SOURCE", source))
        self.said = folder / "said"
        self.heard = 0
        with self.said.open("w") as out:
            self.process = subprocess.Popen(
                [millrace, "nf", "watch", "ttl/ttl-guard.so", "--test", "sources/golden.yaml", "--run", "guarded.yaml"],
                cwd=folder, stdout=out, stderr=out)

    def spent_ms(self):
        """Of a processor, by it and all that it has started and that has ended."""
        words = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return TICKS_MS * sum(map(int, words[11:15]))

    def hear(self, words):
        while words not in (said := self.said.read_text())[self.heard:]:
            if self.process.poll() is not None or "did not pass" in said or "was not built" in said:
                sys.exit(f"save_to_packets.py: the watch said:\n{said}")
            time.sleep(0.005)
        self.heard = len(said)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def measured(watch, begin, spent, words):
    watch.hear(words)
    return {"ms": round(1000 * (time.monotonic() - begin)), "processor-ms": watch.spent_ms() - spent}


def measure(millrace, folder):
    millrace = pathlib.Path(millrace).resolve()
    shutil.copytree(TREE, folder / "sources")
    subprocess.run(
        ["cmake", "-S", "sources", "-B", "ttl", f"-DCMAKE_PREFIX_PATH={millrace.parents[1]}"], cwd=folder, check=True,
        stdout=subprocess.DEVNULL,
    )
    begin = time.monotonic()
    watch = Watch(millrace, folder, "count: 100")
    cold = measured(watch, begin, 0, "the chain ended with status 0")
    watch.end()

    device = folder / "sources/ttl_guard/device.hpp"
    sound = device.read_text()
    watch = Watch(millrace, folder, "rate: 20k")
    watch.hear("all passed")
    time.sleep(1)  # the chain starts
    warm = []
    for save in range(SAVES):
        begin, spent = time.monotonic(), watch.spent_ms()
        device.write_text(sound.replace("ttl < least", f"ttl < least || ttl == 24{save}"))
        warm.append(measured(watch, begin, spent, "is at work"))
    watch.end()
    by = lambda key: [one[key] for one in warm]
    return {
        "cold": cold, "warm": {key: {"least": min(by(key)), "most": max(by(key))} for key in ("ms", "processor-ms")},
    }


if __name__ == "__main__":
    one_core.record("save_to_packets.py", __doc__, "from-save-to-packets", measure)
