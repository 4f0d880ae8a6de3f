"""Says suspicious things to the small servers of servers.py, over ordinary sockets."""
import socket

HOST = "192.0.2.66"


def tcp(port, *messages, source="10.0.10.16", host=HOST):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as connection:
        connection.settimeout(0.15)
        connection.bind((source, 0))
        connection.connect((host, port))
        for message in messages:
            connection.sendall(message)
            try:
                connection.recv(4096)
            except TimeoutError:
                pass


def udp(port, message, source="10.0.10.16", host=HOST):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.settimeout(0.15)
        sender.bind((source, 0))
        sender.sendto(message, (host, port))
        try:
            sender.recv(4096)
        except TimeoutError:
            pass


tcp(21, b"USER root\r\n", b"PASS toor\r\n", b"SITE EXEC %p%p%p\r\n")
tcp(21, b"USER anonymous\r\n", b"RETR ../../etc/passwd\r\n", b"STOR " + b"A" * 300 + b"\r\n")
tcp(23, b"root\r\n", b"xc3511\r\n", b"/bin/busybox MIRAI\r\n")
tcp(25, b"EHLO spam.example\r\n", b"VRFY root\r\n", b"EXPN list\r\n", b"RCPT TO: <|/bin/sh>\r\n")
tcp(25, b"EHLO mail.example\r\n", b"MAIL FROM:<a@example.com>\r\n", b"RCPT TO:<b@example.org>\r\n", host="192.0.2.25")
tcp(110, b"USER bob\r\n", b"PASS " + b"x" * 120 + b"\r\n")
tcp(445, b"\x00\x00\x00\x2f\xffSMB\x72\x00\x00\x00\x00\x18\x53\xc8" + bytes(20) + b"\x00\x0c\x00\x02NT LM 0.12\x00")
tcp(445, b"\x00\x00\x00\x40\xffSMB\x33\x00\x00\x00\x00\x18\x07\xc0" + bytes(12) + b"\\PIPE\\" + bytes(24))
tcp(2222, b"SSH-2.0-libssh_0.7.5\r\n")
tcp(3333, b'{"id":1,"method":"mining.subscribe","params":["miner/1.0"]}\n')
tcp(3389, b"\x03\x00\x00\x2b\x26\xe0\x00\x00\x00\x00\x00Cookie: mstshash=hello\r\n\x01\x00\x08\x00\x03\x00\x00\x00")
tcp(4444, b"id\n", b"/bin/sh -i\n", b"cat /etc/hostname\n")
tcp(5900, b"RFB 003.008\n")
tcp(6379, b"*4\r\n$6\r\nCONFIG\r\n$3\r\nSET\r\n$3\r\ndir\r\n$11\r\n/root/.ssh/\r\n", b"SLAVEOF 192.0.2.66 6380\r\n")
tcp(6667, b"NICK bot4711\r\nUSER x 0 * :x\r\n", b"JOIN #control\r\n", b"PRIVMSG #control :!ddos 192.0.2.99 80\r\n")
tcp(6881, b"\x13BitTorrent protocol" + bytes(8) + b"A" * 20 + b"-ML0001-" + b"0" * 12)
tcp(8009, b"\x12\x34\x00\x14\x02\x02\x00\x08HTTP/1.1javax.servlet.include")
tcp(11211, b"stats\r\n", b"flush_all\r\n")
tcp(873, b"@RSYNCD: 31.0\n", b"#list\n")
tcp(1433, b"\x12\x01\x00\x34\x00\x00\x00\x00" + bytes(20) + b"x\x00p\x00_\x00c\x00m\x00d\x00s\x00h\x00e\x00l\x00l\x00")
tcp(3306, b"\x21\x00\x00\x01\x85\xa6\xff\x01" + bytes(24) + b"root\x00")
tcp(4444, b"/bin/sh -i\n", host="2001:db8:20::66", source="2001:db8:10::16")

udp(69, b"\x00\x01startup-config\x00octet\x00")
udp(123, b"\x17\x00\x03\x2a" + bytes(4))
udp(123, b"\x1b" + bytes(47))
udp(137, b"\x80\xf0\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00 CKAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\x00\x00\x21\x00\x01")
udp(
    161,
    b"\x30\x26\x02\x01\x01\x04\x06public\xa0\x19\x02\x01\x01\x02\x01\x00\x02\x01\x00\x30\x0e\x30\x0c\x06\x08+\x06"
    b"\x01\x02\x01\x01\x01\x00\x05\x00",
)
udp(
    161,
    b"\x30\x27\x02\x01\x01\x04\x07private\xa3\x19\x02\x01\x01\x02\x01\x00\x02\x01\x00\x30\x0e\x30\x0c\x06\x08+\x06"
    b"\x01\x02\x01\x01\x05\x00\x05\x00",
)
udp(1900, b'M-SEARCH * HTTP/1.1\r\nHOST: 239.255.255.250:1900\r\nMAN: "ssdp:discover"\r\nST: ssdp:all\r\n\r\n')
udp(5060, b"OPTIONS sip:100@192.0.2.66 SIP/2.0\r\nUser-Agent: friendly-scanner\r\nContent-Length: 0\r\n\r\n")
udp(11211, b"\x00\x00\x00\x00\x00\x01\x00\x00stats\r\n")
udp(514, b"<34>su: authentication failure; user=root")
for size in (1, 9, 700):
    udp(5353, b"\x00" * size)
udp(1900, b"F" * 5000)  # three fragments
