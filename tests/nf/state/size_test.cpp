// State per key of many keys.
#include <gtest/gtest.h>

#include "nf/state/tally.hpp"
#include "support/resident_memory.hpp"

namespace millrace::test {
namespace {

/// 16 Mi keys, as many as there can be: who checks a configuration needs no memory for them.
TEST(StatePerKey, TakesNoMemoryBeforePacketsFlow) {
    const int64_t before = resident_bytes();
    const auto chain = tally_chain("max-keys: 16Mi", "cpu");
    EXPECT_GT(tally_of(chain).image().array_bytes(), uint64_t{1} << 30);
    EXPECT_LT(resident_bytes(), before + (int64_t{64} << 20));
}

TEST(StatePerKey, HoldsAMillionKeys) {
    const auto chain = tally_chain("timeout: 1000s, max-keys: 1M", "cpu");
    const auto& tables = *static_cast<const Tally::Tables*>(tally_of(chain).image().tables());
    constexpr uint32_t kCount = 1'000'000;
    const auto nobody = [](const auto&, const auto&, nf::Ended) { return true; };
    uint32_t refused = 0;
    for (int round = 0; round < 2; ++round)
        for (uint32_t key = 1; key <= kCount; ++key) {
            const Tally::Source source{{key, 0, 0, 0}};
            const auto entry = tables.state.find(source, tables.state.hash(source), 1000 + key, nf::Lookup::create,
                                                 nobody);
            if (!entry) {
                ++refused;
                continue;
            }
            ASSERT_EQ(entry->tally.packets, static_cast<uint64_t>(round));
            ++entry->tally.packets;
        }
    EXPECT_LT(refused, 2 * kCount / 500) << "as many as the table is for, but for one in a thousand";
    EXPECT_EQ(tally_of(chain).entries() + refused / 2, kCount);
}

}  // namespace
}  // namespace millrace::test
