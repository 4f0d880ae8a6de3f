#include "millrace/nf/balancer/maglev.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace millrace::nf::balancer {
namespace {

/// FNV-1a (draft-eastlake-fnv) with a seed, and its bits mixed.
uint64_t stable_hash(std::string_view bytes, uint64_t seed) {
    uint64_t h = 0xcbf29ce484222325ull ^ seed;
    for (const char byte : bytes) h = (h ^ static_cast<uint8_t>(byte)) * 0x100000001b3ull;
    h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93ull;
    return h ^ (h >> 32);
}

/// The order in which a back end takes slots.
struct Permutation {
    uint64_t at, skip;
};

}  // namespace

uint32_t slots_for(size_t back_ends) {
    constexpr uint32_t kPrimes[] = {251,   509,   1021,   2039,   4093,   8191,   16381,
                                    32749, 65521, 131071, 262139, 524287, 1048573};
    for (const uint32_t prime : kPrimes)
        if (prime >= 100 * back_ends) return prime;
    return kPrimes[std::size(kPrimes) - 1];
}

std::vector<uint32_t> fill_slots(std::span<const Share> shares, uint32_t slots) {
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < shares.size(); ++i)
        if (shares[i].weight > 0) order.push_back(i);
    if (order.empty()) return {};
    std::ranges::sort(order, {}, [&](uint32_t i) -> const std::string& { return shares[i].identity; });
    unsigned most = 0;
    std::vector<Permutation> ways;
    for (const uint32_t i : order) {
        most = std::max(most, shares[i].weight);
        ways.push_back(
            {stable_hash(shares[i].identity, 1) % slots, stable_hash(shares[i].identity, 2) % (slots - 1) + 1});
    }
    constexpr uint32_t kNobody = UINT32_MAX;
    std::vector<uint32_t> table(slots, kNobody);
    std::vector<uint64_t> due(order.size(), 0);  // by `most`: turns that it may take
    for (uint32_t taken = 0; taken < slots;) {
        for (size_t n = 0; n < order.size() && taken < slots; ++n) {
            due[n] += shares[order[n]].weight;
            if (due[n] < most) continue;
            due[n] -= most;
            auto& [at, skip] = ways[n];
            while (table[at] != kNobody) at = (at + skip) % slots;
            table[at] = order[n];
            ++taken;
        }
    }
    return table;
}

}  // namespace millrace::nf::balancer
