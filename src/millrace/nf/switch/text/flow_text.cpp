// Flows in words.
#include <arpa/inet.h>
#include <fmt/format.h>

#include "millrace/nf/switch/actions/instructions.hpp"
#include "millrace/nf/switch/text/match_field.hpp"

namespace millrace::nf::flow_switch {
namespace {

std::string mac_text(uint64_t mac) {
    return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac >> 40 & 0xff, mac >> 32 & 0xff,
                       mac >> 24 & 0xff, mac >> 16 & 0xff, mac >> 8 & 0xff, mac & 0xff);
}

std::string ipv4_text(uint64_t address) {
    return fmt::format("{}.{}.{}.{}", address >> 24 & 0xff, address >> 16 & 0xff, address >> 8 & 0xff, address & 0xff);
}

std::string ipv6_text(FieldValue address) {
    uint8_t bytes[16];
    for (unsigned i = 0; i < 16; ++i)
        bytes[i] = static_cast<uint8_t>((i < 8 ? address.high : address.low) >> (56 - 8 * (i % 8)));
    char text[INET6_ADDRSTRLEN];
    return inet_ntop(AF_INET6, bytes, text, sizeof text);
}

/// The number of leading ones; -1 where there are others behind them.
int prefix_length(FieldValue mask) {
    int length = 0;
    while (length < 128 && ((length < 64 ? mask.high >> (63 - length) : mask.low >> (127 - length)) & 1)) ++length;
    const FieldValue rest = {length >= 64 ? 0 : mask.high << length, length >= 128  ? 0
                                                                     : length >= 64 ? mask.low << (length - 64)
                                                                                    : mask.low};
    return rest.any() ? -1 : length;
}

std::string value_text(const MatchField& field, FieldValue value, const PortNumbers& ports) {
    switch (field.form) {
        case FieldForm::mac: return mac_text(value.low);
        case FieldForm::ipv4: return ipv4_text(value.low);
        case FieldForm::ipv6: return ipv6_text(value);
        case FieldForm::port: return std::to_string(ports.number(static_cast<uint16_t>(value.low)));
        case FieldForm::hex: return fmt::format("{:#x}", value.low);
        case FieldForm::decimal: break;
    }
    return std::to_string(value.low);
}

std::string mask_text(const MatchField& field, FieldValue mask) {
    if (mask == field.all_ones()) return {};
    if (field.form == FieldForm::mac) return "/" + mac_text(mask.low);
    if (field.form == FieldForm::ipv4) return "/" + ipv4_text(mask.low);
    if (field.form == FieldForm::ipv6) {
        const int length = prefix_length(mask);
        return "/" + (length < 0 ? ipv6_text(mask) : std::to_string(length));
    }
    return fmt::format("/{:#x}", mask.low);
}

/// What sets a field, by its name.
std::string set_field_text(const Action& action, const PortNumbers& ports) {
    for (const MatchField& field : match_fields())
        if (const auto value = value_set(field, action))
            return fmt::format("set_field:{}->{}", value_text(field, *value, ports), field.name);
    return fmt::format("set_mpls_ttl:{}", action.value);
}

std::string action_text(const Action& action, const PortNumbers& ports) {
    using Kind = ActionKind;
    const bool six = action.value == 6;
    const auto address = [&] { return six ? ipv6_text({action.high, action.low}) : ipv4_text(action.high >> 32); };
    switch (action.kind) {
        case Kind::set_eth_dst: return "mod_dl_dst:" + mac_text(action.low);
        case Kind::set_eth_src: return "mod_dl_src:" + mac_text(action.low);
        case Kind::push_vlan: return fmt::format("push_vlan:{:#x}", action.value);
        case Kind::pop_vlan: return "pop_vlan";
        case Kind::set_vlan_id:
            return fmt::format("set_field:{}->vlan_vid", action.value | classify::FlowFields::kTagged);
        case Kind::set_vlan_pcp: return fmt::format("set_field:{}->vlan_pcp", action.value);
        case Kind::set_ip_src: return fmt::format("set_field:{}->{}", address(), six ? "ipv6_src" : "ip_src");
        case Kind::set_ip_dst: return fmt::format("set_field:{}->{}", address(), six ? "ipv6_dst" : "ip_dst");
        case Kind::set_tos:
            return action.high == 3 ? fmt::format("mod_nw_ecn:{}", action.value)
                                    : fmt::format("mod_nw_tos:{}", action.value);
        case Kind::set_ttl: return fmt::format("mod_nw_ttl:{}", action.value);
        case Kind::dec_ttl: return "dec_ttl";
        case Kind::set_l4_src: return fmt::format("mod_tp_src:{}", action.value);
        case Kind::set_l4_dst: return fmt::format("mod_tp_dst:{}", action.value);
        case Kind::group: return fmt::format("group:{}", action.value);
        case Kind::output: return fmt::format("output:{}", ports.number(static_cast<uint16_t>(action.value)));
        case Kind::controller: return "controller";
        case Kind::push_mpls: return fmt::format("push_mpls:{:#x}", action.value);
        case Kind::pop_mpls: return fmt::format("pop_mpls:{:#x}", action.value);
        case Kind::push_pbb: return fmt::format("push_pbb:{:#x}", action.value);
        case Kind::pop_pbb: return "pop_pbb";
        case Kind::dec_mpls_ttl: return "dec_mpls_ttl";
        case Kind::copy_ttl_out: return "copy_ttl_out";
        case Kind::copy_ttl_in: return "copy_ttl_in";
        case Kind::output_set: break;
        default: return set_field_text(action, ports);
    }
    std::string text;
    const auto add = [&](const std::string& output) { text += (text.empty() ? "" : ",") + output; };
    for (uint16_t port = 0; port < kPortSetPorts; ++port)
        if (action.low >> port & 1) add(fmt::format("output:{}", ports.number(port)));
    if ((action.low & WrittenOutputs::kFlood) != 0) add("flood");
    if ((action.low & WrittenOutputs::kAll) != 0) add("all");
    if (action.high != 0) add("in_port");
    return text;
}

}  // namespace

std::string text_of(const Flow& flow, const PortNumbers& ports) {
    std::string text = fmt::format("priority={}", flow.priority);
    if (flow.table() != 0) text = fmt::format("table={},", flow.table()) + text;
    if (flow.cookie != 0) text += fmt::format(",cookie={:#x}", flow.cookie);
    if (flow.idle_timeout != 0) text += fmt::format(",idle_timeout={}", flow.idle_timeout);
    if (flow.hard_timeout != 0) text += fmt::format(",hard_timeout={}", flow.hard_timeout);
    for_each_field(flow.match, [&](const MatchField& field, FieldValue value, FieldValue mask) {
        text += fmt::format(",{}={}{}", field.name, value_text(field, value, ports), mask_text(field, mask));
    });
    text += ",actions=";
    if (flow.actions.empty()) return text + "drop";
    const Instructions parts = instructions_of(flow.actions);
    std::string list;
    const auto add = [&](const std::string& word) { list += (list.empty() ? "" : ",") + word; };
    if (parts.meter) add(fmt::format("meter:{}", *parts.meter));
    for (const Action& action : parts.applied) add(action_text(action, ports));
    if (parts.clears) add("clear_actions");
    std::string written;
    for (const Action& action : parts.written) written += (written.empty() ? "" : ",") + action_text(action, ports);
    if (!written.empty()) add("write_actions(" + written + ")");
    if (parts.metadata) add(fmt::format("write_metadata:{:#x}/{:#x}", parts.metadata->first, parts.metadata->second));
    if (parts.next_table) add(fmt::format("goto_table:{}", *parts.next_table));
    return text + list;
}

}  // namespace millrace::nf::flow_switch
