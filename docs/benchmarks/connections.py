#!/usr/bin/env python3
"""A capture of TCP connections that move their windows: connections.py FILE CONNECTIONS

Each of CONNECTIONS is opened, carries segments of 10 B from the server to the client, each second of which is
acknowledged, and is closed: 64 packets, or more where there are fewer than 1,024 connections. They come in turn, 8
packets at a time. Frames have 60 to 66 B. Sent over and over, a connection is opened anew each time."""
import struct
import sys

MACS = bytes.fromhex("020000000002020000000001")
PAYLOAD = b"ten bytes."
FIN, SYN, ACK = 1, 2, 16
BURST, FEWEST, PACKETS = 8, 64, 65536
OPTIONS = bytes([2, 4, 5, 180, 1, 3, 3, 7])  # segments of 1,460 B, windows times 128


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame(source, destination, ports, seq, ack, flags, options=b"", payload=b""):
    length = 20 + len(options) + len(payload)
    tcp = struct.pack("!HHIIBBHHH", *ports, seq, ack, (20 + len(options)) << 2, flags, 0xFFFF, 0, 0)
    tcp += options + payload
    total = checksum(source + destination + struct.pack("!HH", 6, length) + tcp)
    tcp = tcp[:16] + struct.pack("!H", total) + tcp[18:]
    header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + length, 0, 0x4000, 64, 6, 0) + source + destination
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return (MACS + b"\x08\x00" + header + tcp).ljust(60, b"\0")


def connection(number, packets):
    """The frames of one, which are so many."""
    ends = struct.pack("!I", 0x0A000001 + number), bytes([192, 0, 2, number & 255])
    ports = 1024 + number % 60000, 80
    numbers = [number * 2654435761 & 0xFFFFFFFF, ~number & 0xFFFFFFFF]  # of the client's next byte, the server's

    def send(side, flags, options=b"", payload=b""):
        other = 1 - side
        ack = numbers[other] if flags & ACK else 0
        made = frame(ends[side], ends[other], (ports[side], ports[other]), numbers[side], ack, flags, options, payload)
        numbers[side] = (numbers[side] + len(payload) + bool(flags & (SYN | FIN))) & 0xFFFFFFFF
        return made

    yield send(0, SYN, OPTIONS)
    yield send(1, SYN | ACK, OPTIONS)
    yield send(0, ACK)
    for i in range(packets - 6):
        yield send(0, ACK) if i % 3 == 2 else send(1, ACK, payload=PAYLOAD)
    yield send(1, FIN | ACK)
    yield send(0, FIN | ACK)
    yield send(1, ACK)


def main():
    path, connections = sys.argv[1], int(sys.argv[2])
    packets = max(FEWEST, PACKETS // connections)
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        all_of_them = [connection(number, packets) for number in range(connections)]
        for _ in range(0, packets, BURST):
            for each in all_of_them:
                for _, made in zip(range(BURST), each):
                    out.write(struct.pack("<IIII", 0, 0, len(made), len(made)) + made)


main()
