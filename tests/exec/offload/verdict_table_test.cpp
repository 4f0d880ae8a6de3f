// Verdicts of frames: told apart by what makes a difference, found again, and forgotten.
#include "millrace/exec/offload/finish/verdict_table.hpp"

#include <gtest/gtest.h>

#include <map>

#include "support/packet_builder.hpp"

namespace millrace::test {
namespace {

using device::PacketResult;
using exec::VerdictKey;
using exec::VerdictTable;

PacketResult result_of(uint32_t node, uint32_t outcome, uint16_t port, uint16_t detail) {
    PacketResult result;
    result.offset = 77;
    result.length = 1500;
    result.out_port = port;
    result.decided = PacketResult::by(node, outcome);
    result.detail = detail;
    return result;
}

TEST(VerdictKeys, TellPortFunctionAndOutcomeApart) {
    const VerdictKey key(5);
    const PacketResult result = result_of(3, 1, 2, 9);
    EXPECT_NE(key(result), key(result_of(4, 1, 2, 9)));
    EXPECT_NE(key(result), key(result_of(3, 2, 2, 9)));
    EXPECT_NE(key(result), key(result_of(3, 1, kNoPort, 9)));
    EXPECT_EQ(key(result), key(result_of(3, 1, 2, 10))) << "a detail makes no other verdict";
    PacketResult other = result;
    other.length = 60;
    other.offset = 0;
    EXPECT_EQ(key(result), key(other));
}

TEST(VerdictKeys, TellChainsApartWhereNoFunctionDecided) {
    const VerdictKey key(5);
    for (const uint16_t node : {uint16_t{5}, exec::kNoNode, exec::kParserNode, exec::kNoChainNode})
        EXPECT_NE(key(result_of(node, 1, kNoPort, 9)), key(result_of(node, 1, kNoPort, 10))) << node;
}

TEST(VerdictTables, FindWhatTheyWereToldOf) {
    for (const size_t most : {size_t{1}, size_t{3}, size_t{64}, size_t{8160}}) {
        VerdictTable table(most);
        Rng rng(static_cast<uint32_t>(most));
        for (int round = 0; round < 3; ++round) {
            std::map<uint64_t, std::pair<VerdictTable::Entry*, uint32_t>> told;
            while (!table.full()) {
                const uint64_t key = rng() & 0xffffffffffff;
                ASSERT_EQ(table.finder().find_any(key) != nullptr, told.contains(key));
                if (told.contains(key)) continue;
                const uint32_t list = rng() % 4 == 0 ? VerdictTable::kAlone : rng() % 9;
                exec::Verdict verdict;
                verdict.node = static_cast<uint16_t>(told.size());
                VerdictTable::Entry& entry = table.add(key, verdict, list);
                EXPECT_EQ(entry.received, 0u);
                EXPECT_EQ(table.of(entry).verdict.node, told.size());
                told[key] = {&entry, list};
            }
            ASSERT_EQ(told.size(), most);
            for (const auto& [key, entry] : told) {
                EXPECT_EQ(table.finder().find_any(key), entry.first);
                EXPECT_EQ(table.finder().find(key), entry.second == VerdictTable::kAlone ? nullptr : entry.first);
                entry.first->received = 5;
            }
            EXPECT_EQ(table.verdicts().size(), most);
            table.clear();
            EXPECT_TRUE(table.verdicts().empty());
            for (const auto& [key, entry] : told) EXPECT_EQ(table.finder().find_any(key), nullptr);
        }
    }
}

}  // namespace
}  // namespace millrace::test
