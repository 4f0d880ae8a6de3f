// The policies as the CPU searches them: few of IPv4 by one comparison of the addresses each, many by hash tables of
// their addresses or by an engine.
#pragma once

#include <vector>

#include "millrace/nf/ipsec/cpu/address_policies.hpp"
#include "millrace/nf/ipsec/lookup.hpp"

namespace millrace::nf::ipsec {

/// Finds what `find_policy` finds. The tables must stay.
class PreparedPolicies {
public:
    explicit PreparedPolicies(const Tables& tables) : tables_(tables) {
        std::vector<AddressPolicies::Entry> by_addresses;
        const bool few = tables.policies.size() <= kFewPolicies;
        for (const Policy& policy : tables.policies) {
            const Selector& selector = policy.selector;
            if (selector.ipv6) continue;
            const Entry entry{both(selector.src_mask, selector.dst_mask), both(selector.src, selector.dst), &policy,
                              selector.any_protocol && selector.any_port};
            if (few) entries_.push_back(entry);
            else if (!entry.any_else) return;
            else by_addresses.push_back({entry.mask, entry.value & entry.mask, policy_route(policy)});
        }
        if (!few) by_addresses_ = AddressPolicies(by_addresses);
    }

    /// Whether hash tables of their addresses are looked into.
    bool by_addresses() const { return by_addresses_.serves(); }

    Route find(const Packet& packet) const {
        const Layers& layers = packet.layers();
        // ESP may be for the gateway itself, also in UDP.
        const bool common = layers.malformed == Malformed::no && layers.is_ipv4() &&
                            layers.protocol != ip::kProtocolEsp && (tables_.udp_port == 0 || !layers.is_udp());
        if (!common) [[unlikely]]
            return find_policy<Complete>(packet, tables_);
        const auto addresses = load_raw<uint64_t>(packet.l3() + 12);
        if (by_addresses_.serves()) return by_addresses_.find(addresses, default_route(tables_));
        if (tables_.policies.size() > kFewPolicies) {
            const uint32_t found = search_policies(packet, tables_);
            return found == classify::kNoRule ? default_route(tables_) : policy_route(tables_.policies[found]);
        }
        for (const Entry& entry : entries_) {
            if ((addresses & entry.mask) != entry.value) continue;
            if (entry.any_else || matches(entry.policy->selector, flow_of(packet))) return policy_route(*entry.policy);
        }
        return default_route(tables_);
    }

private:
    /// Source and destination as they follow each other in an IPv4 header.
    static uint64_t both(const Address& src, const Address& dst) {
        uint8_t bytes[8];
        store_address(bytes, src, false);
        store_address(bytes + 4, dst, false);
        return load_raw<uint64_t>(bytes);
    }

    struct Entry {
        uint64_t mask, value;
        const Policy* policy;
        bool any_else;  ///< the addresses decide
    };
    const Tables& tables_;
    std::vector<Entry> entries_;
    AddressPolicies by_addresses_;  ///< where there are many, and all of IPv4 ask for addresses alone
};

}  // namespace millrace::nf::ipsec
