"""Servers of the recording that are too small for a program of their own.

A DNS server on 192.0.2.53 (UDP and TCP), and listeners on 192.0.2.25 and 192.0.2.66 that greet as a
service of their port would and answer every message with a line.
"""
import asyncio
import hashlib
import ipaddress
import struct

GREETINGS = {
    21: b"220 ftp.example.com ready\r\n",
    23: b"\xff\xfd\x18\xff\xfd\x20login: ",
    25: b"220 mail.example.com ESMTP\r\n",
    110: b"+OK POP3 ready\r\n",
    143: b"* OK IMAP4rev1 ready\r\n",
    445: b"",
    873: b"@RSYNCD: 31.0\n",
    1433: b"",
    2222: b"SSH-2.0-libssh_0.7.5\r\n",
    3306: b"J\x00\x00\x00\x0a5.7.33\x00",
    3333: b"",
    3389: b"",
    4444: b"",
    5900: b"RFB 003.008\n",
    6379: b"",
    6667: b":irc.example.com NOTICE * :hello\r\n",
    6881: b"",
    8009: b"",
    11211: b"",
}
UDP_PORTS = (69, 123, 137, 161, 514, 1900, 5060, 5353, 11211, 4789)
REPLIES = {
    25: b"250 ok\r\n", 21: b"331 go on\r\n", 23: b"Password: ", 4444: b"uid=0(root) gid=0(root)\n# ",
    6379: b"+OK\r\n",
}


def address_of(name):
    digest = hashlib.sha256(name).digest()
    return bytes((198, 51, 100, digest[0])), ipaddress.ip_address("2001:db8:30::").packed[:14] + digest[:2]


def dns_answer(query):
    """A response to one DNS query (RFC 1035): A, AAAA and TXT get one record, AXFR is refused."""
    if len(query) < 17:
        return b""
    end = 12
    while end < len(query) and query[end] != 0:
        end += query[end] + 1
    question = query[12:end + 5]
    kind = struct.unpack("!H", query[end + 1:end + 3])[0]
    v4, v6 = address_of(question[:-5].lower())
    data = {1: v4, 28: v6, 16: b"\x1fv=spf1 include:example.com -all.", 15: b"\x00\x0a\xc0\x0c"}.get(kind)
    if kind == 252 or data is None:
        return query[:2] + struct.pack("!HHHHH", 0x8185, 1, 0, 0, 0) + question
    record = b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 300, len(data)) + data
    return query[:2] + struct.pack("!HHHHH", 0x8580, 1, 1, 0, 0) + question + record


class Dns(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, peer):
        self.transport.sendto(dns_answer(data), peer)


class Echo(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, peer):
        self.transport.sendto(b"ok " + data[:64], peer)


async def dns_over_tcp(reader, writer):
    try:
        size = struct.unpack("!H", await reader.readexactly(2))[0]
        answer = dns_answer(await reader.readexactly(size))
        writer.write(struct.pack("!H", len(answer)) + answer)
        await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    writer.close()


def greeter(port):
    async def talk(reader, writer):
        try:
            if GREETINGS[port]:
                writer.write(GREETINGS[port])
            while await reader.read(4096):
                writer.write(REPLIES.get(port, b"ok\r\n"))
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()
    return talk


async def main():
    loop = asyncio.get_running_loop()
    for host in ("192.0.2.53", "2001:db8:20::53"):
        await loop.create_datagram_endpoint(Dns, (host, 53))
        await asyncio.start_server(dns_over_tcp, host, 53)
    for host in ("192.0.2.25", "192.0.2.66", "2001:db8:20::66"):
        for port in GREETINGS:
            await asyncio.start_server(greeter(port), host, port)
        for port in UDP_PORTS:
            await loop.create_datagram_endpoint(Echo, (host, port))
    await asyncio.Event().wait()


asyncio.run(main())
