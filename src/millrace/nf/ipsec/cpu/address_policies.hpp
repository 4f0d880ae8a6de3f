// Many policies that ask for addresses alone, as those of gateways between sites do, for the CPU.
#pragma once

#include <algorithm>
#include <bit>
#include <vector>

#include "millrace/packet/decision.hpp"

namespace millrace::nf::ipsec {

/// Finds the first policy that matches an IPv4 packet by one look into a hash table for each pair of masks that its
/// policies have: of few pairs, that takes a fraction of an engine's search.
class AddressPolicies {
public:
    static constexpr size_t kMaxMasks = 4;

    /// An IPv4 policy that asks for nothing but addresses: both of them as they follow each other in a header, and
    /// where it sends a packet.
    struct Entry {
        uint64_t mask, value;
        Decision route;
    };

    AddressPolicies() = default;
    /// In their order. `serves()` then says whether they have few pairs of masks.
    explicit AddressPolicies(const std::vector<Entry>& entries) {
        for (const Entry& entry : entries) {
            const auto same = [&](const Table& table) { return table.mask == entry.mask; };
            auto table = std::find_if(tables_.begin(), tables_.end(), same);
            if (table == tables_.end()) table = tables_.insert(table, {.mask = entry.mask, .places = {}});
            ++table->count;
        }
        serves_ = tables_.size() <= kMaxMasks;
        if (!serves_) return;
        for (Table& table : tables_) {
            table.places.resize(std::bit_ceil(2 * table.count));
            table.shift = 64 - std::countr_zero(table.places.size());
        }
        for (uint32_t i = 0; i < entries.size(); ++i)
            std::find_if(tables_.begin(), tables_.end(), [&](const Table& table) {
                return table.mask == entries[i].mask;
            })->insert(entries[i], i);
    }

    bool serves() const { return serves_; }
    /// Where a packet with these addresses goes; `otherwise` where no policy is about it.
    Decision find(uint64_t addresses, Decision otherwise) const {
        uint32_t first = kNobody;
        Decision route = otherwise;
        for (const Table& table : tables_) {
            const Place& place = table.places[table.place_of(addresses & table.mask)];
            if (place.index >= first) continue;
            first = place.index;
            route = place.route;
        }
        return route;
    }

private:
    static constexpr uint32_t kNobody = ~0u;
    struct Place {
        uint64_t value = 0;
        uint32_t index = kNobody;  ///< of the policy
        Decision route;
    };
    /// Policies of one pair of masks; at most half full.
    struct Table {
        uint64_t mask = 0;
        size_t count = 0;
        int shift = 0;
        std::vector<Place> places;

        /// Where the value is, or may be put.
        size_t place_of(uint64_t value) const {
            size_t at = value * 0x9e3779b97f4a7c15ull >> shift;
            while (places[at].index != kNobody && places[at].value != value) at = (at + 1) & (places.size() - 1);
            return at;
        }
        void insert(const Entry& entry, uint32_t index) {
            Place& place = places[place_of(entry.value)];
            if (place.index == kNobody) place = {entry.value, index, entry.route};
        }
    };
    std::vector<Table> tables_;
    bool serves_ = false;
};

}  // namespace millrace::nf::ipsec
