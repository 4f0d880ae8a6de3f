#!/usr/bin/env python3
"""How soon a change of a route is in the data plane, and whether packets to others are lost meanwhile.

A thread in the client's namespace sends datagrams to an address all the time, each with its number; one in the server's
notes which arrive. In the router's namespace a route of the kernel changes between `blackhole` and a gateway, by
netlink messages, which say when the kernel has it; or comes and goes.

usage: convergence.py change|come CLIENT MIDDLE SERVER ADDRESS GATEWAY ROUNDS
       convergence.py stream CLIENT SERVER ADDRESS SECONDS RATE
       convergence.py burst MIDDLE SECONDS RATE [stay]
The last one has the kernel take routes to 5,000 prefixes and give them up again, RATE changes a second if it can; with
`stay` it has them at the end.
"""

import ctypes
import json
import os
import socket
import statistics
import struct
import sys
import threading
import time

CLONE_NEWNET = 0x40000000
PORT = 4000
NLM_F_REQUEST, NLM_F_ACK, NLM_F_REPLACE, NLM_F_CREATE = 1, 4, 0x100, 0x400
RTM_NEWROUTE, RTM_DELROUTE = 24, 25
RTN_UNICAST, RTN_BLACKHOLE = 1, 6
PAUSE_SECONDS = 0.15  # between changes
LATE_SECONDS = 1.0  # for what is still under way at the end


def enter(namespace):
    """Of the calling thread; sockets stay in the namespace where they were opened."""
    with open(f"/run/netns/{namespace}", "rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"can't enter {namespace}")


def socket_in(namespace, *kind):
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        enter(namespace)
        return socket.socket(*kind)
    finally:
        ctypes.CDLL(None).setns(home, CLONE_NEWNET)
        os.close(home)


class Receiver:
    """Notes the numbers of datagrams that arrive, and which is the greatest."""

    def __init__(self, namespace, address):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.socket = socket_in(namespace, family, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind((address, PORT))
        self.socket.settimeout(0.2)
        self.seen = set()
        self.stopping = False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.stopping:
            try:
                self.seen.add(struct.unpack("!Q", self.socket.recv(2048)[:8])[0])
            except socket.timeout:
                pass

    def stop(self):
        self.stopping = True
        self.thread.join()


class Sender:
    """Sends datagrams of 100 bytes at a rate, each with its number, and knows when each left."""

    def __init__(self, namespace, address, rate):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.socket = socket_in(namespace, family, socket.SOCK_DGRAM)
        self.to = (address, PORT)
        self.pause = 1 / rate
        self.times = []
        self.stopping = False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        due = time.monotonic()
        while not self.stopping:
            number = len(self.times)
            try:
                self.times.append(time.monotonic())
                self.socket.sendto(struct.pack("!Q", number) + bytes(92), self.to)
            except OSError:  # an ICMP error of before
                pass
            due += self.pause
            wait = due - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            elif wait < -0.1:
                due = time.monotonic()


def route_message(kind, address, gateway, number, length=None, message=RTM_NEWROUTE,
                  flags=NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE):
    def attribute(which, value):
        return struct.pack("=HH", 4 + len(value), which) + value
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    body = struct.pack("=BBBBBBBBI", family, length or 8 * len(packed), 0, 0, 254, 4, 0, kind, 0) + attribute(1, packed)
    if kind == RTN_UNICAST:
        body += attribute(5, socket.inet_pton(family, gateway))
    return struct.pack("=IHHII", 16 + len(body), message, flags, number, 0) + body


class Router:
    """The kernel's table in a namespace."""

    def __init__(self, namespace):
        self.socket = socket_in(namespace, socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self.number = 0

    def set(self, kind, address, gateway):
        """Returns when the kernel has it, and the moment before it was asked."""
        return self.ask(route_message(kind, address, gateway, self.number + 1))

    def delete(self, address):
        return self.ask(route_message(0, address, "", self.number + 1, None, RTM_DELROUTE, NLM_F_REQUEST | NLM_F_ACK))

    def ask(self, message):
        self.number += 1
        before = time.monotonic()
        self.socket.send(message)
        answer = self.socket.recv(4096)
        error = struct.unpack_from("=i", answer, 16)[0]
        if error:
            raise OSError(-error, os.strerror(-error))
        return before


def change(client, middle, server, address, gateway, rounds, comes=False):
    receiver, sender, router = Receiver(server, address), Sender(client, address, 5000), Router(middle)
    router.set(RTN_BLACKHOLE, address, gateway)
    if comes:
        router.delete(address)
    sender.thread.start()
    moments = []
    for _ in range(rounds):
        time.sleep(PAUSE_SECONDS)
        moments.append(router.set(RTN_UNICAST, address, gateway))
        time.sleep(PAUSE_SECONDS)
        if comes:
            router.delete(address)
        else:
            router.set(RTN_BLACKHOLE, address, gateway)
    time.sleep(0.1)
    sender.stopping = True
    sender.thread.join()
    receiver.stop()
    delays = []
    arrived = sorted(sender.times[number] for number in receiver.seen)
    for moment in moments:
        first = next((at for at in arrived if at >= moment), None)
        delays.append(1e3 * (first - moment) if first is not None and first < moment + PAUSE_SECONDS else 1e9)
    delays.sort()
    return {"rounds": rounds, "median-ms": statistics.median(delays), "least-ms": delays[0],
            "p90-ms": delays[len(delays) * 9 // 10], "most-ms": delays[-1]}


def stream(client, server, address, seconds, rate):
    receiver, sender = Receiver(server, address), Sender(client, address, rate)
    sender.thread.start()
    time.sleep(seconds)
    sender.stopping = True
    sender.thread.join()
    time.sleep(LATE_SECONDS)
    receiver.stop()
    return {"sent": len(sender.times), "lost": len(sender.times) - len(receiver.seen)}


def burst(middle, seconds, rate, stays=False):
    kernel = socket_in(middle, socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
    at_once, pieces = 100, []
    for message, flags in ((RTM_NEWROUTE, NLM_F_REQUEST | NLM_F_CREATE), (RTM_DELROUTE, NLM_F_REQUEST)):
        all_of_it = [route_message(RTN_BLACKHOLE, f"100.{64 + i // 250}.{i % 250}.0", "", 0, 24, message, flags)
                     for i in range(5000)]
        pieces += [b"".join(all_of_it[i:i + at_once]) for i in range(0, len(all_of_it), at_once)]
    done, begin = 0, time.monotonic()
    end = len(pieces) * at_once // 2 if stays else 0
    while time.monotonic() < begin + seconds or done % (len(pieces) * at_once) != end:
        kernel.send(pieces[done // at_once % len(pieces)])  # returns when the kernel has worked on all of them
        done += at_once
        wait = begin + done / rate - time.monotonic()
        if wait > 0:
            time.sleep(wait)
    took = time.monotonic() - begin
    return {"changes": done, "seconds": round(took, 2), "changes-a-second": round(done / took)}


if __name__ == "__main__":
    if sys.argv[1:2] in (["change"], ["come"]) and len(sys.argv) == 8:
        print(json.dumps(change(*sys.argv[2:7], int(sys.argv[7]), comes=sys.argv[1] == "come")))
    elif sys.argv[1:2] == ["stream"] and len(sys.argv) == 7:
        print(json.dumps(stream(*sys.argv[2:5], float(sys.argv[5]), int(sys.argv[6]))))
    elif sys.argv[1:2] == ["burst"] and sys.argv[5:] in ([], ["stay"]) and len(sys.argv) >= 5:
        print(json.dumps(burst(sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), stays=len(sys.argv) > 5)))
    else:
        sys.exit(__doc__)
