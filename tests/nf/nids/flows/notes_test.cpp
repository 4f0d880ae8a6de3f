// Notes of what the search of a packet has found.
#include <gtest/gtest.h>

#include <vector>

#include "millrace/nf/nids/rule_notes.hpp"

namespace millrace::nf::nids {
namespace {

TEST(RuleNotes, AreThereUntilTheyAreWrittenOver) {
    std::vector<uint32_t> words(2 * RuleNotes::kWords);
    std::vector<uint64_t> counts(RuleNotes::kCounts);
    RuleNotes notes;
    notes.words = {words.data(), words.size()};
    notes.counts = {counts.data(), counts.size()};
    std::vector<uint32_t> rules = {3, 3, 5, 70000};
    struct Alerts {
        const std::vector<uint32_t>& rules;
        uint32_t count() const { return static_cast<uint32_t>(rules.size()); }
        uint32_t operator[](uint32_t i) const { return rules[i]; }
    };
    RuleNote note;
    EXPECT_FALSE(notes.read(0, note) && note.count > 0) << "nobody has written any";
    const uint32_t first = notes.write(7, kNoDetail, Alerts{rules});
    const uint32_t second = notes.write(kNoDetail, 9, Alerts{{}});
    ASSERT_TRUE(notes.read(first, note));
    EXPECT_EQ(std::vector(note.rules, note.rules + note.count), (std::vector<uint32_t>{3, 5, 70000}));
    EXPECT_EQ(note.pass, 7u);
    EXPECT_EQ(note.drop, kNoDetail);
    notes.write(kNoDetail, kNoDetail, Alerts{rules});
    counts[RuleNotes::kLost] = 0;
    EXPECT_FALSE(notes.read(first, note));
    EXPECT_EQ(counts[RuleNotes::kLost], 1u);
    ASSERT_TRUE(notes.read(second, note));
    EXPECT_EQ(note.count, 0u);
    EXPECT_EQ(note.drop, 9u);
}

}  // namespace
}  // namespace millrace::nf::nids
