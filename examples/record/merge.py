"""Merges the captures of the LAN and of the guests by time, as they would pass on one trunk port.

    merge.py lan.pcap guest.pcap output.pcap

Frames of the guests get an 802.1Q tag with VLAN 10. Classic little-endian pcap files in and out.
"""
import struct
import sys

GUEST_TAG = b"\x81\x00\x00\x0a"


def records(path, tag):
    with open(path, "rb") as file:
        data = file.read()
    assert data[:4] == b"\xd4\xc3\xb2\xa1", f"{path} is not a little-endian pcap file with microseconds"
    at = 24
    while at + 16 <= len(data):
        seconds, micros, captured, original = struct.unpack_from("<IIII", data, at)
        assert captured == original, "a frame was cut"
        frame = data[at + 16:at + 16 + captured]
        yield (seconds, micros), frame[:12] + tag + frame[12:]
        at += 16 + captured


lan, guest, output = sys.argv[1:]
merged = sorted([*records(lan, b""), *records(guest, GUEST_TAG)], key=lambda record: record[0])
with open(output, "wb") as file:
    file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
    for (seconds, micros), frame in merged:
        file.write(struct.pack("<IIII", seconds, micros, len(frame), len(frame)) + frame)
