// Packets and bytes of each flow, kept when flows come and go.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace millrace::nf::flow_switch {

/// The counters that the generations of one switch share, and which of them belongs to which flow. The generation before may
/// still count while the next one is made, so a flow's counters stay where they are, and those of a flow that went are
/// given to another one only when the generation that had it is certain to be over: with the next but one.
class Counters {
public:
    using Values = std::vector<uint64_t>;

    /// For the first generation, or the one behind `previous`. `flows` are the identities of its flows (match and priority),
    /// all different; `most` flows at least find room in later generations without moving.
    Counters(const Counters* previous, const std::vector<std::string>& flows, size_t most);

    /// Where a flow is counted, and what stood there when it came: counters of flows that went are not set back, as a device
    /// has a copy of its own.
    struct Place {
        uint32_t index = 0;  ///< in `values()`: of its packets; its bytes stand behind
        uint64_t packets = 0, bytes = 0;
    };
    const Place& place(const std::string& flow) const { return places_.at(flow); }
    /// Null when there is no such flow.
    const Place* find(const std::string& flow) const {
        const auto found = places_.find(flow);
        return found == places_.end() ? nullptr : &found->second;
    }
    /// What a place has counted.
    struct Counts {
        uint64_t packets = 0, bytes = 0;
    };
    static Counts at(const Values& values, const Place& place) {
        return {__atomic_load_n(&values[place.index], __ATOMIC_RELAXED) - place.packets, __atomic_load_n(&values[place.index + 1], __ATOMIC_RELAXED) - place.bytes};
    }
    const std::shared_ptr<Values>& values() const { return values_; }

private:
    std::shared_ptr<Values> values_;
    std::unordered_map<std::string, Place> places_;
    std::vector<uint32_t> leaving_;  // of flows of the generation before that this one does not have
    std::vector<uint32_t> free_;
};

}  // namespace millrace::nf::flow_switch
