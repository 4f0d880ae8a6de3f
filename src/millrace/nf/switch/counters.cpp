#include "millrace/nf/switch/counters.hpp"

#include <algorithm>

namespace millrace::nf::flow_switch {

Counters::Counters(const Counters* previous, const std::vector<std::string>& flows, size_t most) {
    std::vector<const std::string*> added;
    if (previous == nullptr) {
        for (const std::string& flow : flows) added.push_back(&flow);
    } else {
        values_ = previous->values_;
        free_ = previous->free_;
        free_.insert(free_.end(), previous->leaving_.begin(), previous->leaving_.end());
        for (const std::string& flow : flows) {
            const auto known = previous->places_.find(flow);
            if (known != previous->places_.end()) places_.insert(*known);
            else added.push_back(&flow);
        }
        for (const auto& [flow, place] : previous->places_)
            if (!places_.contains(flow)) leaving_.push_back(place.index);
    }
    const size_t room = values_ == nullptr ? 0 : values_->size() / 2;
    if (values_ == nullptr || added.size() > free_.size()) {
        // What the generation before counts from here on until it is over is lost to the counters: `most` avoids it.
        const size_t size = std::max({most, flows.size() + leaving_.size(), size_t{1}});
        auto values = std::make_shared<Values>(2 * std::max(size, room + added.size()));
        if (values_ != nullptr) std::copy(values_->begin(), values_->end(), values->begin());
        for (size_t index = values->size() / 2; index-- > room;) free_.push_back(static_cast<uint32_t>(2 * index));
        values_ = std::move(values);
    }
    for (const std::string* flow : added) {
        const uint32_t index = free_.back();
        free_.pop_back();
        places_.emplace(*flow, Place{index, (*values_)[index], (*values_)[index + 1]});
    }
}

}  // namespace millrace::nf::flow_switch
