// Packets of many chains in order of their chains, against a stable sort.
#include "millrace/exec/offload/chain_sort.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "support/packet_builder.hpp"

namespace millrace::test {
namespace {

TEST(ChainSorts, AreStableAndAddUp) {
    Rng rng(7);
    exec::ChainSort sort(2048);
    sort.keep_room(1000);
    for (const size_t chains : {1, 2, 3, 64, 1000})
        for (const uint32_t count : {0, 1, 2, 3, 4, 5, 31, 255, 256, 2047, 2048}) {
            std::vector<uint16_t> chain(count);
            std::vector<uint32_t> bytes(count), expected(count);
            std::map<uint16_t, std::pair<uint64_t, uint64_t>> sums, told;
            for (uint32_t k = 0; k < count; ++k) {
                chain[k] = static_cast<uint16_t>(rng() % (chains + 1));
                if (chain[k] == chains) chain[k] = chain::kNoChain;
                bytes[k] = rng() % 65536;
                ++sums[chain[k]].first;
                sums[chain[k]].second += bytes[k];
            }
            std::iota(expected.begin(), expected.end(), 0u);
            std::ranges::stable_sort(expected, {}, [&](uint32_t k) { return chain[k]; });
            const auto order = sort.sort(
                count, chains, [&](uint32_t k) { return chain[k]; }, [&](uint32_t k) { return bytes[k]; },
                [&](uint16_t of, uint64_t packets, uint64_t all) { told[of] = {packets, all}; });
            ASSERT_TRUE(std::ranges::equal(order, expected)) << chains << " chains, " << count << " packets";
            EXPECT_EQ(told, sums) << chains << " chains, " << count << " packets";
        }
}

}  // namespace
}  // namespace millrace::test
