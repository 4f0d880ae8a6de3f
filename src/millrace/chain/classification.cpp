#include "millrace/chain/classification.hpp"

#include <algorithm>
#include <cstring>

namespace millrace::chain {
namespace {

bool in_prefix(const Prefix& prefix, const uint8_t* address) {
    const unsigned whole = prefix.length / 8, rest = prefix.length % 8;
    if (std::memcmp(prefix.bytes.data(), address, whole) != 0) return false;
    if (rest == 0) return true;
    const uint8_t mask = static_cast<uint8_t>(0xff00 >> rest);
    return ((prefix.bytes[whole] ^ address[whole]) & mask) == 0;
}

int32_t read_protocol(const Config& value) {
    static const std::vector<std::pair<std::string, int32_t>> kNames = {
        {"icmp", 1}, {"tcp", 6}, {"udp", 17}, {"gre", 47}, {"esp", 50}, {"icmpv6", 58}, {"sctp", 132}};
    for (const auto& [name, number] : kNames)
        if (value.text() == name) return number;
    if (value.text().find_first_not_of("0123456789") == std::string::npos)
        return static_cast<int32_t>(value.integer(0, 255));
    value.fail("unknown protocol '" + value.text() + "'",
               "tcp, udp, icmp, icmpv6, esp, gre, sctp, or a number from 0 to 255");
}

void read_ports(const Config& value, uint16_t& low, uint16_t& high) {
    const std::string text = value.text();
    const size_t dash = text.find('-');
    const auto number = [&](const std::string& digits) {
        if (digits.empty() || digits.size() > 5 || digits.find_first_not_of("0123456789") != std::string::npos ||
            std::stoul(digits) > 65535)
            value.fail("'" + text + "' is not a port or a range of ports", "write 80 or 1024-65535");
        return static_cast<uint16_t>(std::stoul(digits));
    };
    low = number(text.substr(0, dash));
    high = dash == std::string::npos ? low : number(text.substr(dash + 1));
    if (low > high) value.fail("the range '" + text + "' runs backwards", "the lower port comes first");
}

}  // namespace

ClassificationRule ClassificationRule::read(const Config& match, const std::vector<std::string>& ports) {
    match.only({"port", "vlan", "src", "dst", "protocol", "src-port", "dst-port"});
    ClassificationRule rule;
    if (const auto port = match.find("port")) rule.port = static_cast<uint16_t>(port->choice(ports));
    if (const auto vlan = match.find("vlan")) rule.vlan = static_cast<int32_t>(vlan->integer(0, 4094));
    if (const auto src = match.find("src")) rule.src = src->prefix(), rule.any_src = false;
    if (const auto dst = match.find("dst")) rule.dst = dst->prefix(), rule.any_dst = false;
    if (!rule.any_src && !rule.any_dst && rule.src.ipv6 != rule.dst.ipv6)
        match.fail("src and dst are of different IP versions", "no packet can match both");
    if (const auto protocol = match.find("protocol")) rule.protocol = read_protocol(*protocol);
    if (const auto range = match.find("src-port")) read_ports(*range, rule.src_port_low, rule.src_port_high);
    if (const auto range = match.find("dst-port")) read_ports(*range, rule.dst_port_low, rule.dst_port_high);
    return rule;
}

bool ClassificationRule::matches(const Packet& packet) const {
    const Layers& layers = packet.layers();
    if (port != kNoPort && port != packet.in_port()) return false;
    if (vlan >= 0 && (vlan == 0 ? layers.vlan_count != 0 : layers.vlan_count == 0 || layers.vlan_id != vlan))
        return false;
    if (!any_src || !any_dst) {
        if (!layers.is_ip()) return false;
        const bool ipv6 = layers.is_ipv6();
        const uint8_t* l3 = packet.l3();
        if (!any_src && (src.ipv6 != ipv6 || !in_prefix(src, l3 + (ipv6 ? 8 : 12)))) return false;
        if (!any_dst && (dst.ipv6 != ipv6 || !in_prefix(dst, l3 + (ipv6 ? 24 : 16)))) return false;
    }
    if (protocol >= 0 && (!layers.is_ip() || layers.protocol != protocol)) return false;
    const bool any_ports = src_port_low == 0 && src_port_high == 0xffff && dst_port_low == 0 && dst_port_high == 0xffff;
    if (any_ports) return true;
    if (!layers.has_ports()) return false;
    const uint16_t s = packet.l4_src_port(), d = packet.l4_dst_port();
    return s >= src_port_low && s <= src_port_high && d >= dst_port_low && d <= dst_port_high;
}

uint16_t Classification::chain_of_port(uint16_t port) const {
    for (const ClassificationRule& rule : rules_) {
        if (rule.port != kNoPort && rule.port != port) continue;
        return rule.port_only() ? rule.chain : kNoChain;
    }
    return kNoChain;
}

uint16_t Classification::chain_of(const Packet& packet) const {
    for (const ClassificationRule& rule : rules_)
        if (rule.matches(packet)) return rule.chain;
    return kNoChain;
}

bool Classification::uses_port(uint16_t port) const {
    return std::any_of(rules_.begin(), rules_.end(),
                       [port](const ClassificationRule& rule) { return rule.port == kNoPort || rule.port == port; });
}

}  // namespace millrace::chain
