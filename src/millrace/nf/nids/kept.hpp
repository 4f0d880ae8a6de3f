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
/// from the back on what was noted because of them: rules, and groups of rules without a pattern. Then, in place of the
/// ids, the rules of these that the packet may meet, and what became of each. Or a decision.
class KeptOfPacket {
public:
    /// `patterns`: that the rules have.
    MILLRACE_DEVICE KeptOfPacket(uint32_t* words, const View<PatternRules>& patterns)
        : words_(words), wide_(patterns.size() > 0x10000) {}

    /// Ids that there is room for.
    MILLRACE_DEVICE uint32_t room() const { return (wide_ ? 1 : 2) * (kKeptWords - kFront - 1); }
    MILLRACE_DEVICE void set_id(uint32_t i, uint32_t id) {
        if (wide_) words_[kFront + i] = id;
        else reinterpret_cast<uint16_t*>(words_ + kFront)[i] = static_cast<uint16_t>(id);
    }
    MILLRACE_DEVICE uint32_t id(uint32_t i) const {
        return wide_ ? words_[kFront + i] : reinterpret_cast<const uint16_t*>(words_ + kFront)[i];
    }
    /// So many were found; if there is no room for all of them, they are not known. `flags`: header_flags of the
    /// packet; `ports`: ports_of; 0 where nobody asks. Nothing is noted yet.
    MILLRACE_DEVICE void start(uint32_t count, uint16_t flags, PortPair ports) {
        words_[0] = (count <= room() ? count : kUnknown) | uint32_t{flags} << 16;
        words_[1] = ports.src | uint32_t{ports.dst} << 16;
        words_[2] = ids_known() ? 0 : kSome;
        words_[3] = 0;
    }
    MILLRACE_DEVICE uint32_t ids() const { return words_[0] & kUnknown; }
    MILLRACE_DEVICE bool ids_known() const { return ids() != kUnknown; }
    MILLRACE_DEVICE uint16_t flags() const { return words_[0] >> 16 & (kOpenAtStart / 0x10000 - 1); }
    MILLRACE_DEVICE PortPair ports() const {
        return {static_cast<uint16_t>(words_[1]), static_cast<uint16_t>(words_[1] >> 16)};
    }

    /// Notes a named rule that a pattern led to, or else a group; from several threads at once, as `add_rule`. Some
    /// several times, as their patterns.
    MILLRACE_DEVICE void note(uint32_t number, bool by_pattern) {
        const uint32_t i = take(words_[2]);
        if (i < most_noted()) words_[kKeptWords - 1 - i] = number | (by_pattern ? 0 : kOther);
    }
    /// How much was noted. That may be more than there is room for: then it is not known.
    MILLRACE_DEVICE uint32_t count_noted() const { return words_[2]; }
    MILLRACE_DEVICE bool noted_known() const { return words_[2] <= most_noted(); }
    MILLRACE_DEVICE uint32_t noted(uint32_t i) const { return words_[kKeptWords - 1 - i] & ~kOther; }
    MILLRACE_DEVICE bool is_by_pattern(uint32_t i) const { return (words_[kKeptWords - 1 - i] & kOther) == 0; }
    /// Whether one before it is the same.
    MILLRACE_DEVICE bool is_repeated(uint32_t i) const {
#if MILLRACE_GPU
#pragma unroll 1
#endif
        for (uint32_t k = 0; k < i; ++k)
            if (words_[kKeptWords - 1 - k] == words_[kKeptWords - 1 - i]) return true;
        return false;
    }

    /// Some rule asks of the stream's first bytes what this packet's are not.
    MILLRACE_DEVICE void open_at_start() {
#if MILLRACE_GPU
        atomicOr(&words_[0], kOpenAtStart);
#else
        words_[0] |= kOpenAtStart;
#endif
    }
    MILLRACE_DEVICE bool is_open_at_start() const { return (words_[0] & kOpenAtStart) != 0; }

    /// Adds a named rule that the packet may meet. No id is there then. Likewise there may be more than known.
    MILLRACE_DEVICE void add_rule(uint32_t named, bool by_pattern) {
        const uint32_t i = take(words_[3]);
        if (i < most_rules()) words_[kFront + i] = named | (by_pattern ? 0 : kOther);
    }
    MILLRACE_DEVICE uint32_t rules() const { return words_[3]; }
    MILLRACE_DEVICE bool rules_known() const { return noted_known() && words_[3] <= most_rules(); }
    MILLRACE_DEVICE uint32_t rule(uint32_t i) const { return words_[kFront + i] & ~kOther; }
    MILLRACE_DEVICE bool rule_is_by_pattern(uint32_t i) const { return (words_[kFront + i] & kOther) == 0; }
    /// Of a rule that is looked at: in place of the action of those that are met always.
    MILLRACE_DEVICE void set_answer(uint32_t i, Answer answer) {
        words_[kFront + i] |= static_cast<uint32_t>(answer) << named_rule::kActionShift;
    }
    MILLRACE_DEVICE static Answer answer_of(uint32_t named) {
        return static_cast<Answer>(named >> named_rule::kActionShift & named_rule::kActions);
    }

    MILLRACE_DEVICE void decide(Decision decision) {
        words_[0] = decision.detail;
        words_[1] = decision.outcome;
        words_[2] = kDecided;
    }
    MILLRACE_DEVICE bool decided() const { return words_[2] == kDecided; }
    MILLRACE_DEVICE Decision decision() const { return {words_[0], words_[1]}; }

private:
    static constexpr uint32_t kFront = 4, kUnknown = 0xffff;
    static constexpr uint32_t kOpenAtStart = 0x80000000;  // no packet's header_flags have this bit
    static constexpr uint32_t kSome = 0x40000000, kDecided = 0xffffffff;
    static constexpr uint32_t kOther = (named_rule::kNumbers + 1) / 2;
    static_assert(2 * kKeptWords < kUnknown);

    MILLRACE_DEVICE uint32_t most_noted() const {
        if (!ids_known()) return 0;
        return kKeptWords - kFront - (wide_ ? ids() : (ids() + 1) / 2);
    }
    MILLRACE_DEVICE uint32_t most_rules() const { return kKeptWords - kFront - words_[2]; }
    MILLRACE_DEVICE static uint32_t take(uint32_t& count) {
#if MILLRACE_GPU
        return atomicAdd(&count, 1u);
#else
        return count++;
#endif
    }

    uint32_t* words_;
    bool wide_;
};

}  // namespace millrace::nf::nids
