// The policies as the CPU searches them: few of IPv4 by one comparison of the addresses each, many by hash tables of
// their addresses or by an engine.
#pragma once

#include <vector>

#include "millrace/nf/ipsec/cpu/address_policies.hpp"
#include "millrace/nf/ipsec/lookup.hpp"
#include "millrace/packet/decision.hpp"

namespace millrace::nf::ipsec {

/// Finds what `find_policy` finds: outcome and detail of its route. Eight bytes come back in a register; a whole route
/// would come by memory, and who reads there two words that were just written one by one waits for them. The tables
/// must stay.
class PreparedPolicies {
public:
    explicit PreparedPolicies(const Tables& tables) : tables_(tables), default_(decision(default_route(tables))) {
        std::vector<AddressPolicies::Entry> by_addresses;
        const bool few = tables.policies.size() <= kFewPolicies;
        for (const Policy& policy : tables.policies) {
            const Selector& selector = policy.selector;
            if (selector.ipv6) continue;
            const Entry entry{both(selector.src_mask, selector.dst_mask), both(selector.src, selector.dst),
                              decision(policy_route(policy)), selector.any_protocol && selector.any_port,
                              &policy.selector};
            if (few) entries_.push_back(entry);
            else if (!entry.any_else) return;
            else by_addresses.push_back({entry.mask, entry.value & entry.mask, entry.route});
        }
        if (!few) by_addresses_ = AddressPolicies(by_addresses);
    }

    /// Whether hash tables of their addresses are looked into.
    bool by_addresses() const { return by_addresses_.serves(); }

    Decision find(const Packet& packet) const {
        const Layers& layers = packet.layers();
        // ESP may be for the gateway itself, also in UDP.
        const bool common = layers.malformed == Malformed::no && layers.is_ipv4() &&
                            layers.protocol != ip::kProtocolEsp && (tables_.udp_port == 0 || !layers.is_udp());
        if (!common) [[unlikely]]
            return decision(find_policy<Complete>(packet, tables_));
        const auto addresses = load_raw<uint64_t>(packet.l3() + 12);
        if (by_addresses_.serves()) return by_addresses_.find(addresses, default_);
        if (tables_.policies.size() > kFewPolicies) {
            const uint32_t found = search_policies(packet, tables_);
            return found == classify::kNoRule ? default_ : decision(policy_route(tables_.policies[found]));
        }
        for (const Entry& entry : entries_) {
            if ((addresses & entry.mask) != entry.value) continue;
            if (entry.any_else || matches(*entry.selector, flow_of(packet))) return entry.route;
        }
        return default_;
    }

private:
    static Decision decision(const Route& route) { return {route.detail, route.outcome}; }
    /// Source and destination as they follow each other in an IPv4 header.
    static uint64_t both(const Address& src, const Address& dst) {
        uint8_t bytes[8];
        store_address(bytes, src, false);
        store_address(bytes + 4, dst, false);
        return load_raw<uint64_t>(bytes);
    }

    struct Entry {
        uint64_t mask, value;
        Decision route;
        bool any_else;  ///< the addresses decide
        const Selector* selector;
    };
    const Tables& tables_;
    Decision default_;
    std::vector<Entry> entries_;
    AddressPolicies by_addresses_;  ///< where there are many, and all of IPv4 ask for addresses alone
};

}  // namespace millrace::nf::ipsec
