// The pattern ids that one lane finds.
//
// A warp waits for whichever of its lanes waits for memory. So what can wait does: a lane remembers the matches that it
// passes, and looks up what they stand for when its search is over.
#pragma once

#include "millrace/nf/nids/pattern/pattern_tables.hpp"
#include "millrace/nf/nids/pattern/text.hpp"

namespace millrace::nf::nids::pattern {
/// The distinct ids, at least `from`, that one lane has found so far: all common ones, and the smallest
/// rare ones.
class LaneIds {
public:
    /// Enough that hardly any packet needs a second pass, few enough for registers.
    static constexpr uint32_t kKept = 8;

    MILLRACE_DEVICE void clear(uint32_t from) {
        for (uint32_t k = 0; k < kKept; ++k) rare_[k] = kNoPattern;
        for (uint32_t k = 0; k < kPassed; ++k) passed_[k] = kNoPattern;
        common_ = 0;
        from_ = from;
        overflowed_ = false;
    }
    /// Remembers a match.
    MILLRACE_DEVICE void pass(const PatternTables& tables, uint32_t match) {
        for (uint32_t k = 0; k < kPassed; ++k)
            if (match == passed_[k]) return;
        if (passed_[kPassed - 1] != kNoPattern) note(tables, passed_[kPassed - 1]);
        for (uint32_t k = kPassed - 1; k > 0; --k) passed_[k] = passed_[k - 1];
        passed_[0] = match;
    }
    /// Notes the patterns of all matches that were passed.
    MILLRACE_DEVICE void settle(const PatternTables& tables) {
        while (passed_[0] != kNoPattern) {
            note(tables, passed_[0]);
            for (uint32_t k = 0; k + 1 < kPassed; ++k) passed_[k] = passed_[k + 1];
            passed_[kPassed - 1] = kNoPattern;
        }
    }
    MILLRACE_DEVICE bool any() const { return common_ != 0 || rare_[0] != kNoPattern; }
    /// Gives a noted id up to `most` that it has not given yet, or kNoPattern.
    MILLRACE_DEVICE uint32_t take(const PatternTables& tables, uint32_t most) {
        while (common_ != 0) {
            const uint32_t id = tables.common_ids[lowest_bit(common_)];
            common_ &= common_ - 1;
            if (id >= from_ && id <= most) return id;
        }
        const uint32_t id = rare_[0];
        if (id > most) return kNoPattern;
        for (uint32_t k = 0; k + 1 < kKept; ++k) rare_[k] = rare_[k + 1];
        rare_[kKept - 1] = kNoPattern;
        return id;
    }
    /// No id up to this one was dropped for want of room.
    MILLRACE_DEVICE uint32_t complete_to() const { return overflowed_ ? rare_[kKept - 1] : kNoPattern; }

private:
    /// So many that hardly any walk has to stop for looking one up.
    static constexpr uint32_t kPassed = 4;

    MILLRACE_DEVICE void note(const PatternTables& tables, uint32_t match) {
        const Match found = tables.matches[match];
        common_ |= found.common;
        if (found.rare == kNoPattern) return;
        if (found.only_rare != kNoPattern) {
            insert(found.only_rare);
            return;
        }
        for (uint32_t rare = found.rare; rare != kNoPattern; rare = tables.matches[rare].rare_link)
            for (uint32_t i = tables.output_begin[rare]; i < tables.output_begin[rare + 1]; ++i)
                insert(tables.output_ids[i]);
    }
    MILLRACE_DEVICE void insert(uint32_t id) {
        if (id < from_) return;
        for (uint32_t k = 0; k < kKept; ++k) {
            const uint32_t kept = rare_[k];
            if (id == kept) return;
            if (id < kept) {
                rare_[k] = id;
                id = kept;
            }
        }
        overflowed_ = overflowed_ || id != kNoPattern;
    }

    uint32_t rare_[kKept];      // ascending
    uint32_t passed_[kPassed];  // the latest first
    uint64_t common_;
    uint32_t from_;
    bool overflowed_;
};

}  // namespace millrace::nf::nids::pattern
