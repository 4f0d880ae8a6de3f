#include "millrace/nf/switch/flows/counters.hpp"

namespace millrace::nf::flow_switch {

Counters::Counters(size_t room) : values_(std::make_shared<Values>(2 * std::max<size_t>(room, 64))) {}

uint32_t Counters::take(uint64_t at_work) {
    for (; !leaving_.empty() && leaving_.front().version < at_work; leaving_.pop_front())
        free_.push_back(leaving_.front().place);
    if (!free_.empty()) {
        const uint32_t place = free_.back();
        free_.pop_back();
        return place;
    }
    if (fresh_ == values_->size()) {
        auto larger = std::make_shared<Values>(2 * values_->size());
        for (size_t i = 0; i < values_->size(); ++i) (*larger)[i] = __atomic_load_n(&(*values_)[i], __ATOMIC_RELAXED);
        values_ = std::move(larger);
    }
    const uint32_t place = fresh_;
    fresh_ += 2;
    return place;
}

void Counters::leave(uint32_t place, uint64_t version) { leaving_.push_back({place, version}); }

void Counters::keep_only(const std::vector<uint32_t>& places, uint64_t version) {
    std::vector<bool> known(fresh_ / 2);
    for (const uint32_t place : places) known[place / 2] = true;
    std::erase_if(free_, [&](uint32_t place) { return known[place / 2]; });
    std::erase_if(leaving_, [&](const Leaving& leaving) { return known[leaving.place / 2]; });
    for (const uint32_t place : free_) known[place / 2] = true;
    for (const Leaving& leaving : leaving_) known[leaving.place / 2] = true;
    for (uint32_t place = 0; place < fresh_; place += 2)
        if (!known[place / 2]) leave(place, version);
}

}  // namespace millrace::nf::flow_switch
