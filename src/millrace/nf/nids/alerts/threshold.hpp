// Which alerts are told, by how many of their kind came before.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <unordered_map>

#include "millrace/nf/nids/rules/rule.hpp"
#include "millrace/packet/decision.hpp"

namespace millrace::nf::nids {

/// Whether a `suppress` line holds back this alert of `rule`.
bool is_suppressed(const Rule& rule, const Event& event);

/// Counts alerts by rule and tracked address. Time is the packets'. Not for several threads at once.
class ThresholdTable {
public:
    /// Whether this alert of `rule` is to be told; counts it.
    bool admits(const Rule& rule, const Event& event, uint64_t timestamp_ns);
    size_t size() const { return entries_.size(); }
    /// Windows that were forgotten before their end, for want of room. Any thread may ask.
    uint64_t forgotten() const { return forgotten_; }

    /// Room for so many pairs of rule and address; beyond it the oldest windows are forgotten.
    static constexpr size_t kMaxEntries = 1 << 18;

private:
    struct Key {
        uint32_t gid, sid;
        std::array<uint8_t, 32> addresses{};
        bool operator==(const Key&) const = default;
    };
    struct Hash {
        size_t operator()(const Key& key) const;
    };
    struct Entry {
        uint64_t end_ns = 0;  ///< last instant of its window
        uint64_t count = 0;
    };
    std::unordered_map<Key, Entry, Hash> entries_;
    std::atomic<uint64_t> forgotten_ = 0;
};

}  // namespace millrace::nf::nids
