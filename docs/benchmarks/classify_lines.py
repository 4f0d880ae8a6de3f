#!/usr/bin/env python3
"""The rate of one core by the number of lines below `classify:`, as JSON. usage: classify_lines.py MILLRACE FILE.json

Frames of 64 B come from the source, of 1,000 flows, and match the last line: a walk would meet all of them. Without
lines one chain has the port; with them two chains share it, each a firewall and a router. Best of three runs.
"""
import one_core

NFS = (
    "[{firewall: {rules: [deny tcp from any to any port 22], default: permit}}, "
    "{router: {next-hops: {a: {mac: '02:00:00:00:00:0a', "
    "src-mac: '02:00:00:00:00:01', port: out}}, routes: [{prefix: 0.0.0.0/0, via: a}]}}]"
)


def configuration(lines, packets):
    text = f"version: 1\nports:\n  in: {{source: {{size: 64, flows: 1000, count: {packets}}}}}\n"
    text += "  out: {sink: {}}\nchains:\n"
    for chain in range(min(max(lines, 1), 2)):
        text += f"  c{chain}: {{output: out, nfs: {NFS}}}\n"
    text += "classify:\n"
    for i in range(lines):
        text += (f"  - {{match: {{dst: 10.{i // 256 % 256}.{i % 256}.0/24, protocol: udp, dst-port: {1000 + i}}}, "
                 f"chain: c{i % 2 if lines > 1 else 0}}}\n")
    return text + "  - {match: {port: in}, chain: c0}\n"


def rate(millrace, folder, lines):
    """In millions of packets a second. Long enough to count, however slow it is."""
    packets, best = 100_000, 0
    for _ in range(4):
        report = one_core.report(millrace, folder, configuration(lines, packets))
        best = max(best, sum(chain["sent-packets"] for chain in report["chains"]) / report["seconds"] / 1e6)
        packets = min(20_000_000, max(1000, int(best * 1e6)))
    return round(best, 3)


if __name__ == "__main__":
    one_core.record("classify_lines.py", __doc__, "mpkt-per-s-by-lines", lambda millrace, folder: {
        lines: rate(millrace, folder, lines) for lines in (0, 1, 10, 100, 1000, 10000)})
