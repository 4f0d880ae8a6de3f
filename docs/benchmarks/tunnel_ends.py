#!/usr/bin/env python3
"""What a packet costs a core at the near end of tunnels, by their kind and number, as JSON.
usage: tunnel_ends.py MILLRACE FILE.json

Frames of 64 B come from the source, of 65,536 flows. Their destinations, all of 10.0.0.0/8, are shared out among the
tunnels. Each packet is wrapped by one of them: the script fails where one is not. Best of three runs.
"""
import sys

import one_core

MACS = "macs: {dst: '02:00:00:00:00:01', src: '02:00:00:00:00:02'}"
KINDS = {
    "gre": lambda i: f"gre, key: {i}", "vxlan": lambda i: f"vxlan, vni: {i}, {MACS}",
    "geneve": lambda i: f"geneve, vni: {i}, {MACS}", "gtp-u": lambda i: f"gtp-u, teid-in: {i + 1}, teid-out: {i + 1}",
}
COUNTS = (1, 16, 256, 1024, 16384)
PACKETS = 2_000_000


def configuration(kind, count):
    text = (
        "version: 1\nports:\n  in: "
        "{source: {size: 64, flows: 65536, addresses: {src: 192.168.0.0/16, dst: 10.0.0.0/8}, "
        f"count: {PACKETS}}}}}\n  out: {{sink: {{}}}}\nchains:\n  c: {{input: in, output: out, nfs: [tunnel: {{\n"
        "    local: 192.0.2.1, tunnels: {\n"
    )
    bits = (count - 1).bit_length()
    for i in range(count):
        first = i << (24 - bits)
        text += (f"      t{i}: {{kind: {KINDS[kind](i)}, remote: 198.18.{i >> 8}.{i & 255}, "
                 f"to: 10.{first >> 16 & 255}.{first >> 8 & 255}.{first & 255}/{8 + bits}}},\n")
    return text + "    }}]}\n"


def cycles(millrace, folder, kind, count):
    best, text = None, configuration(kind, count)
    for _ in range(3):
        chain = one_core.report(millrace, folder, text)["chains"][0]
        wrapped = chain["nfs"][0]["outcomes"]["wrapped"]["packets"]
        if wrapped != PACKETS:
            sys.exit(f"{kind}, {count} tunnels: {wrapped} of {PACKETS} packets were wrapped")
        each = chain["nfs"][0]["cycles-per-packet"]
        best = each if best is None else min(best, each)
    return round(best, 1)


if __name__ == "__main__":
    one_core.record("tunnel_ends.py", __doc__, "cycles-per-packet-by-tunnels", lambda millrace, folder: {
        kind: {count: cycles(millrace, folder, kind, count) for count in COUNTS} for kind in KINDS})
