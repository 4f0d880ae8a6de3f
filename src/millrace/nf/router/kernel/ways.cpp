#include "millrace/nf/router/kernel/ways.hpp"

namespace millrace::nf::router {

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
    return number;
}

void Ways::release(uint16_t number) {
    if (number < kFixed || --ways_[number].users > 0) return;
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
