#!/usr/bin/env python3
"""Draws the pictures of docs/architecture*: draw.py FOLDER writes architecture.svg, order.svg, transfer.svg and
resident.svg there."""
import pathlib
import sys

PORT, CPU, DEVICE, PLAIN = "#dbe9f6", "#e9f3df", "#fbeedb", "#eeeeee"
# A picture: size; frames (x, y, width, height, label); boxes (x, y, width, height, title, small print, colour);
# arrows (x1, y1, x2, y2, label); texts (x, y, text).
PICTURES = {
    "architecture": {
        "size": (1020, 390),
        "frames": [
            (155, 20, 710, 220, "worker, one per core"),
            (155, 275, 560, 100, "one generation; the next takes over live"),
        ],
        "boxes": [
            (20, 120, 110, 70, "ports", ["DPDK, captures,", "traffic source"], PORT),
            (170, 120, 130, 70, "classification", ["packet → chain"], CPU),
            (340, 120, 110, 70, "batcher", ["max-delay,", "max-batch"], CPU),
            (490, 40, 210, 70, "cpu", ["in place, 256 packets at a time;", "CPU halves"], DEVICE),
            (
                490, 130, 210, 90, "sim · cuda",
                [
                    "shared packet buffer, four batches", "in flight, one kernel for the chain,",
                    "only declared fields cross the bus",
                ],
                DEVICE,
            ),
            (740, 120, 110, 70, "verdicts", ["next, drop, port,", "chain, punt"], CPU),
            (890, 120, 110, 70, "ports", ["DPDK, captures,", "sink"], PORT),
            (170, 305, 130, 60, "YAML", ["chain and NF options"], PLAIN),
            (340, 305, 110, 60, "host halves", ["tables, state"], PLAIN),
            (490, 305, 210, 60, "program", ["tables, field plan, kernel", "source → NVRTC"], PLAIN),
        ],
        "arrows": [
            (130, 155, 170, 155, ""), (300, 155, 340, 155, ""), (450, 145, 490, 80, ""), (450, 165, 490, 175, ""),
            (700, 80, 740, 145, ""), (700, 175, 740, 165, ""), (850, 155, 890, 155, ""), (300, 335, 340, 335, ""),
            (450, 335, 490, 335, ""), (595, 305, 595, 222, ""),
        ],
        "texts": [],
    },
    "order": {
        "size": (1020, 330),
        "frames": [
            (20, 20, 980, 90, "batch 1, of worker 1"), (20, 120, 980, 90, "batch 2, of worker 2, launched after it"),
            (20, 220, 980, 90, "batch 3, of a chain with other state: it waits for nobody"),
        ],
        "boxes": [
            (40, 50, 150, 50, "firewall", [], DEVICE), (210, 50, 130, 50, "NIDS", ["state of flows"], PORT),
            (360, 50, 130, 50, "router", [], DEVICE), (510, 50, 130, 50, "IPsec", ["numbers"], PORT),
            (660, 50, 150, 50, "IPsec", ["encrypts"], DEVICE), (40, 150, 150, 50, "firewall", [], DEVICE),
            (360, 150, 130, 50, "NIDS", ["state of flows"], PORT), (510, 150, 130, 50, "router", [], DEVICE),
            (660, 150, 130, 50, "IPsec", ["numbers"], PORT), (810, 150, 150, 50, "IPsec", ["encrypts"], DEVICE),
            (40, 250, 150, 50, "firewall", [], DEVICE), (210, 250, 130, 50, "policer", ["state of sources"], PORT),
            (360, 250, 130, 50, "router", [], DEVICE),
        ],
        "arrows": [
            (190, 75, 210, 75, ""), (340, 75, 360, 75, ""), (490, 75, 510, 75, ""), (640, 75, 660, 75, ""),
            (190, 175, 360, 175, "waits"), (490, 175, 510, 175, ""), (640, 175, 660, 175, ""),
            (790, 175, 810, 175, ""), (190, 275, 210, 275, ""), (340, 275, 360, 275, ""), (340, 100, 360, 150, ""),
            (640, 100, 660, 150, ""),
        ],
        "texts": [],
    },
    "transfer": {
        "size": (1020, 330),
        "frames": [
            (20, 20, 330, 290, "host memory"), (400, 20, 340, 290, "piece of the packet ring, in GPU memory"),
            (790, 20, 210, 290, "pinned host memory"),
        ],
        "boxes": [
            (40, 55, 290, 50, "receive buffers", ["mbufs of the ports"], PORT),
            (40, 125, 290, 50, "receive block", ["contiguous frames"], PORT),
            (40, 240, 290, 50, "head", ["descriptors, chain, sequence"], CPU),
            (420, 55, 300, 50, "frames", ["each with the room that the chain may add"], DEVICE),
            (420, 125, 300, 50, "staged frames", ["as they were received"], DEVICE),
            (420, 240, 300, 50, "results · states · events", ["12 B a packet; counters; first events"], DEVICE),
            (810, 110, 170, 110, "result buffer", ["lent to mbufs; the last", "packet freed gives it back"], CPU),
        ],
        "arrows": [
            (330, 80, 420, 80, "rows, gather"), (330, 150, 420, 150, "one copy"), (570, 125, 570, 105, "scatter"),
            (330, 265, 420, 265, "one copy"), (740, 165, 810, 165, "one copy"),
        ],
        "texts": [],
    },
    "resident": {
        "size": (1020, 300),
        "frames": [
            (20, 20, 220, 260, "worker"), (290, 20, 220, 260, "pinned host memory"),
            (560, 20, 440, 260, "GPU: one resident kernel, up to four teams"),
        ],
        "boxes": [
            (40, 70, 180, 60, "submit", ["writes a batch, then READY"], CPU),
            (40, 180, 180, 60, "complete", ["sees DONE, sends packets"], CPU),
            (310, 60, 180, 40, "place 1: READY", [], PORT),
            (310, 110, 180, 40, "place 2: DONE", [], PORT),
            (310, 160, 180, 40, "place 3: READY", [], PORT),
            (310, 210, 180, 40, "place 4: FREE", [], PORT),
            (580, 60, 180, 80, "team 1", ["a leading block polls its place;", "others join for large batches"], DEVICE),
            (800, 60, 180, 80, "team 2", ["works on another batch", "at the same time"], DEVICE),
            (
                580, 170, 400, 80, "one batch",
                ["fetch frames → network functions → meet where there is", "an order → write results, then DONE"],
                DEVICE,
            ),
        ],
        "arrows": [
            (220, 100, 310, 80, ""), (490, 80, 580, 90, ""), (310, 130, 220, 205, ""), (670, 140, 670, 170, ""),
            (890, 140, 890, 170, ""), (580, 220, 490, 135, ""),
        ],
        "texts": [],
    },
}


def svg(picture):
    width, height = picture["size"]
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'text-anchor="middle">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#444"/></marker></defs>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for x, y, w, h, label in picture["frames"]:
        out.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="8" fill="none" stroke="#999" stroke-dasharray="5 4"/>'
        )
        out.append(f'<text x="{x + 10}" y="{y + 20}" font-size="13" fill="#666" text-anchor="start">{label}</text>')
    for x, y, w, h, title, lines, colour in picture["boxes"]:
        out.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="{colour}" stroke="#444"/>')
        top = y + h / 2 - 7 * len(lines) + 4
        out.append(f'<text x="{x + w / 2:g}" y="{top:g}" font-size="14" font-weight="bold">{title}</text>')
        for number, line in enumerate(lines, 1):
            out.append(f'<text x="{x + w / 2:g}" y="{top + 16 * number:g}" font-size="11" fill="#333">{line}</text>')
    for x1, y1, x2, y2, label in picture["arrows"]:
        out.append(
            f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#444" stroke-width="1.6" marker-end="url(#tip)"/>'
        )
        if label:
            upright = x1 == x2
            out.append(
                f'<text x="{(x1 + x2) / 2 + (28 if upright else 0):g}" y="{(y1 + y2) / 2 + (4 if upright else -6):g}" '
                f'font-size="11" fill="#333">{label}</text>'
            )
    for x, y, text in picture["texts"]:
        out.append(f'<text x="{x}" y="{y}" font-size="12" fill="#333">{text}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    for name, picture in PICTURES.items():
        (pathlib.Path(sys.argv[1]) / f"{name}.svg").write_text(svg(picture), encoding="utf-8")


if __name__ == "__main__":
    main()
