#include "millrace/nf/classify/acl/header_classes.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>

#include "millrace/packet/headers.hpp"

namespace millrace::nf::classify {
namespace {

template <class Match>
void add_once(std::vector<Match>& list, const Match& match) {
    if (!match.any() && std::find(list.begin(), list.end(), match) == list.end()) list.push_back(match);
}

bool asks_for_ports(const Box& box) { return !box.src_port.any() || !box.dst_port.any(); }

}  // namespace

bool HeaderClasses::Member::is_in(const Box& box) const {
    return box.protocol.contains(protocol) && (has_ports || !asks_for_ports(box)) &&
           (box.tcp_flags.any() || (has_flags && box.tcp_flags.contains(tcp_flags))) &&
           box.connections.contains(connection);
}

HeaderClasses::HeaderClasses(std::span<const Box> boxes) {
    std::vector<ByteMatch> protocols, flags;
    std::vector<ConnectionSet> connections;
    bool any_ports = false;
    for (const Box& box : boxes) {
        add_once(protocols, box.protocol);
        add_once(flags, box.tcp_flags);
        add_once(connections, box.connections);
        any_ports |= asks_for_ports(box);
    }
    // A header's signature: what it answers to each question that some box asks.
    std::map<std::vector<bool>, size_t> by_signature;
    const auto class_of = [&](const Member& member) {
        std::vector<bool> signature{any_ports && member.has_ports};
        for (const ByteMatch& match : protocols) signature.push_back(match.contains(member.protocol));
        for (const ByteMatch& match : flags) signature.push_back(member.has_flags && match.contains(member.tcp_flags));
        for (const ConnectionSet& set : connections) signature.push_back(set.contains(member.connection));
        const auto [place, is_new] = by_signature.try_emplace(std::move(signature), members_.size());
        if (is_new) members_.push_back(member);
        if (members_.size() > 256)
            throw std::runtime_error(
                "the rules tell more than 256 combinations of protocol, TCP flags and connections apart, which rte_acl "
                "is not given");
        return static_cast<uint8_t>(place->second);
    };
    const auto number = [&](Connection connection) {
        Numbers& own = numbers_.emplace_back();
        const auto set = [&](unsigned protocol, bool ports) {
            own.by_protocol[ports][protocol] = class_of({static_cast<uint8_t>(protocol), 0, ports, false, connection});
        };
        const auto set_others = [&](bool ports) {
            for (unsigned p = 0; p < 256; ++p)
                if (p != ip::kProtocolTcp && p != ip::kProtocolUdp) set(p, ports);
        };
        const auto set_flags = [&](bool ports) {
            for (unsigned f = 0; f < 256; ++f)
                own.by_tcp_flags[ports][f] = class_of(
                    {ip::kProtocolTcp, static_cast<uint8_t>(f), ports, true, connection});
        };
        // In such an order that what rules ask for most (a protocol, ports of any, ports of one) is a single range.
        set_others(false);
        set(ip::kProtocolUdp, false);
        set(ip::kProtocolUdp, true);
        set_others(true);
        set(ip::kProtocolTcp, true);
        set_flags(true);
        set_flags(false);
        set(ip::kProtocolTcp, false);
    };
    // What is asked for of connections is a range if it is new, or established and related.
    for (unsigned i = 0; i < (connections.empty() ? 1 : kConnections); ++i) number(static_cast<Connection>(i));
}

std::vector<std::pair<uint8_t, uint8_t>> HeaderClasses::ranges_of(const Box& box) const {
    std::vector<std::pair<uint8_t, uint8_t>> ranges;
    for (size_t i = 0; i < members_.size(); ++i) {
        if (!members_[i].is_in(box)) continue;
        const auto number = static_cast<uint8_t>(i);
        if (!ranges.empty() && ranges.back().second + 1 == number) ranges.back().second = number;
        else ranges.push_back({number, number});
    }
    // Numbers behind the last class occur nowhere: a range that may take them in is cheaper to search.
    if (!ranges.empty() && ranges.back().second + 1u == members_.size()) ranges.back().second = 255;
    return ranges;
}

}  // namespace millrace::nf::classify
