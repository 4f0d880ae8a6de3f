// The match of a flow.
#include "millrace/nf/switch/text/match_parser.hpp"

#include <functional>

#include "millrace/base/text/diagnostic.hpp"
#include "millrace/nf/classify/rules/five_tuple.hpp"
#include "millrace/nf/classify/wide_fields.hpp"

namespace millrace::nf::flow_switch {
namespace {

using FlowFields = classify::WideFields;
using classify::HeaderKey;

constexpr uint64_t kMac = 0xffffffffffffu;

/// Words that stand for a type and a protocol, alone.
struct Shorthand {
    const char* name;
    uint16_t eth_type;
    int protocol;  ///< -1: any
};
constexpr Shorthand kShorthands[] = {
    {"ip", eth::kTypeIpv4, -1},
    {"ipv6", eth::kTypeIpv6, -1},
    {"icmp", eth::kTypeIpv4, ip::kProtocolIcmp},
    {"icmp6", eth::kTypeIpv6, ip::kProtocolIcmpv6},
    {"tcp", eth::kTypeIpv4, ip::kProtocolTcp},
    {"tcp6", eth::kTypeIpv6, ip::kProtocolTcp},
    {"udp", eth::kTypeIpv4, ip::kProtocolUdp},
    {"udp6", eth::kTypeIpv6, ip::kProtocolUdp},
    {"sctp", eth::kTypeIpv4, ip::kProtocolSctp},
    {"sctp6", eth::kTypeIpv6, ip::kProtocolSctp},
    {"arp", eth::kTypeArp, -1},
    {"mpls", eth::kTypeMpls, -1},
    {"mplsm", eth::kTypeMplsUpstream, -1},
};

/// Asks a field for a value; a field that was asked for another one before is a mistake.
template <class T>
void ask(Word word, T& value, T& mask, uint64_t to, uint64_t bits) {
    const T both = static_cast<T>(mask & bits);
    if ((value & both) != (to & both))
        word.fail("this asks a field for a second value", "a packet has one; write another flow for the other");
    value = static_cast<T>((value & ~bits) | (to & bits));
    mask = static_cast<T>(mask | bits);
}

/// An IPv4 address with a length, a mask or neither.
std::pair<uint32_t, uint32_t> parse_ipv4(Word word) {
    const auto [address, mask] = word.split('/');
    if (mask.text.find('.') != std::string_view::npos) {
        const uint32_t bits = parse_host(mask, false).ipv4();
        return {parse_host(address, false).ipv4() & bits, bits};
    }
    const auto prefix = parse_prefix(word.text, true);
    if (!prefix || prefix->ipv6)
        word.fail(word.quoted() + " is not an IPv4 address or prefix", "write it as 192.0.2.0/24");
    return {prefix->ipv4(), prefix->length == 0 ? 0 : 0xffffffffu << (32 - prefix->length)};
}

/// The transport protocol that a field's name says; 0 for `tp_…` and `icmp…`, which look at the match.
uint8_t protocol_of(std::string_view name) {
    return name.starts_with("tcp_") ? ip::kProtocolTcp : name.starts_with("udp_") ? ip::kProtocolUdp : uint8_t{0};
}

class MatchReader {
public:
    MatchReader(FlowMatch& match, const PortNumbers& ports) : v_(match.value), m_(match.mask), ports_(ports) {}

    /// False when there is no field of that name.
    bool read(Word name, Word value) {
        static const std::map<std::string, void (MatchReader::*)(Word, Word), std::less<>> kFields = {
            {"in_port", &MatchReader::in_port},      {"dl_src", &MatchReader::mac},
            {"eth_src", &MatchReader::mac},          {"dl_dst", &MatchReader::mac},
            {"eth_dst", &MatchReader::mac},          {"dl_type", &MatchReader::eth_type},
            {"eth_type", &MatchReader::eth_type},    {"dl_vlan", &MatchReader::dl_vlan},
            {"dl_vlan_pcp", &MatchReader::vlan_pcp}, {"vlan_pcp", &MatchReader::vlan_pcp},
            {"vlan_vid", &MatchReader::vlan_vid},    {"vlan_tci", &MatchReader::vlan_tci},
            {"nw_src", &MatchReader::ipv4},          {"ip_src", &MatchReader::ipv4},
            {"nw_dst", &MatchReader::ipv4},          {"ip_dst", &MatchReader::ipv4},
            {"arp_spa", &MatchReader::ipv4},         {"arp_tpa", &MatchReader::ipv4},
            {"ipv6_src", &MatchReader::ipv6},        {"ipv6_dst", &MatchReader::ipv6},
            {"nw_proto", &MatchReader::protocol},    {"ip_proto", &MatchReader::protocol},
            {"arp_op", &MatchReader::protocol},      {"nw_tos", &MatchReader::tos},
            {"ip_dscp", &MatchReader::tos},          {"nw_ecn", &MatchReader::tos},
            {"ip_ecn", &MatchReader::tos},           {"tp_src", &MatchReader::ports},
            {"tp_dst", &MatchReader::ports},         {"tcp_src", &MatchReader::ports},
            {"tcp_dst", &MatchReader::ports},        {"udp_src", &MatchReader::ports},
            {"udp_dst", &MatchReader::ports},        {"icmp_type", &MatchReader::icmp},
            {"icmp_code", &MatchReader::icmp},       {"icmpv6_type", &MatchReader::icmp},
            {"icmpv6_code", &MatchReader::icmp},
        };
        const auto found = kFields.find(name.text);
        if (found != kFields.end()) (this->*found->second)(name, value);
        else if (const MatchField* const field = find_match_field(name.text)) any_field(*field, name, value);
        else return false;
        return true;
    }
    bool shorthand(Word name) {
        for (const Shorthand& known : kShorthands) {
            if (name.text != known.name) continue;
            ask(name, v_.eth_type, m_.eth_type, known.eth_type, 0xffff);
            if (known.protocol >= 0) ask(name, v_.protocol, m_.protocol, static_cast<uint64_t>(known.protocol), 0xff);
            return true;
        }
        return false;
    }

private:
    /// A field that is written as OpenFlow has it.
    void any_field(const MatchField& field, Word name, Word value) {
        if (!meets(field.need, {v_, m_}))
            name.fail(name.quoted() + " asks for " + words_of(field.need).first + ", and the flow does not",
                      words_of(field.need).second);
        const auto [to, bits] = value.split('/');
        const bool whole = to.text.size() == value.text.size();
        const FieldValue mask = whole ? field.all_ones() : read_mask(field, bits);
        const FieldValue wanted = read_value(field, to) & mask;
        const FieldValue both = field.get(m_) & mask;
        if ((field.get(v_) & both) != (wanted & both))
            value.fail("this asks a field for a second value", "a packet has one; write another flow for the other");
        field.put(v_, wanted);
        field.put(m_, mask);
        if (field.need == FieldNeed::sctp) v_.has = m_.has = HeaderKey::kPorts;
    }
    static FieldValue read_mask(const MatchField& field, Word word) {
        if (field.form != FieldForm::ipv6 || word.text.find(':') != std::string_view::npos)
            return read_value(field, word);
        const auto length = static_cast<unsigned>(parse_number(word, 128));
        return {length == 0 ? 0 : ~uint64_t{0} << (length >= 64 ? 0 : 64 - length),
                length <= 64 ? 0 : ~uint64_t{0} << (128 - length)};
    }
    static std::pair<const char*, const char*> words_of(FieldNeed need) {
        switch (need) {
            case FieldNeed::arp: return {"ARP", "write 'arp' before it"};
            case FieldNeed::sctp: return {"SCTP", "write 'sctp' or 'sctp6' before it"};
            case FieldNeed::ipv6: return {"IPv6", "write 'ipv6' before it"};
            case FieldNeed::mpls: return {"MPLS", "write 'mpls' before it"};
            case FieldNeed::pbb: return {"PBB", "write 'dl_type=0x88e7' before it"};
            case FieldNeed::neighbour:
            case FieldNeed::solicitation: return {"neighbour discovery", "write 'icmp6,icmpv6_type=135' before it"};
            case FieldNeed::advertisement: return {"neighbour discovery", "write 'icmp6,icmpv6_type=136' before it"};
            default: return {"another type", "match that before it"};
        }
    }

    bool has_type(uint16_t type) const { return m_.eth_type == 0xffff && v_.eth_type == type; }
    bool has_ip() const { return has_type(eth::kTypeIpv4) || has_type(eth::kTypeIpv6); }
    void want(bool there, Word name, const char* what, const char* hint) const {
        if (!there) name.fail(name.quoted() + " asks for " + what + ", and the flow does not", hint);
    }

    void in_port(Word, Word value) {
        const auto port = ports_.find(value.text);
        if (!port) value.fail("there is no port " + value.quoted(), "the ports are " + ports_.text());
        ask(value, v_.in_port, m_.in_port, *port, 0xffffffffu);
    }
    void mac(Word name, Word value) {
        const auto [address, bits] = value.split('/');
        const uint64_t mask = bits.text.empty() ? kMac : parse_mac_number(bits);
        const bool src = name.text.ends_with("src");
        ask(value, src ? v_.eth_src : v_.eth_dst, src ? m_.eth_src : m_.eth_dst, parse_mac_number(address) & mask,
            mask);
    }
    void eth_type(Word, Word value) { ask(value, v_.eth_type, m_.eth_type, parse_number(value, 0xffff), 0xffff); }
    /// OpenFlow 1.0: 0xffff asks for no tag.
    void dl_vlan(Word, Word value) {
        const uint64_t id = parse_number(value, 0xffff);
        if (id == 0xffff) return ask(value, v_.vlan, m_.vlan, 0, FlowFields::kTagged);
        if (id > 0xfff) value.fail(value.quoted() + " is not a VLAN identifier from 0 to 4095, nor 0xffff for no tag");
        ask(value, v_.vlan, m_.vlan, id | FlowFields::kTagged, 0xfff | FlowFields::kTagged);
    }
    /// OpenFlow 1.2 and later: 0x1000 says that there is a tag.
    void vlan_vid(Word, Word value) {
        const auto [id, mask] = parse_masked(value, 0x1fff);
        ask(value, v_.vlan, m_.vlan, id, mask);
    }
    void vlan_tci(Word, Word value) {
        const auto [tci, mask] = parse_masked(value, 0xffff);
        ask(value, v_.vlan, m_.vlan, tci, mask);
    }
    void vlan_pcp(Word, Word value) {
        ask(value, v_.vlan, m_.vlan, parse_number(value, 7) << 13 | FlowFields::kTagged, 0xe000 | FlowFields::kTagged);
    }
    void ipv4(Word name, Word value) {
        const bool arp = name.text.starts_with("arp");
        if (arp) want(has_type(eth::kTypeArp), name, "ARP", "write 'arp' before it");
        else want(has_type(eth::kTypeIpv4) || has_type(eth::kTypeArp), name, "IPv4", "write 'ip' before it");
        const auto [address, mask] = parse_ipv4(value);
        const bool src = name.text.ends_with("src") || name.text == "arp_spa";
        ask(value, src ? v_.ip_src_high : v_.ip_dst_high, src ? m_.ip_src_high : m_.ip_dst_high,
            static_cast<uint64_t>(address) << 32, static_cast<uint64_t>(mask) << 32);
    }
    void ipv6(Word name, Word value) {
        want(has_type(eth::kTypeIpv6), name, "IPv6", "write 'ipv6' before it");
        const auto prefix = parse_prefix(value.text, true);
        if (!prefix || !prefix->ipv6)
            value.fail(value.quoted() + " is not an IPv6 address or prefix", "write it as 2001:db8::/32");
        const unsigned length = prefix->length;
        const uint64_t high = length == 0 ? 0 : ~uint64_t{0} << (length >= 64 ? 0 : 64 - length);
        const uint64_t low = length <= 64 ? 0 : ~uint64_t{0} << (128 - length);
        const bool src = name.text.ends_with("src");
        ask(value, src ? v_.ip_src_high : v_.ip_dst_high, src ? m_.ip_src_high : m_.ip_dst_high,
            classify::high_half(*prefix), high);
        ask(value, src ? v_.ip_src_low : v_.ip_dst_low, src ? m_.ip_src_low : m_.ip_dst_low,
            classify::low_half(*prefix), low);
    }
    void protocol(Word name, Word value) {
        if (name.text == "arp_op") want(has_type(eth::kTypeArp), name, "ARP", "write 'arp' before it");
        else want(has_ip() || has_type(eth::kTypeArp), name, "IP", "write 'ip' or 'ipv6' before it");
        ask(value, v_.protocol, m_.protocol, parse_number(value, 0xff), 0xff);
    }
    void tos(Word name, Word value) {
        want(has_ip(), name, "IP", "write 'ip' or 'ipv6' before it");
        if (name.text.ends_with("ecn")) return ask(value, v_.tos, m_.tos, parse_number(value, 3), 3);
        if (name.text == "ip_dscp") return ask(value, v_.tos, m_.tos, parse_number(value, 63) << 2, 0xfc);
        const uint64_t tos = parse_number(value, 0xff);
        if ((tos & 3) != 0)
            value.fail("the two lowest bits of nw_tos are ECN's and must be 0", "match those with nw_ecn");
        ask(value, v_.tos, m_.tos, tos, 0xfc);
    }
    void ports(Word name, Word value) {
        const uint8_t wanted = protocol_of(name.text);
        const bool any = v_.protocol == ip::kProtocolTcp || v_.protocol == ip::kProtocolUdp ||
                         v_.protocol == ip::kProtocolSctp;
        const bool known = has_ip() && m_.protocol == 0xff && (wanted == 0 ? any : v_.protocol == wanted);
        want(known, name, "TCP, UDP or SCTP",
             "write 'tcp', 'udp', 'sctp', 'tcp6', … before it; ports of other protocols are not looked at");
        const auto [port, mask] = parse_masked(value, 0xffff);
        l4(value, name.text.ends_with("src"), port, mask);
    }
    void icmp(Word name, Word value) {
        const bool six = name.text.starts_with("icmpv6");
        want(m_.protocol == 0xff && v_.protocol == (six ? ip::kProtocolIcmpv6 : ip::kProtocolIcmp), name,
             six ? "ICMPv6" : "ICMP", six ? "write 'icmp6' before it" : "write 'icmp' before it");
        l4(value, name.text.ends_with("type"), parse_number(value, 0xff), 0xffff);
    }
    void l4(Word value, bool src, uint64_t to, uint64_t mask) {
        ask(value, src ? v_.l4_src : v_.l4_dst, src ? m_.l4_src : m_.l4_dst, to, mask);
        if (mask != 0) v_.has = m_.has = HeaderKey::kPorts;
    }

    FlowFields& v_;
    FlowFields& m_;
    const PortNumbers& ports_;
};

}  // namespace

FieldValue read_value(const MatchField& field, Word word) {
    switch (field.form) {
        case FieldForm::mac: return {0, parse_mac_number(word)};
        case FieldForm::ipv4: return {0, parse_host(word, false).ipv4()};
        case FieldForm::ipv6: {
            const Prefix host = parse_host(word, true);
            return {classify::high_half(host), classify::low_half(host)};
        }
        default: return {0, parse_number(word, field.all_ones().low)};
    }
}

bool read_match(Word name, Word value, const PortNumbers& ports, FlowMatch& match) {
    MatchReader reader(match, ports);
    return value.offset == name.offset + name.text.size() ? reader.shorthand(name) : reader.read(name, value);
}

}  // namespace millrace::nf::flow_switch
