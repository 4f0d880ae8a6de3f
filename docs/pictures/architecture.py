#!/usr/bin/env python3
"""Draws docs/pictures/architecture.svg: architecture.py OUTPUT"""
import sys

BOXES = [  # x, y, width, height, title, small print, colour
    (20, 120, 110, 70, "ports", ["DPDK, captures,", "traffic source"], "#dbe9f6"),
    (170, 120, 130, 70, "classification", ["packet → chain"], "#e9f3df"),
    (340, 120, 110, 70, "batcher", ["max-delay,", "max-batch"], "#e9f3df"),
    (490, 40, 210, 70, "cpu", ["in place, 256 packets at a time;", "CPU halves"], "#fbeedb"),
    (490, 130, 210, 90, "sim · cuda", ["shared packet buffer, four batches", "in flight, one kernel for the chain,", "only declared fields cross the bus"], "#fbeedb"),
    (740, 120, 110, 70, "verdicts", ["next, drop, port,", "chain, punt"], "#e9f3df"),
    (890, 120, 110, 70, "ports", ["DPDK, captures,", "sink"], "#dbe9f6"),
    (170, 300, 130, 60, "YAML", ["chain and NF options"], "#eeeeee"),
    (340, 300, 110, 60, "host halves", ["tables, state"], "#eeeeee"),
    (490, 300, 210, 60, "program", ["tables, field plan, kernel", "source → NVRTC"], "#eeeeee"),
]
ARROWS = [(130, 155, 170, 155), (300, 155, 340, 155), (450, 145, 490, 80), (450, 165, 490, 175), (700, 80, 740, 145),
          (700, 175, 740, 165), (850, 155, 890, 155), (300, 330, 340, 330), (450, 330, 490, 330), (595, 300, 595, 222)]

out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1020 390" font-family="sans-serif" text-anchor="middle">',
       '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
       '<path d="M0,0 L8,4 L0,8 z" fill="#444"/></marker></defs>',
       '<rect width="1020" height="390" fill="#ffffff"/>',
       '<rect x="155" y="20" width="710" height="220" rx="8" fill="none" stroke="#999" stroke-dasharray="5 4"/>',
       '<text x="230" y="42" font-size="13" fill="#666">worker, one per core</text>',
       '<rect x="155" y="275" width="560" height="100" rx="8" fill="none" stroke="#999" stroke-dasharray="5 4"/>',
       '<text x="790" y="330" font-size="13" fill="#666">one generation; the</text>',
       '<text x="790" y="347" font-size="13" fill="#666">next takes over live</text>']
for x, y, width, height, title, lines, colour in BOXES:
    out.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{colour}" stroke="#444"/>')
    top = y + height / 2 - 7 * len(lines) + 3
    out.append(f'<text x="{x + width / 2:g}" y="{top:g}" font-size="15" font-weight="bold">{title}</text>')
    for number, line in enumerate(lines, 1):
        out.append(f'<text x="{x + width / 2:g}" y="{top + 16 * number:g}" font-size="11" fill="#333">{line}</text>')
for x1, y1, x2, y2 in ARROWS:
    out.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#444" stroke-width="1.6" marker-end="url(#tip)"/>')
out.append('<path d="M795,192 C795,265 235,265 235,194" fill="none" stroke="#444" stroke-width="1.4" stroke-dasharray="3 3" marker-end="url(#tip)"/>')
out.append('<text x="600" y="262" font-size="11.5" fill="#333">chain NAME</text></svg>')
with open(sys.argv[1], "w", encoding="utf-8") as file:
    file.write("\n".join(out) + "\n")
