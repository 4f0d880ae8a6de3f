// The meters of a switch: how many units each band may have used by now, and the tables that devices read of it.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "millrace/nf/image.hpp"
#include "millrace/nf/switch/device.hpp"
#include "millrace/nf/switch/flows/flow.hpp"

namespace millrace::nf::flow_switch {

/// What a meter, or a band of one, has counted.
struct MeterCounts {
    uint64_t packets = 0, bytes = 0;
};

/// Meters of one generation, as devices read them.
class MeterTables {
public:
    std::vector<Meter> meters;  ///< by slot; those without bands and number are gone
    /// The slot of a meter; one that no meter has where there is none.
    uint32_t slot_of(uint32_t id) const {
        const auto found = slots.find(id);
        return found == slots.end() ? 0xffffffffu : found->second;
    }
    void attach(Image& image, Switch::Tables& tables) const;

    std::unordered_map<uint32_t, uint32_t> slots;  ///< by number
    std::shared_ptr<const std::vector<Switch::Meter>> by_slot;
    std::shared_ptr<const std::vector<Switch::Band>> bands;
    std::shared_ptr<const std::vector<uint64_t>> allowed;
    std::shared_ptr<std::vector<uint64_t>> counters;
    size_t counters_in_use = 0;
};

/// The meters under change. Each band is a bucket of tokens: it gains units at its rate, up to its burst. Devices count
/// what is used, and are told what may be (metering.hpp).
class MeterRates {
public:
    using Clock = std::chrono::steady_clock;

    bool empty() const { return ids_.empty(); }
    size_t size() const { return ids_.size(); }
    bool has(uint32_t id) const { return ids_.contains(id); }
    /// Adds a meter, or replaces the one with its number, which then counts from 0.
    void put(Meter meter, Clock::time_point now);
    void remove(uint32_t id);
    std::vector<Meter> meters() const;
    MeterCounts counts(uint32_t id) const;
    MeterCounts band_counts(uint32_t id, size_t band) const;

    /// Units that have come since; true when some band may use more than the last tables said.
    bool refill(Clock::time_point now);
    std::shared_ptr<const MeterTables> tables();

private:
    struct Bucket {
        uint32_t counters = 0;       // place in counters_
        double rate = 0, burst = 0;  // units a second; units
        double tokens = 0;
        uint64_t used = 0;     // when it was last filled
        uint64_t allowed = 0;  // what the last tables said
    };
    struct Entry {
        Meter meter;
        uint32_t counters = 0;
        std::vector<Bucket> buckets;  // by band, as written
        std::vector<uint64_t> first;  // what stood in its counters when it began
        bool gone = false;
    };
    uint64_t counter(const Entry& entry, uint32_t offset) const;
    uint32_t take_place(uint32_t words);
    void leave_place(const Entry& entry);

    std::vector<Entry> entries_;                  // by slot
    std::unordered_map<uint32_t, uint32_t> ids_;  // slots by number
    std::shared_ptr<std::vector<uint64_t>> counters_;
    size_t places_ = 0;
    std::multimap<uint32_t, uint32_t> free_;  // places that meters have left, by how many words they have
    Clock::time_point filled_{};
    std::shared_ptr<const MeterTables> made_;
};

}  // namespace millrace::nf::flow_switch
