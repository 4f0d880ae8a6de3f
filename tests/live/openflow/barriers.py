"""A controller that adds flows one by one, with a barrier behind each, and removes them so again.
usage: barriers.py PORT FLOWS"""
import socket
import struct
import sys
import time

port, flows = int(sys.argv[1]), int(sys.argv[2])
HELLO, ERROR, ECHO_REQUEST, ECHO_REPLY, PACKET_IN, PORT_STATUS, FLOW_MOD = 0, 1, 2, 3, 10, 12, 14
MULTIPART_REQUEST, MULTIPART_REPLY, BARRIER_REQUEST, BARRIER_REPLY = 18, 19, 20, 21
ADD, DELETE_STRICT = 0, 4
ANY = 0xffffffff

connection = socket.create_connection(("127.0.0.1", port), timeout=30)
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
stream = connection.makefile("rb")


def message(kind, body=b"", xid=7):
    return struct.pack("!BBHI", 4, kind, 8 + len(body), xid) + body


def hear(wanted):
    """The body of the next message of that kind."""
    while True:
        _, kind, length, xid = struct.unpack("!BBHI", stream.read(8))
        body = stream.read(length - 8)
        if kind == wanted:
            return body
        if kind == ERROR:
            sys.exit(f"the switch refuses: {body.hex()}")
        if kind == ECHO_REQUEST:
            connection.sendall(message(ECHO_REPLY, body, xid))


def flow_mod(command, number):
    """Of TCP to a port and a network; without actions such packets are dropped."""
    match = bytes.fromhex("80000a020800" "8000140106") + struct.pack("!II", 0x80001908, 0x0a000000 | number << 8)
    match += struct.pack("!I", 0xffffff00)
    head = struct.pack("!HH", 1, 4 + len(match)) + match
    head += b"\0" * (-len(head) % 8)
    fields = struct.pack("!QQBBHHHIIIHH", 0, 0, 0, command, 0, 0, 100 + number % 500, ANY, ANY, ANY, 0, 0)
    return message(FLOW_MOD, fields + head)


def count():
    body = struct.pack("!HHI", 2, 0, 0) + struct.pack("!BBHIIIQQ", 0xff, 0, 0, ANY, ANY, 0, 0, 0)
    connection.sendall(message(MULTIPART_REQUEST, body + struct.pack("!HHI", 1, 4, 0)))
    return struct.unpack("!QQI", hear(MULTIPART_REPLY)[8:28])[2]


connection.sendall(message(HELLO))
hear(HELLO)
before = count()
for name, command, wanted in (("added", ADD, before + flows), ("removed", DELETE_STRICT, before)):
    begin = time.monotonic()
    for number in range(flows):
        connection.sendall(flow_mod(command, number) + message(BARRIER_REQUEST))
        hear(BARRIER_REPLY)
    print(f"        {flows} flows {name} in {time.monotonic() - begin:.2f} s")
    if count() != wanted:
        sys.exit(f"{count()} flows, and not {wanted}, after {flows} were {name}")
