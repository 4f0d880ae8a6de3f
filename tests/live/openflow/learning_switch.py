"""A controller for the live test: a learning switch, and checks of all that it asks the switch.

usage: learning_switch.py PORT RESULTS. It listens on 127.0.0.1:PORT until it is killed; whenever something is
established it appends a line "ok NAME" or "FAILED NAME: why" to the file RESULTS.
"""
import os
import queue
import sys
import threading
import time

os.environ.setdefault("OSKEN_HUB_TYPE", "native")
from os_ken import cfg  # noqa: E402
from os_ken.base import app_manager  # noqa: E402
from os_ken.controller import ofp_event  # noqa: E402
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, HANDSHAKE_DISPATCHER, set_ev_cls  # noqa: E402
from os_ken.lib.packet import ethernet, packet  # noqa: E402
from os_ken.ofproto import ofproto_v1_3  # noqa: E402

RESULTS = sys.argv[2]
COOKIE = 0x1EA4


def tell(name, good, why=""):
    with open(RESULTS, "a") as results:
        results.write(f"ok {name}\n" if good else f"FAILED {name}: {why}\n")


class LearningSwitch(app_manager.OSKenApp):
    OFP_VERSIONS = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.places = {}       # by MAC address: the port behind which it is
        self.waiting = {}      # by transaction: a queue for the answers
        self.packets_in = 0
        self.removed = []

    # --- the learning switch ---
    def add_flow(self, datapath, priority, match, actions, **options):
        parser, ofproto = datapath.ofproto_parser, datapath.ofproto
        apply = [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, actions)]
        datapath.send_msg(
            parser.OFPFlowMod(
                datapath=datapath, cookie=COOKIE, priority=priority, match=match, instructions=apply, **options
            )
        )

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)
    def features(self, event):
        message, datapath = event.msg, event.msg.datapath
        parser, ofproto = datapath.ofproto_parser, datapath.ofproto
        tell("features", message.n_tables == 254 and message.datapath_id == 0x2A, vars(message))
        to_controller = parser.OFPActionOutput(ofproto.OFPP_CONTROLLER, ofproto.OFPCML_NO_BUFFER)
        self.add_flow(datapath, 0, parser.OFPMatch(), [to_controller])
        threading.Thread(target=self.check, args=[datapath], daemon=True).start()

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)
    def packet_in(self, event):
        message, datapath = event.msg, event.msg.datapath
        parser, ofproto = datapath.ofproto_parser, datapath.ofproto
        in_port = message.match["in_port"]
        if self.packets_in == 0:
            tell(
                "packet-in",
                message.reason == ofproto.OFPR_NO_MATCH
                and message.table_id == 0
                and message.cookie == COOKIE
                and message.total_len == len(message.data)
                and message.buffer_id == ofproto.OFP_NO_BUFFER,
                vars(message),
            )
        self.packets_in += 1
        header = packet.Packet(message.data).get_protocol(ethernet.ethernet)
        self.places[header.src] = in_port
        out_port = self.places.get(header.dst, ofproto.OFPP_FLOOD)
        actions = [parser.OFPActionOutput(out_port)]
        if out_port != ofproto.OFPP_FLOOD:
            self.add_flow(
                datapath, 10, parser.OFPMatch(in_port=in_port, eth_src=header.src, eth_dst=header.dst), actions
            )
        datapath.send_msg(
            parser.OFPPacketOut(
                datapath=datapath, buffer_id=ofproto.OFP_NO_BUFFER, in_port=in_port, actions=actions, data=message.data
            )
        )

    @set_ev_cls(ofp_event.EventOFPPortStatus, MAIN_DISPATCHER)
    def port_status(self, event):
        port = event.msg.desc
        is_down = port.state & event.msg.datapath.ofproto.OFPPS_LINK_DOWN != 0
        tell(f"{port.name.decode()} is {'down' if is_down else 'up'}", True)

    # --- the checks ---
    @set_ev_cls(
        [
            ofp_event.EventOFPBarrierReply, ofp_event.EventOFPEchoReply, ofp_event.EventOFPFlowStatsReply,
            ofp_event.EventOFPPortStatsReply, ofp_event.EventOFPDescStatsReply, ofp_event.EventOFPAggregateStatsReply,
            ofp_event.EventOFPTableStatsReply, ofp_event.EventOFPGetConfigReply,
            ofp_event.EventOFPGroupDescStatsReply, ofp_event.EventOFPGroupStatsReply,
            ofp_event.EventOFPTableFeaturesStatsReply, ofp_event.EventOFPRoleReply, ofp_event.EventOFPGetAsyncReply,
            ofp_event.EventOFPPortDescStatsReply, ofp_event.EventOFPGroupFeaturesStatsReply,
        ],
        MAIN_DISPATCHER,
    )
    def answered(self, event):
        if event.msg.xid in self.waiting:
            self.waiting[event.msg.xid].put(event.msg)

    @set_ev_cls(ofp_event.EventOFPErrorMsg, [HANDSHAKE_DISPATCHER, CONFIG_DISPATCHER, MAIN_DISPATCHER])
    def error(self, event):
        if event.msg.xid in self.waiting:
            self.waiting[event.msg.xid].put(event.msg)
        else:
            tell("no error was asked for", False, vars(event.msg))

    @set_ev_cls(ofp_event.EventOFPFlowRemoved, MAIN_DISPATCHER)
    def flow_removed(self, event):
        self.removed.append(event.msg)

    def ask(self, message):
        """Sends a message and waits for its answer, or the error."""
        datapath = message.datapath
        datapath.set_xid(message)
        self.waiting[message.xid] = queue.Queue()
        datapath.send_msg(message)
        return self.waiting[message.xid].get(timeout=5)

    def barrier(self, datapath):
        return self.ask(datapath.ofproto_parser.OFPBarrierRequest(datapath))

    def check(self, datapath):
        time.sleep(0.2)
        for name in [name for name in dir(self) if name.startswith("check_")]:
            try:
                getattr(self, name)(datapath, datapath.ofproto_parser, datapath.ofproto)
                tell(name[6:].replace("_", " "), True)
            except Exception as problem:
                tell(name[6:].replace("_", " "), False, repr(problem))
        tell("all checks", True)
        while True:  # the traffic comes now: the shell script reads what the flows have counted
            time.sleep(0.5)
            parser = datapath.ofproto_parser
            try:
                flows = self.ask(parser.OFPFlowStatsRequest(datapath, cookie=COOKIE, cookie_mask=2**64 - 1)).body
                ports = self.ask(parser.OFPPortStatsRequest(datapath)).body
            except Exception as problem:
                tell("statistics", False, repr(problem))
                return
            learned = [flow for flow in flows if flow.priority == 10]
            if (
                len(learned) >= 2
                and min(flow.packet_count for flow in learned) >= 5
                and min(flow.byte_count for flow in learned) >= 300
            ):
                tell("the learned flows count", True)
            if len(ports) == 2 and all(port.rx_packets >= 5 and port.tx_packets >= 5 for port in ports):
                tell("the ports count", True)

    @staticmethod
    def expect(condition, what):
        if not condition:
            raise AssertionError(str(what))

    def expect_error(self, message, error_type, code):
        answer = self.ask(message)
        self.expect((getattr(answer, "type", None), getattr(answer, "code", None)) == (error_type, code), vars(answer))

    def check_echo(self, datapath, parser, ofproto):
        self.expect(
            self.ask(parser.OFPEchoRequest(datapath, data=b"are you there")).data == b"are you there", "other data"
        )

    def check_barrier(self, datapath, parser, ofproto):
        self.barrier(datapath)

    def check_config(self, datapath, parser, ofproto):
        datapath.send_msg(parser.OFPSetConfig(datapath, ofproto.OFPC_FRAG_NORMAL, 256))
        answer = self.ask(parser.OFPGetConfigRequest(datapath))
        self.expect(answer.miss_send_len == 256 and answer.flags == 0, vars(answer))

    def check_description(self, datapath, parser, ofproto):
        self.expect(self.ask(parser.OFPDescStatsRequest(datapath)).body.mfr_desc == b"Millrace", "another maker")

    def check_ports(self, datapath, parser, ofproto):
        ports = self.ask(parser.OFPPortDescStatsRequest(datapath)).body
        self.expect([(port.port_no, port.name) for port in ports] == [(1, b"one"), (2, b"two")], ports)
        self.expect(all(port.state & ofproto.OFPPS_LINK_DOWN == 0 for port in ports), ports)

    def check_table(self, datapath, parser, ofproto):
        self.expect(self.ask(parser.OFPTableStatsRequest(datapath)).body[0].active_count >= 1, "no flow")
        features = self.ask(parser.OFPTableFeaturesStatsRequest(datapath, body=[])).body
        self.expect(features[0].max_entries >= 100000 and len(features[0].properties) == 8, features)

    def check_flows(self, datapath, parser, ofproto):
        match = parser.OFPMatch(eth_type=0x0800, ip_proto=6, ipv4_dst=("192.0.2.0", "255.255.255.0"), tcp_dst=80)
        actions = [
            parser.OFPActionSetField(eth_dst="02:00:00:00:00:99"), parser.OFPActionDecNwTtl(),
            parser.OFPActionOutput(2), parser.OFPActionOutput(ofproto.OFPP_CONTROLLER, 128),
        ]
        self.add_flow(datapath, 500, match, actions, idle_timeout=300)
        self.barrier(datapath)
        flows = [flow for flow in self.ask(parser.OFPFlowStatsRequest(datapath)).body if flow.priority == 500]
        self.expect(len(flows) == 1 and flows[0].idle_timeout == 300 and flows[0].cookie == COOKIE, flows)
        self.expect(
            flows[0].match["ipv4_dst"] == ("192.0.2.0", "255.255.255.0") and flows[0].match["tcp_dst"] == 80,
            flows[0].match,
        )
        got = flows[0].instructions[0].actions
        self.expect([type(action) for action in got] == [type(action) for action in actions] and got[2].port == 2, got)
        aggregate = self.ask(
            parser.OFPAggregateStatsRequest(
                datapath, 0, ofproto.OFPTT_ALL, ofproto.OFPP_ANY, ofproto.OFPG_ANY, 0, 0, match
            )
        ).body
        self.expect(aggregate.flow_count == 1 and aggregate.packet_count == 0, aggregate)
        datapath.send_msg(
            parser.OFPFlowMod(
                datapath, command=ofproto.OFPFC_DELETE_STRICT, priority=500, match=match, out_port=ofproto.OFPP_ANY,
                out_group=ofproto.OFPG_ANY,
            )
        )
        self.barrier(datapath)
        self.expect(
            all(flow.priority != 500 for flow in self.ask(parser.OFPFlowStatsRequest(datapath)).body),
            "the flow is still there",
        )

    def check_flow_removed(self, datapath, parser, ofproto):
        self.add_flow(
            datapath, 600, parser.OFPMatch(in_port=1, vlan_vid=0x1005), [], hard_timeout=1,
            flags=ofproto.OFPFF_SEND_FLOW_REM,
        )
        end = time.monotonic() + 5
        while not self.removed and time.monotonic() < end:
            time.sleep(0.05)
        self.expect(self.removed, "no flow was removed")
        gone = self.removed[0]
        self.expect(
            gone.reason == ofproto.OFPRR_HARD_TIMEOUT and gone.priority == 600 and gone.match["vlan_vid"] == 0x1005,
            vars(gone),
        )

    def check_groups(self, datapath, parser, ofproto):
        buckets = [
            parser.OFPBucket(
                weight=weight, watch_port=ofproto.OFPP_ANY, watch_group=ofproto.OFPG_ANY,
                actions=[parser.OFPActionOutput(port)],
            )
            for weight, port in ((1, 1), (3, 2))
        ]
        change = parser.OFPGroupMod(datapath, ofproto.OFPGC_ADD, ofproto.OFPGT_SELECT, 7, buckets)
        datapath.send_msg(change)
        groups = self.ask(parser.OFPGroupDescStatsRequest(datapath)).body
        self.expect(
            [(group.group_id, [bucket.weight for bucket in group.buckets]) for group in groups] == [(7, [1, 3])], groups
        )
        self.add_flow(datapath, 700, parser.OFPMatch(eth_type=0x86DD), [parser.OFPActionGroup(7)])
        self.expect(self.ask(parser.OFPGroupStatsRequest(datapath, 0, 7)).body[0].ref_count == 1, "no flow leads there")
        self.expect_error(
            parser.OFPGroupMod(datapath, ofproto.OFPGC_ADD, ofproto.OFPGT_SELECT, 7, buckets),
            ofproto.OFPET_GROUP_MOD_FAILED, ofproto.OFPGMFC_GROUP_EXISTS,
        )
        datapath.send_msg(
            parser.OFPGroupMod(datapath, ofproto.OFPGC_DELETE, ofproto.OFPGT_SELECT, ofproto.OFPG_ALL, [])
        )
        self.barrier(datapath)
        self.expect(
            all(flow.priority != 700 for flow in self.ask(parser.OFPFlowStatsRequest(datapath)).body),
            "the flow outlived its group",
        )

    def check_role(self, datapath, parser, ofproto):
        answer = self.ask(parser.OFPRoleRequest(datapath, ofproto.OFPCR_ROLE_MASTER, 5))
        self.expect(answer.role == ofproto.OFPCR_ROLE_MASTER and answer.generation_id == 5, vars(answer))
        self.expect_error(
            parser.OFPRoleRequest(datapath, ofproto.OFPCR_ROLE_SLAVE, 4), ofproto.OFPET_ROLE_REQUEST_FAILED,
            ofproto.OFPRRFC_STALE,
        )
        self.expect(self.ask(parser.OFPGetAsyncRequest(datapath)).packet_in_mask == [3, 0], "other masks")

    def check_errors(self, datapath, parser, ofproto):
        def flow(match=None, **options):
            return parser.OFPFlowMod(datapath, priority=9, match=match or parser.OFPMatch(), **options)
        apply = ofproto.OFPIT_APPLY_ACTIONS
        self.expect_error(
            flow(parser.OFPMatch(in_port=1, in_phy_port=1)), ofproto.OFPET_BAD_MATCH, ofproto.OFPBMC_BAD_FIELD
        )
        self.expect_error(flow(parser.OFPMatch(tcp_dst=80)), ofproto.OFPET_BAD_MATCH, ofproto.OFPBMC_BAD_PREREQ)
        self.expect_error(flow(table_id=254), ofproto.OFPET_FLOW_MOD_FAILED, ofproto.OFPFMFC_BAD_TABLE_ID)
        self.expect_error(
            flow(table_id=3, instructions=[parser.OFPInstructionGotoTable(2)]), ofproto.OFPET_BAD_INSTRUCTION,
            ofproto.OFPBIC_BAD_TABLE_ID,
        )
        self.expect_error(
            flow(instructions=[parser.OFPInstructionActions(apply, [parser.OFPActionOutput(77)])]),
            ofproto.OFPET_BAD_ACTION, ofproto.OFPBAC_BAD_OUT_PORT,
        )
        self.expect_error(
            flow(instructions=[parser.OFPInstructionActions(apply, [parser.OFPActionPushMpls(0x0800)])]),
            ofproto.OFPET_BAD_ACTION, ofproto.OFPBAC_BAD_ARGUMENT,
        )
        self.expect_error(
            parser.OFPMeterMod(
                datapath, ofproto.OFPMC_MODIFY, ofproto.OFPMF_KBPS, 99, [parser.OFPMeterBandDrop(rate=10)]
            ),
            ofproto.OFPET_METER_MOD_FAILED,
            ofproto.OFPMMFC_UNKNOWN_METER,
        )

    def check_overlap(self, datapath, parser, ofproto):
        apply = [parser.OFPInstructionActions(ofproto.OFPIT_APPLY_ACTIONS, [])]
        datapath.send_msg(
            parser.OFPFlowMod(datapath, priority=800, match=parser.OFPMatch(in_port=1), instructions=apply)
        )
        self.expect_error(
            parser.OFPFlowMod(
                datapath, priority=800, match=parser.OFPMatch(eth_type=0x9999), instructions=apply,
                flags=ofproto.OFPFF_CHECK_OVERLAP,
            ),
            ofproto.OFPET_FLOW_MOD_FAILED,
            ofproto.OFPFMFC_OVERLAP,
        )
        datapath.send_msg(
            parser.OFPFlowMod(
                datapath, command=ofproto.OFPFC_DELETE, match=parser.OFPMatch(in_port=1), out_port=ofproto.OFPP_ANY,
                out_group=ofproto.OFPG_ANY,
            )
        )
        self.barrier(datapath)


if __name__ == "__main__":
    cfg.CONF(args=["--ofp-listen-host", "127.0.0.1", "--ofp-tcp-listen-port", sys.argv[1]], project="os_ken")
    app_manager.AppManager.run_apps([__name__])
