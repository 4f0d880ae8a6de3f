#include "millrace/nf/classify/rules/rule.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "millrace/packet/headers.hpp"

namespace millrace::nf::classify {
namespace {

bool address_matches(const Prefix& prefix, uint64_t high, uint64_t low) {
    return prefix.length == 0 || contains(prefix, high, low);
}

bool port_matches(const PortRange& range, const HeaderKey& key, uint16_t port) {
    return range.any() || (key.has_ports() && range.contains(port));
}

/// The list, or one value that matches anything.
template <class T>
std::vector<T> or_any(const std::vector<T>& list) {
    return list.empty() ? std::vector<T>{T{}} : list;
}

std::string endpoint(const Prefix& prefix, const PortRange& ports, bool one_family) {
    return (prefix.length == 0 && !one_family ? "any" : prefix.text()) +
           (ports.any() ? "" : " port " + ports_text(ports));
}

}  // namespace

bool matches(const Box& box, const HeaderKey& key) {
    if (key.ip_version == 4 ? !box.ipv4 : key.ip_version != 6 || !box.ipv6) return false;
    return address_matches(box.src, key.src_high, key.src_low) && address_matches(box.dst, key.dst_high, key.dst_low) &&
           port_matches(box.src_port, key, key.src_port) && port_matches(box.dst_port, key, key.dst_port) &&
           box.protocol.contains(key.protocol) &&
           (box.tcp_flags.any() || (key.has_flags() && box.tcp_flags.contains(key.tcp_flags))) &&
           box.connections.contains(key.connection);
}

void RuleSet::add(Rule rule, Box box) {
    if (boxes.size() >= kMaxBoxes)
        throw WordMistake{0, "there are more than " + std::to_string(kMaxBoxes) + " rules",
                          "split them between firewalls"};
    box.rule = static_cast<uint32_t>(rules.size());
    rule.first_box = static_cast<uint32_t>(boxes.size());
    boxes.push_back(box);
    rules.push_back(std::move(rule));
}

void RuleSet::add(Rule rule, const FiveTupleMatch& match, ByteMatch flags, ConnectionSet connections) {
    constexpr size_t kMaxCombinations = 65536;
    const auto sources = or_any(match.src), destinations = or_any(match.dst);
    const auto src_ports = or_any(match.src_ports), dst_ports = or_any(match.dst_ports);
    const auto protocols = or_any(match.protocols);
    size_t combinations = 1;
    for (const size_t count :
         {sources.size(), destinations.size(), src_ports.size(), dst_ports.size(), protocols.size()}) {
        combinations *= count;
        if (combinations > kMaxCombinations)
            throw WordMistake{
                0, "the lists of this rule make more than " + std::to_string(kMaxCombinations) + " combinations",
                "split it into several rules"};
    }
    if (boxes.size() + combinations > kMaxBoxes)
        throw WordMistake{0, "there are more than " + std::to_string(kMaxBoxes) + " rules and combinations",
                          "split them between firewalls"};

    const size_t first = boxes.size();
    for (const Prefix& src : sources)
        for (const Prefix& dst : destinations) {
            // Lists may mix the families: a pair of both matches nothing and makes no box.
            const bool v4 = (match.src.empty() || !src.ipv6) && (match.dst.empty() || !dst.ipv6);
            const bool v6 = (match.src.empty() || src.ipv6) && (match.dst.empty() || dst.ipv6);
            if (!v4 && !v6) continue;
            for (const PortRange& src_port : src_ports)
                for (const PortRange& dst_port : dst_ports)
                    for (const ByteMatch& protocol : protocols) {
                        Box box{src,   dst,         src_port, dst_port, protocol,
                                flags, connections, v4,       v6,       static_cast<uint32_t>(rules.size())};
                        if (!v4) box.src.ipv6 = box.dst.ipv6 = true;  // "any" takes the family of the other side
                        boxes.push_back(box);
                    }
        }
    if (boxes.size() == first)
        throw WordMistake{0, "no packet has an IPv4 and an IPv6 address", "write both addresses in one family"};
    rule.first_box = static_cast<uint32_t>(first);
    rules.push_back(std::move(rule));
}

std::vector<uint32_t> RuleSet::in_order() const {
    std::vector<uint32_t> order(boxes.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        return rules[boxes[a].rule].priority > rules[boxes[b].rule].priority;
    });
    return order;
}

std::string text_of(const Box& box) {
    // 0.0.0.0/0 and ::/0 are "any" only where the other side, or nothing, tells the family.
    const bool one_family = box.src.length == 0 && box.dst.length == 0 && box.ipv4 != box.ipv6;
    std::string text = protocol_text(box.protocol) + " from " + endpoint(box.src, box.src_port, one_family) + " to " +
                       endpoint(box.dst, box.dst_port, one_family);
    if (!box.tcp_flags.any()) text += " flags " + tcp_flags_text(box.tcp_flags);
    if (!box.connections.any()) text += " state " + connections_text(box.connections);
    return text;
}

std::string RuleSet::describe(uint32_t index) const {
    if (index >= rules.size()) return {};
    const Rule& rule = rules[index];
    const std::string file = std::filesystem::path(files[rule.file]).filename().string();
    std::string text = "rule " + std::to_string(index + 1) + " (" + file + ":" + std::to_string(rule.line) + ") ";
    if (!rule.text.empty()) return text + rule.text;
    if (!rule.name.empty()) text += "'" + rule.name + "' ";
    return text + kActionNames[static_cast<size_t>(rule.action)] + " " + text_of(boxes[rule.first_box]);
}

}  // namespace millrace::nf::classify
