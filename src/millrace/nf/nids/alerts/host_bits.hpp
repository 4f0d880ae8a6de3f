// Bits of hosts and of pairs of hosts (`xbits`), which rules set and ask for when their alerts are told.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "millrace/nf/nids/rules/rule.hpp"
#include "millrace/packet/decision.hpp"

namespace millrace::nf::nids {

/// By address, or by two in any order, and by name. Time is the packets'. Not for several threads at once.
class HostBits {
public:
    /// Whether the bits are as a rule asks that a packet has met but for them. If so, does to them what the rule does.
    bool admit(const Rule& rule, const Event& event, uint64_t timestamp_ns);
    /// Bits that were forgotten before their end, for want of room. Any thread may ask.
    uint64_t forgotten() const { return forgotten_; }
    size_t size() const { return ends_.size(); }

    /// Room for so many bits; beyond it those that would end first are forgotten.
    static constexpr size_t kMaxEntries = 1 << 18;

private:
    struct Key {
        uint32_t name = 0;
        uint8_t ip_version = 0, is_pair = 0;
        std::array<uint8_t, 32> addresses{};
        bool operator==(const Key&) const = default;
    };
    struct Hash {
        size_t operator()(const Key& key) const;
    };
    Key key_of(const HostBit& bit, const Event& event);
    bool is_set(const Key& key, uint64_t now_ns) const;
    void change(const HostBit& bit, const Key& key, uint64_t now_ns);

    std::map<std::string, uint32_t> names_;
    std::unordered_map<Key, uint64_t, Hash> ends_;  ///< the last instant of each bit
    std::atomic<uint64_t> forgotten_ = 0;
};

}  // namespace millrace::nf::nids
