"""ESP by scapy, the other end of the gateway's tunnels.

    scapy_esp.py seal FILE   writes lines `CIPHER VERSION CLEAR ESP` (frames in hexadecimal) that scapy sealed
    scapy_esp.py open FILE   reads such lines, opens every ESP frame and compares; says what differs
    scapy_esp.py             exits with 0 when scapy is at hand
"""
import sys

try:
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.ipsec import ESP, SecurityAssociation
    from scapy.layers.l2 import Ether
    from scapy.utils import checksum
except ImportError as error:
    print(error)
    sys.exit(77)

KEY = bytes.fromhex("7e24067817fae0d743d6ce1f32539163")
NONCE = bytes.fromhex("006cb6db")
AUTH_KEY = bytes.fromhex("1f2e3d4c5b6a79880123456789abcdeffedcba98")
MACS = {"dst": "02:00:00:00:00:02", "src": "02:00:00:00:00:01"}


def association(cipher, version):
    """The SA of a tunnel of `cipher` (as the gateway names it) whose outer header is IPv4 or IPv6."""
    algorithm = {"aes-128-ctr": "AES-CTR", "aes-128-cbc": "AES-CBC", "null": "NULL"}[cipher]
    key = {"aes-128-ctr": KEY + NONCE, "aes-128-cbc": KEY, "null": None}[cipher]
    outer = IP(src="192.0.2.1", dst="198.51.100.1") if version == "4" else IPv6(src="2001:db8::1", dst="2001:db8::2")
    return SecurityAssociation(ESP, spi=0x1001, crypt_algo=algorithm, crypt_key=key, auth_algo="HMAC-SHA1-96",
                               auth_key=AUTH_KEY, tunnel_header=outer)


def clear_packet(number, version):
    if version == "4":
        network = IP(src="10.1.0.5", dst="10.2.0.6", id=number, tos=number % 3)
    else:
        network = IPv6(src="2001:db8:1::5", dst="2001:db8:2::6", fl=number)
    return network / UDP(sport=1000, dport=2000) / bytes(i * number & 255 for i in range(number))


def seal(path):
    with open(path, "w") as out:
        for cipher in ("aes-128-ctr", "aes-128-cbc", "null"):
            for version in "46":
                sa = association(cipher, version)
                for number in [*range(0, 40), 63, 64, 65, 511, 512, 1000, 1400, 1500]:
                    for inner in "46":
                        clear = clear_packet(number, inner)
                        # The packet as bytes first: scapy's own fields are filled in on building.
                        built = type(clear)(bytes(clear))
                        esp = sa.encrypt(built)
                        frames = [bytes(Ether(**MACS) / packet).hex() for packet in (clear, esp)]
                        print(cipher, version, *frames, file=out)


def open_all(path):
    checked = 0
    associations = {}
    for line in open(path):
        cipher, version, clear, sealed = line.split()
        sa = associations.setdefault((cipher, version), association(cipher, version))
        frame = Ether(bytes.fromhex(sealed))
        if version == "4" and checksum(bytes(frame)[14:34]) != 0:
            sys.exit("the outer checksum is wrong")
        opened = bytes(sa.decrypt(frame.payload, verify=True))
        wanted = bytes.fromhex(clear)[14:]
        if opened != wanted:
            sys.exit(f"{cipher} over IPv{version}: scapy opened\n{opened.hex()}\nwanted\n{wanted.hex()}")
        checked += 1
    print(checked)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        {"seal": seal, "open": open_all}[sys.argv[1]](sys.argv[2])
