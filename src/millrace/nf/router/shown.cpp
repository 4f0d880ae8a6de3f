#include "millrace/nf/router/shown.hpp"

#include "millrace/packet/packet.hpp"

namespace millrace::nf::router {

std::string via_text(uint16_t target, const NextHops& next_hops) {
    if (target == kTargetLocal) return "local";
    if (target >= next_hops.targets().size()) return "none";
    const auto [first, count] = next_hops.targets()[target];
    if (count == 1) return next_hops.names()[first];
    std::string text;
    for (uint32_t i = first; i < first + count; ++i)
        text += (text.empty() ? "" : ", ") + next_hops.names()[next_hops.members()[i]];
    return text.empty() ? "none" : text;
}

ShownTable show_next_hops(const NextHops& next_hops, const std::vector<std::string>& ports, size_t most) {
    ShownTable shown{
        .columns = {"address", "interface", "mac", "state"}, .rows = {}, .total = next_hops.names().size()};
    for (size_t i = 0; i < std::min(most, next_hops.names().size()); ++i) {
        const NextHop& hop = next_hops.next_hops()[i];
        const bool has_mac = (hop.flags & NextHop::kSetDst) != 0;
        shown.rows.push_back({next_hops.names()[i], hop.port < ports.size() ? ports[hop.port] : std::string(),
                              has_mac ? mac_text(std::to_array(hop.dst)) : std::string(), std::string("static")});
    }
    return shown;
}

}  // namespace millrace::nf::router
