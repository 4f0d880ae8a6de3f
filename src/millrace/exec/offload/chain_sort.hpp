// Packets of many chains, chain by chain.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/chain/kernel/entry.hpp"

namespace millrace::exec {

/// Sorts packets by their chains, and adds up their bytes, in a time that grows with the packets and the chains only:
/// it counts each chain's, then places them. A few stretches of the packets are gone through concurrently, each with
/// counters of its own, as neighbours often are of one chain and a counter must be written before it is read again.
class ChainSort {
public:
    /// For at most `packets` of them at once.
    explicit ChainSort(size_t packets) : slots_(packets), order_(packets) {}

    /// Room for this many chains; chain::kNoChain has room always. Allocates: not on the packet path.
    void keep_room(size_t chains) {
        if (chains + 1 > counters_.size()) counters_.resize(chains + 1);
    }
    /// The numbers 0 to `count` - 1, chain by chain in the order of the chains' numbers, those without one last; those
    /// of a chain in their order. Valid until the next call. `chain_of(k)` is the chain of packet `k`, of `chains`;
    /// `bytes_of(k)` its bytes, below 2^20. Calls `tell(chain, packets, bytes)` for each chain that has some.
    template <class ChainOf, class BytesOf, class Tell>
    std::span<const uint32_t> sort(uint32_t count, size_t chains, const ChainOf& chain_of, const BytesOf& bytes_of,
                                   const Tell& tell) {
        const uint32_t each = count / kStretches;
        const auto add = [&](unsigned stretch, uint32_t k) {
            const uint16_t chain = chain_of(k);
            slots_[k] = static_cast<uint16_t>(std::min<size_t>(chain, chains));
            counters_[slots_[k]][stretch] += kOne + bytes_of(k);
        };
        for_all(count, each, add);
        uint64_t next = 0;
        for (size_t slot = 0; slot <= chains; ++slot) {
            uint64_t all = 0;
            for (uint64_t& own : counters_[slot]) {
                const uint64_t packets = own / kOne;
                all += own;
                own = next;
                next += packets;
            }
            if (all > 0) tell(slot == chains ? chain::kNoChain : static_cast<uint16_t>(slot), all / kOne, all % kOne);
        }
        for_all(count, each, [&](unsigned stretch, uint32_t k) { order_[counters_[slots_[k]][stretch]++] = k; });
        for (size_t slot = 0; slot <= chains; ++slot) counters_[slot] = {};
        return {order_.data(), count};
    }

private:
    static constexpr unsigned kStretches = 4;
    static constexpr uint64_t kOne = uint64_t{1} << 40;  // a packet; bytes are below

    /// Calls `f(stretch, k)` for all packets, those of a stretch in their order.
    template <class F>
    static void for_all(uint32_t count, uint32_t each, const F& f) {
        for (uint32_t i = 0; i < each; ++i)
            for (unsigned stretch = 0; stretch < kStretches; ++stretch) f(stretch, stretch * each + i);
        for (uint32_t k = kStretches * each; k < count; ++k) f(kStretches - 1, k);
    }

    std::vector<uint16_t> slots_;  // of the packets: their chains, or how many chains there are
    std::vector<uint32_t> order_;
    /// By chain and stretch: its packets and bytes, then the place of the next packet; 0 between two calls.
    std::vector<std::array<uint64_t, kStretches>> counters_;
};

}  // namespace millrace::exec
