#include "millrace/nf/router/kernel/ways.hpp"

#include <algorithm>

namespace millrace::nf::router {

Way way_by(std::vector<RouteHop> hops, bool encapsulated) {
    using enum Way::Kind;
    if (encapsulated || hops.empty()) return {kernel};
    if (std::ranges::any_of(hops, [](const RouteHop& hop) { return hop.interface == 0; })) return {kernel};
    if (std::ranges::all_of(hops, &RouteHop::has_gateway)) return {gateways, std::move(hops)};
    return hops.size() == 1 ? Way{connected, std::move(hops)} : Way{kernel};
}

Ways::Ways() {
    for (uint16_t number = 0; number < kFixed; ++number) {
        const auto at = numbers_.emplace(Way{static_cast<Way::Kind>(number)}, number).first;
        ways_.push_back({&at->first, 1});
    }
}

uint16_t Ways::take(const Way& way) {
    if (const auto known = numbers_.find(way); known != numbers_.end()) {
        ++ways_[known->second].users;
        return known->second;
    }
    uint16_t number;
    if (!free_.empty()) {
        number = free_.back();
        free_.pop_back();
    } else {
        if (ways_.size() >= kMaxTargets) return kKernel;
        number = static_cast<uint16_t>(ways_.size());
        ways_.push_back({nullptr, 0});
    }
    const auto at = numbers_.emplace(way, number).first;
    ways_[number] = {&at->first, 1};
    ++made_;
    objects_ += way.kind == Way::Kind::object;
    return number;
}

void Ways::release(uint16_t number) {
    if (number < kFixed || --ways_[number].users > 0) return;
    objects_ -= ways_[number].way->kind == Way::Kind::object;
    numbers_.erase(*ways_[number].way);
    ways_[number].way = ways_[kTargetNone].way;
    free_.push_back(number);
}

std::optional<uint16_t> Ways::find(const Way& way) const {
    const auto known = numbers_.find(way);
    if (known == numbers_.end()) return std::nullopt;
    return known->second;
}

}  // namespace millrace::nf::router
