#include "millrace/nf/switch/actions/action_list.hpp"

#include <algorithm>

#include "millrace/nf/classify/wide_fields.hpp"

namespace millrace::nf::flow_switch {
namespace {

using FlowFields = classify::WideFields;

/// Tags that a flow may push, and bytes of all that it pushes: frames grow by so many at most.
constexpr unsigned kMaxPushes = 2, kMaxPushedBytes = 40;

std::string several_ports() { return "the first " + std::to_string(kPortSetPorts) + " ports of a configuration only"; }

}  // namespace

ActionList::ActionList(const FlowMatch* match, uint16_t ports)
    : match_(match), ports_(ports),
      tagged_(match == nullptr || (match->mask.vlan & match->value.vlan & FlowFields::kTagged) != 0) {}

bool ActionList::has_type(uint16_t type) const {
    if (any_type_) return true;
    if (type_) return *type_ == type;
    return match_ != nullptr && match_->mask.eth_type == 0xffff && match_->value.eth_type == type;
}

bool ActionList::has_protocol(uint8_t protocol) const {
    if (any_type_) return true;
    if (protocol_) return *protocol_ == protocol;
    return (has_type(eth::kTypeIpv4) || has_type(eth::kTypeIpv6)) && match_->mask.protocol == 0xff &&
           match_->value.protocol == protocol;
}

void ActionList::want(bool there, const char* what, const char* hint) const {
    if (match_ != nullptr && !there)
        throw ActionMistake{BadAction::match_inconsistent,
                            std::string("works on ") + what + ", and the flow may match other packets", hint};
}

void ActionList::check(const Action& action) const {
    switch (action.kind) {
        case ActionKind::set_ip_src:
        case ActionKind::set_ip_dst:
            if (action.value == 6) return want(has_type(eth::kTypeIpv6), "IPv6", "begin the match with 'ipv6'");
            return want(has_type(eth::kTypeIpv4), "IPv4", "begin the match with 'ip'");
        case ActionKind::set_tos:
        case ActionKind::set_ttl:
        case ActionKind::dec_ttl:
            return want(has_type(eth::kTypeIpv4) || has_type(eth::kTypeIpv6), "IP",
                        "begin the match with 'ip' or 'ipv6'");
        case ActionKind::set_l4_src:
        case ActionKind::set_l4_dst: {
            const auto is = [&](uint8_t protocol) {
                return (action.high == 0 || action.high == protocol) && has_protocol(protocol);
            };
            return want(is(ip::kProtocolTcp) || is(ip::kProtocolUdp), "TCP or UDP",
                        "begin the match with 'tcp', 'udp', 'tcp6' or 'udp6'");
        }
        case ActionKind::set_vlan_id:
        case ActionKind::set_vlan_pcp:
            return want(tagged_, "tagged packets", "push_vlan before it, or match 'vlan_vid=0x1000/0x1000'");
        case ActionKind::push_vlan:
            if (action.value != eth::kTypeVlan && action.value != eth::kTypeQinq)
                throw ActionMistake{BadAction::bad_argument, "a tag is of type 0x8100 or 0x88a8", {}};
            return;
        default: return check_type(action);
    }
}

/// The actions beyond those of OpenFlow 1.0.
void ActionList::check_type(const Action& action) const {
    const bool mpls = has_type(eth::kTypeMpls) || has_type(eth::kTypeMplsUpstream);
    switch (action.kind) {
        case ActionKind::set_sctp_src:
        case ActionKind::set_sctp_dst:
            return want(has_protocol(ip::kProtocolSctp), "SCTP", "begin the match with 'sctp' or 'sctp6'");
        case ActionKind::set_ip_protocol:
            return want(has_type(eth::kTypeIpv4) || has_type(eth::kTypeIpv6), "IP",
                        "begin the match with 'ip' or 'ipv6'");
        case ActionKind::set_icmp:
            if (action.high == ip::kProtocolIcmp)
                return want(has_protocol(ip::kProtocolIcmp), "ICMP", "begin the match with 'icmp'");
            return want(has_protocol(ip::kProtocolIcmpv6), "ICMPv6", "begin the match with 'icmp6'");
        case ActionKind::set_nd_target:
        case ActionKind::set_nd_option:
            return want(has_protocol(ip::kProtocolIcmpv6), "ICMPv6", "begin the match with 'icmp6,icmpv6_type=135'");
        case ActionKind::set_arp: return want(has_type(eth::kTypeArp), "ARP", "begin the match with 'arp'");
        case ActionKind::set_flow_label: return want(has_type(eth::kTypeIpv6), "IPv6", "begin the match with 'ipv6'");
        case ActionKind::push_mpls:
            if (!eth::is_mpls(static_cast<uint16_t>(action.value)))
                throw ActionMistake{BadAction::bad_argument, "a label is of type 0x8847 or 0x8848", {}};
            return;
        case ActionKind::push_pbb:
            if (action.value != eth::kTypePbb)
                throw ActionMistake{BadAction::bad_argument, "an I-TAG is of type 0x88e7", {}};
            return;
        case ActionKind::set_mpls:
        case ActionKind::pop_mpls:
        case ActionKind::dec_mpls_ttl:
        case ActionKind::copy_ttl_in:
        case ActionKind::copy_ttl_out: return want(mpls, "MPLS", "begin the match with 'mpls'");
        case ActionKind::set_pbb:
        case ActionKind::pop_pbb: return want(has_type(eth::kTypePbb), "PBB", "match 'dl_type=0x88e7'");
        default: return;
    }
}

/// What the packet is behind an action that changes its type.
void ActionList::follow_type(const Action& action) {
    const auto becomes = [&](uint16_t type) {
        type_ = type;
        protocol_.reset();
        any_type_ = false;
    };
    switch (action.kind) {
        case ActionKind::push_mpls:
        case ActionKind::set_eth_type: return becomes(static_cast<uint16_t>(action.value));
        case ActionKind::push_pbb: return becomes(eth::kTypePbb);
        case ActionKind::set_ip_protocol: protocol_ = static_cast<uint8_t>(action.value); return;
        case ActionKind::pop_mpls:
        case ActionKind::pop_pbb: any_type_ = tagged_ = true; return;
        default: return;
    }
}

void ActionList::push(unsigned bytes) {
    pushed_bytes_ += bytes;
    tags_ += bytes == eth::kVlanBytes;
    if (tags_ > kMaxPushes)
        throw ActionMistake{BadAction::too_many, "a flow can push " + std::to_string(kMaxPushes) + " tags at most", {}};
    if (pushed_bytes_ > kMaxPushedBytes)
        throw ActionMistake{
            BadAction::too_many, "a flow can push " + std::to_string(kMaxPushedBytes) + " bytes at most", {}};
}

void ActionList::refuse_if_ended() const {
    if (ended_)
        throw ActionMistake{BadAction::unsupported_order, "nothing can stand behind a group or drop",
                            "make it the last action"};
}

void ActionList::begin_change() const {
    refuse_if_ended();
    if (sends())
        throw ActionMistake{BadAction::unsupported_order, "a packet leaves with the same bytes by all its ports",
                            "write the changes before the outputs"};
}

void ActionList::change(const Action& action) {
    begin_change();
    check(action);
    if (action.kind == ActionKind::push_vlan) push(eth::kVlanBytes);
    if (action.kind == ActionKind::push_mpls) push(eth::kMplsBytes);
    if (action.kind == ActionKind::push_pbb) push(eth::kPbbBytes);
    if (action.kind == ActionKind::push_vlan) tagged_ = true;
    if (action.kind == ActionKind::pop_vlan) tagged_ = match_ == nullptr;
    follow_type(action);
    actions_.push_back(action);
    // Which protocol's ports they are was asked above.
    if (action.kind == ActionKind::set_l4_src || action.kind == ActionKind::set_l4_dst) actions_.back().high = 0;
}

void ActionList::tag_if_none() {
    begin_change();
    if (tagged_) return;
    push(eth::kVlanBytes);
    tagged_ = true;
    actions_.push_back({ActionKind::push_vlan, eth::kTypeVlan, 1, 0});
}

void ActionList::output(uint16_t port) {
    refuse_if_ended();
    if (std::find(outputs_.begin(), outputs_.end(), port) != outputs_.end())
        throw ActionMistake{BadAction::too_many, "the packet leaves by this port already", {}};
    outputs_.push_back(port);
}

void ActionList::flood() {
    refuse_if_ended();
    flood_ = true;
}

void ActionList::all() {
    refuse_if_ended();
    all_ = true;
}

void ActionList::in_port() {
    refuse_if_ended();
    in_port_ = true;
}

void ActionList::controller() {
    refuse_if_ended();
    controller_ = true;
}

void ActionList::group(uint32_t id) {
    refuse_if_ended();
    if (sends())
        throw ActionMistake{BadAction::unsupported_order, "a packet goes to a group or to ports, not to both",
                            "give the group's buckets all outputs"};
    actions_.push_back({ActionKind::group, id, 0, 0});
    ended_ = true;
}

void ActionList::drop() {
    if (ended_ || sends() || !actions_.empty())
        throw ActionMistake{BadAction::unsupported_order, "'drop' stands with other actions", "write 'drop' alone"};
    ended_ = true;
}

void ActionList::add(const Action& action) {
    const auto by_port = [&](uint16_t port) {
        if (std::find(outputs_.begin(), outputs_.end(), port) == outputs_.end()) output(port);
    };
    switch (action.kind) {
        case ActionKind::output: return by_port(static_cast<uint16_t>(action.value));
        case ActionKind::output_set:
            for (uint16_t port = 0; port < kPortSetPorts; ++port)
                if ((action.low >> port & 1) != 0) by_port(port);
            if ((action.low & WrittenOutputs::kFlood) != 0) flood();
            if ((action.low & WrittenOutputs::kAll) != 0) all();
            if (action.high != 0) in_port();
            return;
        case ActionKind::controller: return controller();
        case ActionKind::group: return group(action.value);
        default: return change(action);
    }
}

std::vector<Action> ActionList::finish() {
    const bool to_all = flood_ || all_;
    const bool to_ports = !outputs_.empty() || to_all || in_port_;
    if (outputs_.size() == 1 && !to_all && !in_port_ && !controller_) {
        actions_.push_back({ActionKind::output, outputs_.front(), 0, 0});
    } else if (to_ports) {
        if (to_all && ports_ > kPortSetPorts)
            throw ActionMistake{BadAction::bad_out_port, "a packet can be flooded by " + several_ports(), {}};
        uint32_t named = 0;
        for (const uint16_t port : outputs_) {
            if (port >= kPortSetPorts)
                throw ActionMistake{
                    BadAction::bad_out_port,
                    "a packet can leave by several, or by one and for the controller, of " + several_ports(),
                    "list the ports that share packets first under 'ports:'"};
            named |= 1u << port;
        }
        const uint32_t set = to_all ? (uint32_t{1} << ports_) - 1 : named;
        const uint64_t written = named | (flood_ ? WrittenOutputs::kFlood : 0) | (all_ ? WrittenOutputs::kAll : 0);
        actions_.push_back({ActionKind::output_set, set, in_port_ ? 1u : 0u, written});
    }
    if (controller_) actions_.push_back({ActionKind::controller, 0, 0, 0});
    return std::move(actions_);
}

}  // namespace millrace::nf::flow_switch
