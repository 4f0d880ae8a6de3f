#include "millrace/nf/switch/text/match_field.hpp"

#include <algorithm>
#include <bit>

#include "millrace/nf/classify/wide_fields.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::nf::flow_switch {
namespace {

using FlowFields = classify::WideFields;

/// Bits of a member.
template <auto Member, unsigned Shift, unsigned Bits>
struct Part {
    static constexpr uint64_t kOnes = ~uint64_t{0} >> (64 - Bits);
    static FieldValue get(const FlowFields& fields) {
        return {0, (static_cast<uint64_t>(fields.*Member) >> Shift) & kOnes};
    }
    static void put(FlowFields& fields, FieldValue value) {
        using Type = std::remove_reference_t<decltype(fields.*Member)>;
        fields.*Member = static_cast<Type>(fields.*Member | (value.low & kOnes) << Shift);
    }
};
template <auto High, auto Low>
struct Address6 {
    static FieldValue get(const FlowFields& fields) { return {fields.*High, fields.*Low}; }
    static void put(FlowFields& fields, FieldValue value) {
        fields.*High |= value.high;
        fields.*Low |= value.low;
    }
};

template <ActionKind Kind>
Action set_low(FieldValue to) {
    return {Kind, 0, 0, to.low};
}
template <ActionKind Kind, uint64_t High = 0>
Action set_value(FieldValue to) {
    return {Kind, static_cast<uint32_t>(to.low), High, 0};
}
template <ActionKind Kind, unsigned Offset, unsigned Bytes>
Action set_bytes(FieldValue to) {
    return {Kind, Offset, Bytes, to.low};
}
template <ActionKind Kind, unsigned Offset, uint64_t Protocol>
Action set_icmp(FieldValue to) {
    return {Kind, Offset, Protocol, to.low};
}
/// Bits of a word, with their mask.
template <ActionKind Kind, unsigned Shift, unsigned Bits>
Action set_bits(FieldValue to) {
    constexpr uint32_t kOnes = ~uint32_t{0} >> (32 - Bits);
    return {Kind, (static_cast<uint32_t>(to.low) & kOnes) << Shift, uint64_t{kOnes} << Shift, 0};
}
template <ActionKind Kind, unsigned Option>
Action set_option(FieldValue to) {
    return {Kind, Option, 0, to.low};
}
Action set_nd_target(FieldValue to) { return {ActionKind::set_nd_target, 0, to.high, to.low}; }
template <ActionKind Kind>
Action set_ipv4(FieldValue to) {
    return {Kind, 4, to.low << 32, 0};
}
template <ActionKind Kind>
Action set_ipv6(FieldValue to) {
    return {Kind, 6, to.high, to.low};
}
Action set_vlan_id(FieldValue to) { return {ActionKind::set_vlan_id, static_cast<uint32_t>(to.low & 0xfff), 0, 0}; }
Action set_dscp(FieldValue to) { return {ActionKind::set_tos, static_cast<uint32_t>(to.low << 2), 0xfc, 0}; }

template <auto Member, unsigned Shift, unsigned Bits>
constexpr MatchField field_at(uint8_t oxm, const char* name, uint8_t bytes, FieldNeed need, FieldForm form,
                              Fields of_packet, Action (*set)(FieldValue) = nullptr) {
    using Place = Part<Member, Shift, Bits>;
    return {oxm, name, bytes, Bits, need, form, of_packet, Place::get, Place::put, set};
}
template <auto High, auto Low>
constexpr MatchField address_at(uint8_t oxm, const char* name, Fields of_packet, Action (*set)(FieldValue),
                                FieldNeed need = FieldNeed::ipv6) {
    using Place = Address6<High, Low>;
    return {oxm, name, 16, 128, need, FieldForm::ipv6, of_packet, Place::get, Place::put, set};
}

using F = FlowFields;
using Need = FieldNeed;
using Form = FieldForm;
using Kind = ActionKind;
constexpr uint64_t kTcp = ip::kProtocolTcp, kUdp = ip::kProtocolUdp;
/// ARP's header lies where others have addresses and ports.
constexpr Fields kArp = field::ip | field::l4_ports;
/// Label stacks, I-TAGs and what is behind them.
constexpr Fields kShim = kArp | field::payload;
constexpr Fields kLabel = field::ip_version | field::ip_tos;

/// OpenFlow 1.3.5, table 11 and table 12. (ICMP's type and code take one byte there and two here, the upper of them
/// zero.)
constexpr MatchField kFields[] = {
    field_at<&F::in_port, 0, 32>(0, "in_port", 4, Need::nothing, Form::port, field::none),
    field_at<&F::metadata, 0, 64>(2, "metadata", 8, Need::nothing, Form::hex, field::none),
    field_at<&F::eth_dst, 0, 48>(3, "eth_dst", 6, Need::nothing, Form::mac, field::eth_dst, set_low<Kind::set_eth_dst>),
    field_at<&F::eth_src, 0, 48>(4, "eth_src", 6, Need::nothing, Form::mac, field::eth_src, set_low<Kind::set_eth_src>),
    field_at<&F::eth_type, 0, 16>(5, "eth_type", 2, Need::nothing, Form::hex, field::eth_type,
                                  set_value<Kind::set_eth_type>),
    field_at<&F::vlan, 0, 13>(6, "vlan_vid", 2, Need::nothing, Form::hex, field::vlan, set_vlan_id),
    field_at<&F::vlan, 13, 3>(7, "vlan_pcp", 1, Need::tag, Form::decimal, field::vlan, set_value<Kind::set_vlan_pcp>),
    field_at<&F::tos, 2, 6>(8, "ip_dscp", 1, Need::ip, Form::decimal, field::ip_tos, set_dscp),
    field_at<&F::tos, 0, 2>(9, "ip_ecn", 1, Need::ip, Form::decimal, field::ip_tos, set_value<Kind::set_tos, 3>),
    field_at<&F::protocol, 0, 8>(10, "ip_proto", 1, Need::ip, Form::decimal, field::ip_protocol,
                                 set_value<Kind::set_ip_protocol>),
    field_at<&F::ip_src_high, 32, 32>(11, "ip_src", 4, Need::ipv4, Form::ipv4, field::ip_src,
                                      set_ipv4<Kind::set_ip_src>),
    field_at<&F::ip_dst_high, 32, 32>(12, "ip_dst", 4, Need::ipv4, Form::ipv4, field::ip_dst,
                                      set_ipv4<Kind::set_ip_dst>),
    field_at<&F::l4_src, 0, 16>(13, "tcp_src", 2, Need::tcp, Form::decimal, field::l4_src_port,
                                set_value<Kind::set_l4_src, kTcp>),
    field_at<&F::l4_dst, 0, 16>(14, "tcp_dst", 2, Need::tcp, Form::decimal, field::l4_dst_port,
                                set_value<Kind::set_l4_dst, kTcp>),
    field_at<&F::l4_src, 0, 16>(15, "udp_src", 2, Need::udp, Form::decimal, field::l4_src_port,
                                set_value<Kind::set_l4_src, kUdp>),
    field_at<&F::l4_dst, 0, 16>(16, "udp_dst", 2, Need::udp, Form::decimal, field::l4_dst_port,
                                set_value<Kind::set_l4_dst, kUdp>),
    field_at<&F::l4_src, 0, 16>(17, "sctp_src", 2, Need::sctp, Form::decimal, field::l4_src_port | field::payload,
                                set_value<Kind::set_sctp_src>),
    field_at<&F::l4_dst, 0, 16>(18, "sctp_dst", 2, Need::sctp, Form::decimal, field::l4_dst_port | field::payload,
                                set_value<Kind::set_sctp_dst>),
    field_at<&F::l4_src, 0, 16>(19, "icmp_type", 1, Need::icmp, Form::decimal, field::icmp_type,
                                set_icmp<Kind::set_icmp, 0, ip::kProtocolIcmp>),
    field_at<&F::l4_dst, 0, 16>(20, "icmp_code", 1, Need::icmp, Form::decimal, field::icmp_type,
                                set_icmp<Kind::set_icmp, 1, ip::kProtocolIcmp>),
    field_at<&F::protocol, 0, 8>(21, "arp_op", 2, Need::arp, Form::decimal, kArp, set_bytes<Kind::set_arp, 6, 2>),
    field_at<&F::ip_src_high, 32, 32>(22, "arp_spa", 4, Need::arp, Form::ipv4, kArp, set_bytes<Kind::set_arp, 14, 4>),
    field_at<&F::ip_dst_high, 32, 32>(23, "arp_tpa", 4, Need::arp, Form::ipv4, kArp, set_bytes<Kind::set_arp, 24, 4>),
    field_at<&F::hw_src, 0, 48>(24, "arp_sha", 6, Need::arp, Form::mac, kArp, set_bytes<Kind::set_arp, 8, 6>),
    field_at<&F::hw_dst, 0, 48>(25, "arp_tha", 6, Need::arp, Form::mac, kArp, set_bytes<Kind::set_arp, 18, 6>),
    address_at<&F::ip_src_high, &F::ip_src_low>(26, "ipv6_src", field::ip_src, set_ipv6<Kind::set_ip_src>),
    address_at<&F::ip_dst_high, &F::ip_dst_low>(27, "ipv6_dst", field::ip_dst, set_ipv6<Kind::set_ip_dst>),
    field_at<&F::label, 0, 20>(28, "ipv6_label", 4, Need::ipv6, Form::hex, kLabel, set_value<Kind::set_flow_label>),
    field_at<&F::l4_src, 0, 16>(29, "icmpv6_type", 1, Need::icmpv6, Form::decimal, field::icmp_type,
                                set_icmp<Kind::set_icmp, 0, ip::kProtocolIcmpv6>),
    field_at<&F::l4_dst, 0, 16>(30, "icmpv6_code", 1, Need::icmpv6, Form::decimal, field::icmp_type,
                                set_icmp<Kind::set_icmp, 1, ip::kProtocolIcmpv6>),
    address_at<&F::nd_high, &F::nd_low>(31, "nd_target", field::everything, set_nd_target, Need::neighbour),
    field_at<&F::hw_src, 0, 48>(32, "nd_sll", 6, Need::solicitation, Form::mac, field::everything,
                                set_option<Kind::set_nd_option, classify::nd::kSource>),
    field_at<&F::hw_dst, 0, 48>(33, "nd_tll", 6, Need::advertisement, Form::mac, field::everything,
                                set_option<Kind::set_nd_option, classify::nd::kTarget>),
    field_at<&F::shim, 4, 20>(34, "mpls_label", 4, Need::mpls, Form::decimal, kShim, set_bits<Kind::set_mpls, 12, 20>),
    field_at<&F::shim, 1, 3>(35, "mpls_tc", 1, Need::mpls, Form::decimal, kShim, set_bits<Kind::set_mpls, 9, 3>),
    field_at<&F::shim, 0, 1>(36, "mpls_bos", 1, Need::mpls, Form::decimal, kShim, set_bits<Kind::set_mpls, 8, 1>),
    field_at<&F::shim, 0, 24>(37, "pbb_isid", 3, Need::pbb, Form::decimal, kShim, set_bits<Kind::set_pbb, 0, 24>),
    field_at<&F::tunnel, 0, 64>(38, "tun_id", 8, Need::nothing, Form::hex, field::none, set_low<Kind::set_tunnel>),
    field_at<&F::label, 20, 9>(39, "ipv6_exthdr", 2, Need::ipv6, Form::hex, field::ip_protocol | field::ip_options),
    field_at<&F::shim, 27, 1>(41, "pbb_uca", 1, Need::pbb, Form::decimal, kShim, set_bits<Kind::set_pbb, 27, 1>),
};

/// Names besides those above: OpenFlow's and, of OpenFlow 1.0, Open vSwitch's.
constexpr struct {
    const char* name;
    uint8_t oxm;
} kOtherNames[] = {{"ipv4_src", 11},    {"ipv4_dst", 12},       {"icmpv4_type", 19}, {"icmpv4_code", 20},
                   {"ipv6_flabel", 28}, {"ipv6_nd_target", 31}, {"ipv6_nd_sll", 32}, {"ipv6_nd_tll", 33},
                   {"tunnel_id", 38},   {"pbb_itag", 37},       {"dl_type", 5},      {"nw_proto", 10}};

/// Whether a flow needs Pipeline for what it matches.
bool is_wide(const FlowMatch& match) {
    const bool sctp_ports = match.value.protocol == ip::kProtocolSctp && match.mask.has != 0;
    return match.mask.wide() || sctp_ports || (match.mask.table != 0 && match.value.table != 0);
}

/// What an action reads and writes; checksums are read to be changed.
FieldsUsed used_by(const Action& action) {
    const auto both = [](Fields fields) { return FieldsUsed{fields, fields}; };
    switch (action.kind) {
        case Kind::set_eth_dst: return both(field::eth_dst);
        case Kind::set_eth_src: return both(field::eth_src);
        case Kind::push_vlan:
        case Kind::pop_vlan: return {field::everything, field::ethernet | field::length};
        case Kind::set_vlan_id:
        case Kind::set_vlan_pcp: return both(field::vlan);
        case Kind::set_ip_src: return both(field::ip_src | field::ip_checksum | field::l4_checksum);
        case Kind::set_ip_dst: return both(field::ip_dst | field::ip_checksum | field::l4_checksum);
        case Kind::set_tos: return both(field::ip_version | field::ip_tos | field::ip_checksum);
        case Kind::set_ttl:
        case Kind::dec_ttl: return both(field::ip_ttl | field::ip_protocol | field::ip_checksum);
        case Kind::set_l4_src: return both(field::l4_src_port | field::l4_checksum);
        case Kind::set_l4_dst: return both(field::l4_dst_port | field::l4_checksum);
        case Kind::set_sctp_src:
        case Kind::set_sctp_dst: return both(field::l4_ports | field::payload);
        case Kind::set_eth_type: return both(field::eth_type | field::vlan);
        case Kind::set_ip_protocol:
            return both(field::ip_protocol | field::ip_ttl | field::ip_options | field::ip_checksum |
                        field::l4_checksum);
        case Kind::set_icmp: return both(field::icmp_type | field::l4_checksum);
        case Kind::set_arp: return both(kArp);
        case Kind::set_flow_label: return both(kLabel);
        case Kind::set_nd_target:
        case Kind::set_nd_option: return both(field::everything);
        case Kind::set_mpls:
        case Kind::set_pbb:
        case Kind::dec_mpls_ttl:
        case Kind::copy_ttl_out:
        case Kind::copy_ttl_in: return both(kShim);
        case Kind::push_mpls:
        case Kind::pop_mpls:
        case Kind::push_pbb:
        case Kind::pop_pbb: return {field::everything, field::ethernet | field::length};
        case Kind::meter: return both(field::ip_version | field::ip_tos | field::ip_checksum);
        case Kind::group: return {field::five_tuple | field::ethernet | kArp, field::none};
        case Kind::output:
        case Kind::output_set:
        case Kind::set_tunnel:
        case Kind::clear:
        case Kind::write:
        case Kind::metadata:
        case Kind::go_to:
        case Kind::controller: return {};
    }
    return {};
}

}  // namespace

std::span<const MatchField> match_fields() { return kFields; }

const MatchField* find_match_field(uint8_t oxm) {
    const auto found = std::find_if(std::begin(kFields), std::end(kFields),
                                    [&](const MatchField& field) { return field.oxm == oxm; });
    return found == std::end(kFields) ? nullptr : found;
}

const MatchField* find_match_field(std::string_view name) {
    for (const MatchField& field : kFields)
        if (name == field.name) return &field;
    for (const auto& other : kOtherNames)
        if (name == other.name) return find_match_field(other.oxm);
    return nullptr;
}

std::optional<FieldValue> value_set(const MatchField& field, const Action& action) {
    if (field.set == nullptr) return std::nullopt;
    // What an action has of the value is where two actions with all and with no bits set differ.
    const Action none = field.set({}), all = field.set(field.all_ones());
    if (none.kind != action.kind) return std::nullopt;
    const bool port = action.kind == Kind::set_l4_src || action.kind == Kind::set_l4_dst;
    const uint32_t in_value = none.value ^ all.value;
    const uint64_t in_high = none.high ^ all.high, in_low = none.low ^ all.low;
    if ((action.value & ~in_value) != (none.value & ~in_value) || (action.low & ~in_low) != none.low ||
        (!port && (action.high & ~in_high) != (none.high & ~in_high)))
        return std::nullopt;
    if (field.oxm == 6) return FieldValue{0, action.value | uint64_t{FlowFields::kTagged}};
    if (in_value != 0) return FieldValue{0, (action.value & in_value) >> std::countr_zero(in_value)};
    if (in_high == 0) return FieldValue{0, action.low};
    return in_low != 0 ? FieldValue{action.high, action.low} : FieldValue{0, action.high >> 32};
}

bool needs_pipeline(const Flow& flow) {
    return is_wide(flow.match) || std::any_of(flow.actions.begin(), flow.actions.end(),
                                              [](const Action& action) { return !is_plain(action.kind); });
}

bool needs_pipeline(const Group& group) {
    return std::any_of(group.buckets.begin(), group.buckets.end(), [](const Group::Bucket& bucket) {
        return std::any_of(bucket.actions.begin(), bucket.actions.end(),
                           [](const Action& action) { return !is_plain(action.kind); });
    });
}

bool meets(FieldNeed need, const FlowMatch& match) {
    const auto type = [&](uint16_t wanted) { return match.mask.eth_type == 0xffff && match.value.eth_type == wanted; };
    const auto protocol = [&](uint64_t wanted) {
        return match.mask.protocol == 0xff && match.value.protocol == wanted;
    };
    const bool ip = type(eth::kTypeIpv4) || type(eth::kTypeIpv6);
    const auto solicits = [&](uint16_t wanted) {
        return type(eth::kTypeIpv6) && protocol(ip::kProtocolIcmpv6) && match.mask.l4_src == 0xffff &&
               match.value.l4_src == wanted;
    };
    switch (need) {
        case Need::nothing: return true;
        case Need::tag: return (match.mask.vlan & match.value.vlan & FlowFields::kTagged) != 0;
        case Need::ipv4: return type(eth::kTypeIpv4);
        case Need::ipv6: return type(eth::kTypeIpv6);
        case Need::ip: return ip;
        case Need::arp: return type(eth::kTypeArp);
        case Need::tcp: return ip && protocol(kTcp);
        case Need::udp: return ip && protocol(kUdp);
        case Need::sctp: return ip && protocol(ip::kProtocolSctp);
        case Need::neighbour: return solicits(classify::nd::kSolicitation) || solicits(classify::nd::kAdvertisement);
        case Need::solicitation: return solicits(classify::nd::kSolicitation);
        case Need::advertisement: return solicits(classify::nd::kAdvertisement);
        case Need::mpls: return type(eth::kTypeMpls) || type(eth::kTypeMplsUpstream);
        case Need::pbb: return type(eth::kTypePbb);
        case Need::icmp: return type(eth::kTypeIpv4) && protocol(ip::kProtocolIcmp);
        case Need::icmpv6: return type(eth::kTypeIpv6) && protocol(ip::kProtocolIcmpv6);
    }
    return false;
}

FieldsUsed fields_used(const std::vector<Flow>& flows, const std::vector<Group>& groups) {
    FieldsUsed used;
    const auto add = [&](const std::vector<Action>& actions) {
        for (const Action& action : actions) {
            const FieldsUsed more = used_by(action);
            used.reads |= more.reads;
            used.writes |= more.writes;
        }
    };
    for (const Flow& flow : flows) {
        for_each_field(flow.match,
                       [&](const MatchField& field, FieldValue, FieldValue) { used.reads |= field.of_packet; });
        add(flow.actions);
    }
    for (const Group& group : groups)
        for (const Group::Bucket& bucket : group.buckets) add(bucket.actions);
    return used;
}

}  // namespace millrace::nf::flow_switch
