"""A port for nfcapd, what the kernel says of its socket, and nfdump of its flows. For ipfix.py."""
import collections
import pathlib
import socket
import subprocess


def free_port():
    """A port of UDP that nobody has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def udp_socket(port):
    """Bytes that wait at the socket that listens on the port, and datagrams that found no room there; None where there
    is no such socket."""
    for line in pathlib.Path("/proc/net/udp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[1].endswith(f":{port:04X}"):
            return int(fields[4].split(":")[1], 16), int(fields[12])
    return None


def sums(folder):
    """Packets and bytes of TCP and UDP by addresses, protocol and ports."""
    told = subprocess.run(["nfdump", "-R", folder, "-q", "-N", "-o", "fmt:%sa,%sp,%da,%dp,%pr,%pkt,%byt", "-6"],
                          capture_output=True, text=True, check=True).stdout
    found = collections.defaultdict(lambda: [0, 0])
    protocols = {"6": 6, "17": 17}
    for line in told.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) < 7 or fields[4] not in protocols:
            continue
        addresses = [socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
                     for text in (fields[0], fields[2])]
        total = found[*addresses, protocols[fields[4]], int(fields[1]), int(fields[3])]
        total[0] += int(fields[5])
        total[1] += int(fields[6])
    return found
