// The engines behind make_matcher, and what those that walk the automaton have in common.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "millrace/nf/nids/pattern/cpu/matcher.hpp"

namespace millrace::nf::nids::pattern {

/// Bytes of the longest pattern that Hyperscan takes: four characters of an expression each, of which it takes 16,000.
inline constexpr size_t kHyperscanLongest = 4000;
std::unique_ptr<Matcher> make_hyperscan_matcher(std::shared_ptr<const PatternSet> set);
std::unique_ptr<Matcher> make_vector_matcher(std::shared_ptr<const PatternSet> set);
std::unique_ptr<Matcher> make_scalar_matcher(std::shared_ptr<const PatternSet> set);
bool has_avx512();

/// Distinct small numbers, kept as bits so that repetitions cost next to nothing, and as a list so that
/// forgetting a few is cheap.
class NumberSet {
public:
    explicit NumberSet(size_t limit) : words_((limit + 63) / 64) { list_.reserve(limit); }

    /// Whether `number` is new.
    bool insert(uint32_t number) {
        uint64_t& word = words_[number / 64];
        const uint64_t bit = uint64_t{1} << (number % 64);
        if ((word & bit) != 0) return false;
        word |= bit;
        list_.push_back(number);
        return true;
    }
    bool empty() const { return list_.empty(); }
    /// Bit n % 64 of word n / 64 tells whether n is in the set. Stays where it is for the set's life.
    const uint64_t* bits() const { return words_.data(); }
    /// In order of insertion.
    const std::vector<uint32_t>& list() const { return list_; }
    /// Brings the list into ascending order: many numbers are read off the bits, few are sorted.
    void sort() {
        if (list_.size() < words_.size() / 4) {
            std::sort(list_.begin(), list_.end());
            return;
        }
        list_.clear();
        for (size_t i = 0; i < words_.size(); ++i)
            for (uint64_t word = words_[i]; word != 0; word &= word - 1)
                list_.push_back(static_cast<uint32_t>(64 * i) + static_cast<uint32_t>(__builtin_ctzll(word)));
    }
    void clear() {
        for (const uint32_t number : list_) words_[number / 64] = 0;
        list_.clear();
    }

private:
    std::vector<uint64_t> words_;
    std::vector<uint32_t> list_;
};

/// What several payloads that are walked interleaved have led to: match states first, which is quick;
/// their patterns once, when a payload is done.
class MatchCollector {
public:
    MatchCollector(const PatternSet& set, unsigned slots) : automaton_(set.automaton()), ids_(set.size()) {
        matches_.reserve(slots);
        for (unsigned i = 0; i < slots; ++i) matches_.emplace_back(automaton_.match_count());
    }
    /// The matches that the payload in `slot` has led to, as NumberSet::bits.
    const uint64_t* bits(unsigned slot) const { return matches_[slot].bits(); }
    void add(unsigned slot, uint32_t state) { matches_[slot].insert(state - automaton_.first_match); }
    /// Records the patterns of the payload in `slot`, which is then free for another.
    void finish(unsigned slot, size_t payload, PatternHits& hits) {
        if (!matches_[slot].empty()) expand(matches_[slot], payload, hits);
    }

private:
    void expand(NumberSet& matches, size_t payload, PatternHits& hits);

    const Automaton& automaton_;
    std::vector<NumberSet> matches_;  ///< by slot
    NumberSet ids_;                   ///< of the payload being finished
};

}  // namespace millrace::nf::nids::pattern
