"""The tests of os-ken's switch suite against a switch that connects to this program.

usage: switch_suite.py [--port N] [--every N] [--list] PORT1 PORT2 PORT3 [GROUP...]

Each case of os_ken/tests/switch/of13 (GROUP is a folder or file below it; all but meters' unless given) names flows,
groups and meters, a packet, and what is to become of it. Here the packet goes by a raw socket into the interface at the
switch's port 1, and what comes out at port 2 must be the expected bytes; so no second switch is needed, which os-ken's
own tester has. Of groups the shares of what was sent are looked at, of meters the rate over some seconds.
"""
import argparse
import collections
import glob
import json
import os
import re
import select
import socket
import struct
import sys
import time
from random import randint  # noqa: F401, packets of the suite use it

os.environ.setdefault("OSKEN_HUB_TYPE", "native")
import netaddr  # noqa: E402
from os_ken.ofproto import ofproto_parser, ofproto_protocol, ofproto_v1_3 as of  # noqa: E402
from os_ken.ofproto import ofproto_v1_3_parser as messages  # noqa: E402
from os_ken.tests.switch import tester  # noqa: E402

# Cases that expect what a switch should not do, by file and description.
KNOWN = {
    r"25_SET_FIELD/1[78]_SCTP": "os-ken's packets have wrong checksums",
    r"(19_ICMPV4_TYPE|20_ICMPV4_CODE)\.json: ethernet/mpls": "os-ken pads the frame that it expects to 60 bytes",
}
WAIT = 2.0
METER_SECONDS, BURST_SECONDS = 4, 2
AT_ONCE = 500  # packets that are sent before what has come is looked at
SOL_PACKET, PACKET_AUXDATA, TP_STATUS_VLAN_VALID = 263, 8, 0x10


class Description(ofproto_protocol.ProtocolDesc):
    """What os-ken's messages ask of the switch that they are for."""

    def set_xid(self, message):
        pass


class Switch:
    def __init__(self, port):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(1)
        listener.settimeout(60)
        self.socket, _ = listener.accept()
        self.socket.settimeout(20)
        self.description = Description(of.OFP_VERSION)
        self.buffer, self.xid, self.packet_ins = b"", 100, []
        self.raw(of.OFPT_HELLO)
        self.barrier()

    def raw(self, kind, body=b""):
        self.xid += 1
        self.socket.sendall(struct.pack(">BBHI", of.OFP_VERSION, kind, 8 + len(body), self.xid) + body)
        return self.xid

    def send(self, message):
        self.xid += 1
        message.xid = self.xid
        message.serialize()
        self.socket.sendall(bytes(message.buf))
        return self.xid

    def receive(self):
        while len(self.buffer) < 8 or len(self.buffer) < struct.unpack(">H", self.buffer[2:4])[0]:
            data = self.socket.recv(65536)
            if not data:
                sys.exit("the switch has gone")
            self.buffer += data
        length = struct.unpack(">H", self.buffer[2:4])[0]
        message, self.buffer = self.buffer[:length], self.buffer[length:]
        if message[1] == of.OFPT_ECHO_REQUEST:
            self.socket.sendall(message[:1] + bytes([of.OFPT_ECHO_REPLY]) + message[2:])
        return message

    def parse(self, message):
        version, kind, length, xid = struct.unpack(">BBHI", message[:8])
        return ofproto_parser.msg(self.description, version, kind, length, xid, message)

    def barrier(self):
        """The first error of what was sent before."""
        xid, error = self.raw(of.OFPT_BARRIER_REQUEST), None
        while True:
            message = self.receive()
            if message[1] == of.OFPT_ERROR and error is None:
                error = struct.unpack(">HH", message[8:12])
            elif message[1] == of.OFPT_PACKET_IN:
                self.packet_ins.append(message)
            elif message[1] == of.OFPT_BARRIER_REPLY and message[4:8] == struct.pack(">I", xid):
                return error

    def ask(self, request):
        """All parts of the answer to a multipart request."""
        xid, body = self.send(request), []
        while True:
            message = self.receive()
            if message[1] == of.OFPT_ERROR:
                raise AssertionError("error %d, %d" % struct.unpack(">HH", message[8:12]))
            if message[1] != of.OFPT_MULTIPART_REPLY or message[4:8] != struct.pack(">I", xid):
                continue
            reply = self.parse(message)
            body += reply.body
            if not reply.flags & of.OFPMPF_REPLY_MORE:
                return body

    def clear(self):
        d = self.description
        self.send(messages.OFPMeterMod(d, of.OFPMC_DELETE, 0, of.OFPM_ALL))
        self.send(messages.OFPGroupMod(d, of.OFPGC_DELETE, 0, of.OFPG_ALL))
        self.send(messages.OFPFlowMod(d, table_id=of.OFPTT_ALL, command=of.OFPFC_DELETE, out_port=of.OFPP_ANY,
                                      out_group=of.OFPG_ANY))
        self.barrier()
        self.packet_ins = []

    def answer(self):
        """Takes what has come, so that the switch does not give this controller up as silent."""
        while self.buffer or select.select([self.socket], [], [], 0)[0]:
            message = self.receive()
            if message[1] == of.OFPT_PACKET_IN:
                self.packet_ins.append(message)

    def wait_for_packet_in(self):
        end = time.monotonic() + WAIT
        while not self.packet_ins:
            left = end - time.monotonic()
            if left <= 0 or not (self.buffer or select.select([self.socket], [], [], left)[0]):
                return None
            message = self.receive()
            if message[1] == of.OFPT_PACKET_IN:
                self.packet_ins.append(message)
        return self.parse(self.packet_ins.pop(0))


class Wire:
    """The far end of a port of the switch."""

    def __init__(self, name):
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        self.socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, 33, 1 << 23)  # SO_RCVBUFFORCE
        self.socket.bind((name, 0))
        self.socket.setblocking(False)

    def receive(self):
        """A frame that came from the switch; None when there is none."""
        while True:
            try:
                frame, extra, _, address = self.socket.recvmsg(65536, 128)
            except BlockingIOError:
                return None
            if address[2] == socket.PACKET_OUTGOING:
                continue
            for level, kind, data in extra:
                # The kernel takes the outermost tag out of the frame.
                if (level, kind) == (SOL_PACKET, PACKET_AUXDATA):
                    status, _, _, _, _, tag, tag_type = struct.unpack("IIIHHHH", data[:20])
                    if status & TP_STATUS_VLAN_VALID:
                        frame = frame[:12] + struct.pack(">HH", tag_type or 0x8100, tag) + frame[12:]
            return frame

    def wait(self):
        end = time.monotonic() + WAIT
        while (left := end - time.monotonic()) > 0:
            if select.select([self.socket], [], [], left)[0] and (frame := self.receive()) is not None:
                return frame
        return None

    def drain(self):
        """All that there is."""
        frames = []
        while (frame := self.receive()) is not None:
            frames.append(frame)
        return frames


def packet_of(text):
    if isinstance(text, str):
        return eval(text)
    made = eval("/".join(text), tester.__dict__ | {"netaddr": netaddr, "randint": randint})
    made.serialize()
    return bytes(made.data)


def message_of(switch, text):
    numbers = {"target_send_port_1": 2, "target_send_port_2": 3, "target_recv_port": 1}
    for name, number in numbers.items():
        text = text.replace('"%s"' % name, str(number))
    return ofproto_parser.ofp_msg_from_jsondict(switch.description, json.loads(text))


def check_flow(switch, wanted):
    for found in switch.ask(messages.OFPFlowStatsRequest(switch.description)):
        def of_flow(flow):
            return (flow.table_id, flow.priority, flow.cookie, str(flow.match.to_jsondict()),
                    str(sorted(flow.instructions, key=lambda x: x.type)))
        if of_flow(found) == of_flow(wanted):
            return
    raise AssertionError("the flow is not as it was added")


def check_group(switch, wanted):
    for found in switch.ask(messages.OFPGroupDescStatsRequest(switch.description)):
        if (found.type, found.group_id, str(found.buckets)) == (wanted.type, wanted.group_id, str(wanted.buckets)):
            return
    raise AssertionError("the group is not as it was added")


def check_meter(switch, wanted):
    for found in switch.ask(messages.OFPMeterConfigStatsRequest(switch.description)):
        if (found.flags, found.meter_id, str(found.bands)) == (wanted.flags, wanted.meter_id, str(wanted.bands)):
            return
    raise AssertionError("the meter is not as it was added")


def table_stats(switch):
    return {one.table_id: (one.lookup_count, one.matched_count)
            for one in switch.ask(messages.OFPTableStatsRequest(switch.description, 0))}


def fields_of(match):
    return {x["OXMTlv"]["field"]: x["OXMTlv"]["value"] for x in match["OFPMatch"]["oxm_fields"]}


def check_shares(wires, step):
    """Groups: of what goes in, each port gets its share."""
    count, total, got = 600, 0, collections.Counter()
    text = step["ingress"]["packets"]["data"]
    for i in range(count):
        frame = packet_of(text)
        wires[0].socket.send(frame)
        total += len(frame)
        if i % 50 == 49:
            time.sleep(0.02)
    time.sleep(0.3)
    whole = step["ingress"]["packets"]["pktps"] * 1500 * 8 / 1024
    for port in (1, 2):
        got[port] += sum(map(len, wires[port].drain()))
    for wanted in step["egress"]["throughput"]:
        port = fields_of(wanted)["in_port"]
        port = {"tester_recv_port_1": 2, "tester_recv_port_2": 3}.get(port, port)
        share, due = got[port - 1] / total, wanted["kbps"] / whole
        if abs(share - due) > 0.1 * due + 0.03:
            raise AssertionError("port %d: %.2f of what went in, and not %.2f" % (port, share, due))


def check_rates(switch, wires, step):
    """Meters: what comes out in a while, behind the burst."""
    packets = step["ingress"]["packets"]
    frame, rate, got = packet_of(packets["data"]), packets["pktps"], []
    begin, sent, measured = time.monotonic(), 0, None
    while (now := time.monotonic() - begin) < METER_SECONDS + BURST_SECONDS:
        if measured is None and now >= BURST_SECONDS:
            measured = now
            wires[1].drain()
            got = []
        switch.answer()
        for _ in range(min(int(now * rate) - sent, AT_ONCE)):
            wires[0].socket.send(frame)
            sent += 1
        got += wires[1].drain()
        time.sleep(0.002)
    seconds = time.monotonic() - begin - measured
    for wanted in step["egress"]["throughput"]:
        fields = fields_of(wanted)
        mine = [one for one in got if "ip_dscp" not in fields or dscp_of(one) == fields["ip_dscp"]]
        if "kbps" in wanted:
            came, due = sum(map(len, mine)) * 8 / 1024 / seconds, wanted["kbps"]
        else:
            came, due = len(mine) / seconds, wanted["pktps"]
        if abs(came - due) > 0.1 * due:
            raise AssertionError("%s: %.1f a second, and not %.1f; %d went in a second" %
                                 (fields, came, due, sent / (METER_SECONDS + BURST_SECONDS)))


def dscp_of(frame):
    return frame[15] >> 2 if frame[12:14] == b"\x08\x00" else (frame[14] << 8 | frame[15]) >> 6 & 63


def run_step(switch, wires, step):
    if isinstance(step["ingress"], dict):
        metered = any("ip_dscp" in str(one) for one in step["egress"]["throughput"])
        one_port = len(step["egress"]["throughput"]) == 1
        for wire in wires:
            wire.drain()
        return check_rates(switch, wires, step) if metered or one_port else check_shares(wires, step)
    for wire in wires:
        wire.drain()
    frame = packet_of(step["ingress"])
    before = table_stats(switch) if "table-miss" in step else None
    wires[0].socket.send(frame)
    if "egress" in step:
        got, wanted = wires[1].wait(), packet_of(step["egress"])
    elif "PACKET_IN" in step:
        message, wanted = switch.wait_for_packet_in(), packet_of(step["PACKET_IN"])
        got = None if message is None else bytes(message.data)
        if message is not None and message.reason != of.OFPR_ACTION:
            raise AssertionError("packet-in for reason %d" % message.reason)
    else:
        return check_miss(switch, step["table-miss"], before)
    if got is None:
        raise AssertionError("no packet came")
    if got != wanted:
        raise AssertionError("came " + got.hex() + ", and not " + wanted.hex())


def check_miss(switch, tables, before):
    end = time.monotonic() + WAIT
    while time.monotonic() < end:
        after = table_stats(switch)
        looked = [table for table in tables if after[table][0] > before[table][0]]
        if looked:
            if any(after[table][1] > before[table][1] for table in looked):
                raise AssertionError("a flow matched")
            return
        time.sleep(0.01)
    raise AssertionError("no lookup was counted")


def run_case(switch, wires, case):
    switch.clear()
    for text in case["prerequisite"]:
        message = message_of(switch, json.dumps(text))
        switch.send(message)
        if error := switch.barrier():
            return "refused", "%d, %d" % error
        try:
            if "OFPFlowMod" in text:
                check_flow(switch, message)
            elif "OFPGroupMod" in text:
                check_group(switch, message)
            elif "OFPMeterMod" in text:
                check_meter(switch, message)
        except AssertionError as why:
            return "failed", str(why)
    try:
        for step in case["tests"]:
            run_step(switch, wires, step)
    except AssertionError as why:
        return "failed", str(why)
    return "passed", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=6653)
    parser.add_argument("--every", type=int, default=1, help="of the cases only every so many-th")
    parser.add_argument("--list", action="store_true", help="tell of all that did not pass")
    parser.add_argument("interface", nargs=3)
    parser.add_argument("group", nargs="*", default=["match", "action", "group"])
    arguments = parser.parse_args()
    folder = os.path.join(os.path.dirname(tester.__file__), "of13")
    files = sorted(file for group in arguments.group
                   for file in glob.glob(os.path.join(folder, group, "**", "*.json"), recursive=True) +
                   glob.glob(os.path.join(folder, group + "*.json")))
    wires = [Wire(name) for name in arguments.interface]
    switch = Switch(arguments.port)
    results, number = collections.defaultdict(collections.Counter), 0
    for file in files:
        name, *cases = json.load(open(file))
        group = re.sub(r"[/_].*", "", os.path.relpath(file, folder))
        for case in cases:
            number += 1
            if number % arguments.every:
                continue
            result, why = run_case(switch, wires, case)
            where = os.path.relpath(file, folder) + ": " + case["description"]
            if result == "failed" and any(re.search(known, where) for known in KNOWN):
                result = "known"
            results[group][result] += 1
            if arguments.list and result != "passed":
                print("%s  %s: %s" % (result, where, why), flush=True)
    total = collections.Counter()
    for group, counts in results.items():
        total += counts
        print("%-8s %s" % (group, text_of(counts)))
    print("all      %s" % text_of(total))
    sys.exit(0 if total["passed"] and not total["failed"] and not total["refused"] else 1)


def text_of(counts):
    return "passed %d, failed %d and %d as is known, refused %d of %d" % (
        counts["passed"], counts["failed"], counts["known"], counts["refused"], sum(counts.values()))


main()
