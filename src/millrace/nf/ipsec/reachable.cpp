#include "millrace/nf/ipsec/reachable.hpp"

#include <algorithm>

namespace millrace::nf::ipsec {
namespace {

bool is_wider(const Address& mask, const Address& other) {
    for (unsigned i = 0; i < 4; ++i)
        if ((mask.words[i] & ~other.words[i]) != 0) return false;
    return true;
}

bool holds(const Address& prefix, const Address& mask, const Address& address) {
    for (unsigned i = 0; i < 4; ++i)
        if ((address.words[i] & mask.words[i]) != prefix.words[i]) return false;
    return true;
}

/// Whether every packet of `b` is one of `a`, too.
bool covers(const Selector& a, const Selector& b) {
    const bool ports = a.any_port ||
                       (!b.any_port && a.src_port_first <= b.src_port_first && a.src_port_last >= b.src_port_last &&
                        a.dst_port_first <= b.dst_port_first && a.dst_port_last >= b.dst_port_last);
    return a.ipv6 == b.ipv6 && is_wider(a.src_mask, b.src_mask) && is_wider(a.dst_mask, b.dst_mask) &&
           holds(a.src, a.src_mask, b.src) && holds(a.dst, a.dst_mask, b.dst) &&
           (a.any_protocol || (!b.any_protocol && a.protocol == b.protocol)) && ports;
}

}  // namespace

std::optional<size_t> ReachablePolicies::add(const std::vector<Selector>& selectors) {
    const auto hides = [&](size_t policy) {
        return std::ranges::all_of(selectors, [&](const Selector& selector) {
            return std::ranges::any_of(policies_[policy],
                                       [&](const Selector& earlier) { return covers(earlier, selector); });
        });
    };
    std::optional<size_t> found;
    // One that hides the policy covers its first selector.
    const Selector& first = selectors.front();
    for (const auto& [masks, policies] : by_masks_) {
        Prefixes prefixes;
        bool wider = masks.back() == first.ipv6;
        for (unsigned i = 0; i < 4 && wider; ++i) {
            wider = (masks[i] & ~first.src_mask.words[i]) == 0 && (masks[4 + i] & ~first.dst_mask.words[i]) == 0;
            prefixes[i] = first.src.words[i] & masks[i];
            prefixes[4 + i] = first.dst.words[i] & masks[4 + i];
        }
        if (!wider) continue;
        const auto there = policies.find(prefixes);
        if (there == policies.end()) continue;
        for (const size_t policy : there->second) {
            if (found && policy >= *found) break;
            if (hides(policy)) found = policy;
        }
    }
    const size_t number = policies_.size();
    policies_.push_back(selectors);
    for (const Selector& selector : selectors) {
        Masks masks;
        Prefixes prefixes;
        for (unsigned i = 0; i < 4; ++i) {
            masks[i] = selector.src_mask.words[i];
            masks[4 + i] = selector.dst_mask.words[i];
            prefixes[i] = selector.src.words[i];
            prefixes[4 + i] = selector.dst.words[i];
        }
        masks.back() = selector.ipv6;
        std::vector<size_t>& policies = by_masks_[masks][prefixes];
        if (policies.empty() || policies.back() != number) policies.push_back(number);
    }
    return found;
}

}  // namespace millrace::nf::ipsec
