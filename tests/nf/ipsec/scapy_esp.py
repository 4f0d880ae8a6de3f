"""ESP by scapy, the other end of the gateway's tunnels.

    scapy_esp.py seal FILE   writes lines `CIPHER AUTH FORM VERSION CLEAR ESP` (frames in hexadecimal) that scapy sealed
    scapy_esp.py open FILE   reads such lines, opens every ESP frame and compares; says what differs

Its exit status is 77 where there is no scapy.
AUTH is that of the options, or of AES-GCM the bytes of the ICV (scapy knows 16 alone). FORM: tunnel, esn, udp or
transport.
"""
import sys

try:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6, in6_chksum
    from scapy.layers.ipsec import ESP, SecurityAssociation
    from scapy.layers.l2 import Ether
    from scapy.utils import checksum
except ImportError as error:
    print(error)
    sys.exit(77)

KEY = bytes.fromhex("7e24067817fae0d743d6ce1f32539163a1b2c3d4e5f60718293a4b5c6d7e8f90")
NONCE = bytes.fromhex("006cb6db")
AUTH_KEY = bytes.fromhex("1f2e3d4c5b6a79880123456789abcdeffedcba9800112233445566778899aabb")
MACS = {"dst": "02:00:00:00:00:02", "src": "02:00:00:00:00:01"}
CIPHERS = ["aes-128-ctr", "aes-256-ctr", "aes-128-cbc", "aes-256-cbc", "null", "aes-128-gcm", "aes-256-gcm"]


def ends(version):
    return IP(src="192.0.2.1", dst="198.51.100.1") if version == "4" else IPv6(src="2001:db8::1", dst="2001:db8::2")


def association(cipher, auth, form, version):
    """The SA of `cipher` and `auth` (as the gateway names them) whose outer header is IPv4 or IPv6."""
    mode = cipher[-3:].upper()
    options = {"crypt_algo": "NULL", "crypt_key": None}
    if cipher != "null":
        key = KEY[:int(cipher[4:7]) // 8]
        options = {"crypt_algo": f"AES-{mode}", "crypt_key": key + NONCE if mode in ("CTR", "GCM") else key}
    if mode == "GCM":
        options["crypt_icv_size"] = int(auth)
    else:
        sha1 = auth == "hmac-sha1-96"
        options |= {"auth_algo": "HMAC-SHA1-96" if sha1 else "SHA2-256-128", "auth_key": AUTH_KEY[:20 if sha1 else 32]}
    if form == "udp":
        options["nat_t_header"] = UDP(sport=4500, dport=4500)
    if form != "transport":
        options["tunnel_header"] = ends(version)
    return SecurityAssociation(ESP, spi=0x1001, esn_en=form == "esn", **options)


def kinds():
    """All that there is of `association`'s arguments."""
    for cipher in CIPHERS:
        for auth in ("16",) if cipher.endswith("gcm") else ("hmac-sha1-96", "hmac-sha256-128"):
            # scapy knows extended numbers of AES-GCM alone.
            for form in ("tunnel", "udp", "transport") + (("esn",) if cipher.endswith("gcm") else ()):
                for version in "46":
                    yield cipher, auth, form, version


def clear_packet(number, version):
    if version == "4":
        network = IP(src="10.1.0.5", dst="10.2.0.6", id=number, tos=number % 3)
    else:
        network = IPv6(src="2001:db8:1::5", dst="2001:db8:2::6", fl=number)
    return network / UDP(sport=1000, dport=2000) / bytes(i * number & 255 for i in range(number))


def seal(path):
    with open(path, "w") as out:
        for kind in kinds():
            sa = association(*kind)
            for number in [*range(0, 36, 5), 63, 64, 65, 511, 1000, 1500]:
                for inner in kind[3] if kind[2] == "transport" else "46":
                    clear = clear_packet(number, inner)
                    if kind[2] == "transport":
                        clear.src, clear.dst = ends(inner).src, ends(inner).dst
                    # The packet as bytes first: scapy's own fields are filled in on building.
                    built = type(clear)(bytes(clear))
                    esp = sa.encrypt(built)
                    if kind[2] == "udp":  # scapy leaves ESP out of it
                        esp[UDP].len = len(bytes(esp)) - (20 if kind[3] == "4" else 40)
                        esp[UDP].chksum = 0 if kind[3] == "4" else None
                        esp = type(esp)(bytes(esp))
                    frames = [bytes(Ether(**MACS) / packet).hex() for packet in (clear, esp)]
                    print(*kind, *frames, file=out)


def right_udp_sum(packet):
    """None over IPv4 (RFC 3948), a right one over IPv6."""
    if packet.version == 4:
        return packet[UDP].chksum == 0
    datagram = bytes(packet.payload)
    return packet[UDP].chksum != 0 and in6_chksum(17, packet, datagram) == 0


def open_all(path):
    checked = 0
    associations = {}
    for line in open(path):
        *kind, clear, sealed = line.split()
        if tuple(kind) not in associations:
            associations[tuple(kind)] = association(*kind)
        sa = associations[tuple(kind)]
        frame = Ether(bytes.fromhex(sealed))
        if kind[3] == "4" and checksum(bytes(frame)[14:34]) != 0:
            sys.exit("the outer checksum is wrong")
        if kind[2] == "udp" and not right_udp_sum(frame.payload):
            sys.exit("the checksum of UDP is wrong")
        opened = bytes(sa.decrypt(frame.payload, verify=True))
        wanted = bytes.fromhex(clear)[14:]
        if opened != wanted:
            sys.exit(f"{kind}: scapy opened\n{opened.hex()}\nwanted\n{wanted.hex()}")
        checked += 1
    print(checked)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        {"seal": seal, "open": open_all}[sys.argv[1]](sys.argv[2])
