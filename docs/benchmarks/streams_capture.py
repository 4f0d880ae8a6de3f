#!/usr/bin/env python3
"""A capture of HTTP-like connections, many at once, each from its SYN to its FINs: streams_capture.py OUT.pcap [HOW]

2,000 connections, 200 at a time, 48,000 frames; a request of about 400 B, and an answer of 14 kB in segments of 1,400
B. Words are those of a text that Debian and Ubuntu have. HOW answers are sent: as they are, or `chunked`, or `gzip`."""
import gzip
import random
import struct
import sys

WORDS = open("/usr/share/common-licenses/GPL-3", encoding="ascii").read().split()
CONNECTIONS, AT_ONCE, ANSWER, SEGMENT = 2000, 200, 14000, 1400
SYN, FIN_ACK, ACK, SYN_ACK, PSH_ACK = 0x02, 0x11, 0x10, 0x12, 0x18


def text(size):
    out = ""
    while len(out) < size:
        out += random.choice(WORDS) + " "
    return out[:size].encode()


def sent(body):
    """The fields that say how a body is sent, and the body so."""
    how = sys.argv[2] if len(sys.argv) > 2 else ""
    if how == "chunked":
        chunks = [body[at:at + 1000] for at in range(0, len(body), 1000)]
        return (b"Transfer-Encoding: chunked\r\n\r\n" +
                b"".join(b"%x\r\n" % len(chunk) + chunk + b"\r\n" for chunk in chunks) + b"0\r\n\r\n")
    fields = b""
    if how == "gzip":
        fields, body = b"Content-Encoding: gzip\r\n", gzip.compress(body, mtime=0)
    return fields + b"Content-Length: %d\r\n\r\n" % len(body) + body


def frame(src, dst, src_port, dst_port, seq, ack, flags, payload=b""):
    tcp = struct.pack("!HHIIBBHHH", src_port, dst_port, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, 0x50, flags, 60000, 0, 0)
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, 40 + len(payload), 1, 0x4000, 64, 6, 0, src, dst)
    total = sum(struct.unpack("!10H", ip))
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    ip = ip[:10] + struct.pack("!H", ~total & 0xFFFF) + ip[12:]
    return bytes.fromhex("020000000002020000000001 0800") + ip + tcp + payload


def connection(number):
    client, server, port = 0x0A010000 + number, 0xC0A80001 + number % 50, 40000 + number % 20000
    seq = [random.getrandbits(32), random.getrandbits(32)]

    def say(side, flags, payload=b""):
        ends = (client, server, port, 80) if side == 0 else (server, client, 80, port)
        ack = seq[1 - side] if flags & ACK else 0
        made = frame(*ends, seq[side], ack, flags, payload)
        seq[side] += len(payload) + (1 if flags & 0x03 else 0)
        return made

    yield say(0, SYN)
    yield say(1, SYN_ACK)
    yield say(0, ACK)
    path = text(60).replace(b" ", b"/")
    yield say(
        0, PSH_ACK,
        b"GET /" + path + b" HTTP/1.1\r\nHost: www.example.org\r\nUser-Agent: Mozilla/5.0 (X11; Linux "
        b"x86_64) AppleWebKit/537.36\r\nAccept: */*\r\nCookie: " + text(150) + b"\r\n\r\n",
    )
    answer = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: text/html\r\n" + sent(text(ANSWER))
    for at in range(0, len(answer), SEGMENT):
        yield say(1, PSH_ACK, answer[at:at + SEGMENT])
        if at % (2 * SEGMENT) == 0:
            yield say(0, ACK)
    yield say(0, FIN_ACK)
    yield say(1, FIN_ACK)
    yield say(0, ACK)


def main():
    random.seed(1)
    frames, waiting = [], [list(connection(i)) for i in range(CONNECTIONS)]
    waiting.reverse()
    active = []
    while waiting or active:
        while waiting and len(active) < AT_ONCE:
            active.append(waiting.pop()[::-1])
        at = random.randrange(len(active))
        frames.append(active[at].pop())
        if not active[at]:
            active.pop(at)
    with open(sys.argv[1], "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for number, one in enumerate(frames):
            out.write(struct.pack("<IIII", 1, number, len(one), len(one)) + one)
    print(len(frames), "frames,", sum(map(len, frames)) // len(frames), "B on average")


main()
