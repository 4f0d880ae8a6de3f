#include "millrace/nf/switch/action_list.hpp"

#include <algorithm>

#include "millrace/packet/headers.hpp"

namespace millrace::nf::flow_switch {
namespace {

using classify::FlowFields;

/// Tags that a flow may push: frames grow by so many at most.
constexpr int kMaxPushes = 2;

std::string several_ports() { return "the first " + std::to_string(kPortSetPorts) + " ports of a configuration only"; }

}  // namespace

ActionList::ActionList(const FlowMatch* match, uint16_t ports)
    : match_(match), ports_(ports),
      tagged_(match == nullptr || (match->mask.vlan & match->value.vlan & FlowFields::kTagged) != 0) {}

bool ActionList::has_type(uint16_t type) const {
    return match_ != nullptr && match_->mask.eth_type == 0xffff && match_->value.eth_type == type;
}

bool ActionList::has_protocol(uint8_t protocol) const {
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
        default: return;
    }
}

void ActionList::push() {
    if (++pushes_ > kMaxPushes)
        throw ActionMistake{BadAction::too_many, "a flow can push " + std::to_string(kMaxPushes) + " tags at most", {}};
    tagged_ = true;
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
    if (action.kind == ActionKind::push_vlan) push();
    if (action.kind == ActionKind::pop_vlan) tagged_ = match_ == nullptr;
    actions_.push_back(action);
    // Which protocol's ports they are was asked above.
    if (action.kind == ActionKind::set_l4_src || action.kind == ActionKind::set_l4_dst) actions_.back().high = 0;
}

void ActionList::tag_if_none() {
    begin_change();
    if (tagged_) return;
    push();
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
