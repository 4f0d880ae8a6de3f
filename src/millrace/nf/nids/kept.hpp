// What the NIDS keeps of a packet from one of its parts to the next.
#pragma once

#include "millrace/nf/nids/examination.hpp"

namespace millrace::nf::nids {

/// What became of the options of a rule that a packet may meet.
enum class Answer : uint32_t {
    not_met,
    met,
    elsewhere,  ///< the rule is for an HTTP message, of which the packet has no head
    // Not met here, but the message of which the packet is a part may meet it; likewise when more of its body has come.
    may_be_met,
    may_go_on,
    elsewhere_may_be_met,
    elsewhere_may_go_on,
};

/// A packet's kKeptWords words. From the front on the ids of the patterns that were found, some of them several times;
/// from the back on the rules that are noted because of them, and what became of each. Or a decision.
class KeptOfPacket {
public:
    /// `patterns`: that the rules have.
    MILLRACE_DEVICE KeptOfPacket(uint32_t* words, const View<PatternRules>& patterns)
        : words_(words), wide_(patterns.size() > 0x10000) {}

    /// Ids that there is room for.
    MILLRACE_DEVICE uint32_t room() const { return (wide_ ? 1 : 2) * (kKeptWords - kIds - 1); }
    MILLRACE_DEVICE void set_id(uint32_t i, uint32_t id) {
        if (wide_) words_[kIds + i] = id;
        else reinterpret_cast<uint16_t*>(words_ + kIds)[i] = static_cast<uint16_t>(id);
    }
    MILLRACE_DEVICE uint32_t id(uint32_t i) const {
        return wide_ ? words_[kIds + i] : reinterpret_cast<const uint16_t*>(words_ + kIds)[i];
    }
    /// Whether one before it is the same.
    MILLRACE_DEVICE bool is_repeated(uint32_t i) const {
        const uint32_t own = id(i);
        if (wide_) {
            for (uint32_t k = 0; k < i; ++k)
                if (words_[kIds + k] == own) return true;
            return false;
        }
        // Two at once: of their difference from the own one either half is zero.
        const uint32_t both = own * 0x10001u;
#if MILLRACE_GPU
#pragma unroll 1
#endif
        for (uint32_t k = 0; k < i / 2; ++k) {
            const uint32_t differs = words_[kIds + k] ^ both;
            if ((differs & 0xffff) == 0 || differs >> 16 == 0) return true;
        }
        return i % 2 == 1 && id(i - 1) == own;
    }
    /// So many were found; if there is no room for all of them, they are not known. `flags`: header_flags of the
    /// packet; 0 where nobody asks. No rule is noted yet.
    MILLRACE_DEVICE void start(uint32_t count, uint16_t flags) {
        words_[0] = (count <= room() ? count : kUnknown) | uint32_t{flags} << 16;
        words_[1] = ids_known() ? 0 : kSome;
    }
    MILLRACE_DEVICE uint32_t ids() const { return words_[0] & kUnknown; }
    MILLRACE_DEVICE bool ids_known() const { return ids() != kUnknown; }
    MILLRACE_DEVICE uint16_t flags() const { return static_cast<uint16_t>(words_[0] >> 16); }

    /// Notes a named rule, from several threads at once; `by_pattern`: a pattern led to it.
    MILLRACE_DEVICE void add_rule(uint32_t named, bool by_pattern) {
        const uint32_t i = take();
        if (i < most_rules()) words_[kKeptWords - 1 - i] = named | (by_pattern ? 0 : kOther);
    }
    /// Rules that were noted. There may be more of them than are known, or than there is room for.
    MILLRACE_DEVICE uint32_t rules() const { return words_[1]; }
    MILLRACE_DEVICE bool rules_known() const { return words_[1] <= most_rules(); }
    MILLRACE_DEVICE uint32_t rule(uint32_t i) const { return words_[kKeptWords - 1 - i] & ~kOther; }
    MILLRACE_DEVICE bool is_by_pattern(uint32_t i) const { return (words_[kKeptWords - 1 - i] & kOther) == 0; }
    /// Of a rule that is looked at: in place of the action of those that are met always.
    MILLRACE_DEVICE void set_answer(uint32_t i, Answer answer) {
        words_[kKeptWords - 1 - i] |= static_cast<uint32_t>(answer) << named_rule::kActionShift;
    }
    MILLRACE_DEVICE static Answer answer_of(uint32_t named) {
        return static_cast<Answer>(named >> named_rule::kActionShift & named_rule::kActions);
    }

    MILLRACE_DEVICE void decide(Decision decision) {
        words_[1] = kDecided;
        words_[kIds] = decision.detail;
        words_[kIds + 1] = decision.outcome;
    }
    MILLRACE_DEVICE bool decided() const { return words_[1] == kDecided; }
    MILLRACE_DEVICE Decision decision() const { return {words_[kIds], words_[kIds + 1]}; }

private:
    static constexpr uint32_t kIds = 2, kUnknown = 0xffff;
    static constexpr uint32_t kSome = 0x40000000, kDecided = 0xffffffff;
    static constexpr uint32_t kOther = (named_rule::kNumbers + 1) / 2;
    static_assert(2 * kKeptWords < kUnknown);

    MILLRACE_DEVICE uint32_t most_rules() const {
        if (!ids_known()) return 0;
        return kKeptWords - kIds - (wide_ ? ids() : (ids() + 1) / 2);
    }
    MILLRACE_DEVICE uint32_t take() {
#if MILLRACE_GPU
        return atomicAdd(&words_[1], 1u);
#else
        return words_[1]++;
#endif
    }

    uint32_t* words_;
    bool wide_;
};

}  // namespace millrace::nf::nids
