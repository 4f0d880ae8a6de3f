#include "millrace/chain/classification/classification.hpp"

#include <algorithm>

#include "millrace/chain/classification/classification_table.hpp"

namespace millrace::chain {
namespace {

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

Classification::Classification(std::vector<ClassificationRule> rules, size_t ports)
    : rules_(std::move(rules)), ports_(ports) {
    bool looks = false;
    for (uint16_t port = 0; port < ports; ++port) {
        const auto first = std::find_if(rules_.begin(), rules_.end(), [port](const ClassificationRule& rule) {
            return rule.port == kNoPort || rule.port == port;
        });
        if (first == rules_.end()) continue;
        ports_[port] = {first->port_only() ? first->chain : kNoChain, true};
        looks |= !first->port_only();
    }
    if (looks) table_ = std::make_shared<const ClassificationTable>(rules_);
}

uint16_t Classification::chain_of(const Packet& packet) const {
    if (table_ == nullptr) return chain_of_port(packet.in_port());
    return table_->chain_of(packet);
}

}  // namespace millrace::chain
