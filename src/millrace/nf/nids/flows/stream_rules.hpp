// What takes the rules that bytes of a stream meet: those of several segments, those that were told before, those of
// HTTP messages; and what a segment by itself has left open.
#pragma once

#include "millrace/nf/flows/stream.hpp"
#include "millrace/nf/nids/evaluate.hpp"
#include "millrace/nf/nids/http/message_memory.hpp"

namespace millrace::nf::nids {

/// `Alerts` for bytes of a stream, whatever is asked of them, so that a GPU has the code that holds rules against bytes
/// once. `kMessages`: HTTP messages are followed.
template <bool kMessages>
class StreamAlerts : public MatchedRules {
public:
    static constexpr bool kTakesAll = true;

    /// For bytes of several segments: the lowest rules from a number on that may be met by such. `from_start`: they
    /// begin where the stream does.
    MILLRACE_DEVICE static StreamAlerts spanning(uint32_t from, bool from_start) {
        StreamAlerts made(Asks::spanning, from);
        made.from_start_ = from_start;
        return made;
    }
    /// For bytes that have been judged before: which of some rules they meet, and no other is looked at.
    MILLRACE_DEVICE static StreamAlerts told_of(const MatchedRules& rules) {
        StreamAlerts made(Asks::told, 0);
        made.rules_ = &rules;
        return made;
    }
    /// For an HTTP message: the lowest rules from a number on that ask of such. Those that it may meet when more of its
    /// body has come are noted with it; `for_bytes`: as of MessageRoom::note.
    MILLRACE_DEVICE static StreamAlerts of_message(uint32_t from, http::MessageRoom& room, uint32_t for_bytes) {
        StreamAlerts made(Asks::message, from);
        made.room_ = &room;
        made.for_bytes_ = for_bytes;
        return made;
    }

    MILLRACE_DEVICE bool wants(const CompiledRule& rule, uint32_t number) const {
        if (asks_ == Asks::spanning) return true;
        if (asks_ == Asks::message) return (rule.action & CompiledRule::kOfMessage) != 0;
        for (uint32_t i = 0; i < rules_->count(); ++i)
            if ((*rules_)[i] == number) return true;
        return false;
    }
    MILLRACE_DEVICE bool takes(const CompiledRule& rule, uint32_t number) {
        if (asks_ != Asks::told) {
            if (asks_ == Asks::message ? wants(rule, number) : rule.spans(from_start_)) add(number);
            return true;
        }
        for (uint32_t i = 0; i < rules_->count(); ++i)
            if ((*rules_)[i] == number) those_ |= 1u << i;
        return true;
    }
    /// Rules that follow are those without a pattern.
    MILLRACE_DEVICE void others_follow() { by_pattern_ = false; }
    /// They are named by whoever asks.
    MILLRACE_DEVICE void named_follow() { by_pattern_ = by_pattern_ && asks_ != Asks::message; }
    /// A rule was looked at, and is not met yet.
    MILLRACE_DEVICE void not_met(const CompiledRule& rule, uint32_t number) {
        if (asks_ == Asks::spanning && by_pattern_ && rule.spans(false)) open_.note(number);
    }
    MILLRACE_DEVICE bool asks_messages() const
        requires kMessages
    {
        return asks_ == Asks::message;
    }
    MILLRACE_DEVICE void may_be_met(const CompiledRule&, uint32_t)
        requires kMessages
    {}
    MILLRACE_DEVICE void may_go_on(uint32_t number)
        requires kMessages
    {
        if (by_pattern_) room_->note(number, for_bytes_);
    }

    /// Of several segments: those that are not met yet, its notes.
    MILLRACE_DEVICE const flows::Stream& open() const { return open_; }
    /// Of those that were named: which are met, by their places, a bit each.
    MILLRACE_DEVICE uint32_t those() const { return those_; }

private:
    enum class Asks : uint32_t { spanning, told, message };
    MILLRACE_DEVICE StreamAlerts(Asks asks, uint32_t from) : MatchedRules(from), asks_(asks) {}

    Asks asks_;
    bool from_start_ = false;
    bool by_pattern_ = true;
    uint32_t those_ = 0;
    uint32_t for_bytes_ = 0;
    flows::Stream open_{};
    const MatchedRules* rules_ = nullptr;
    http::MessageRoom* room_ = nullptr;
};

/// The rules that a segment has left open.
class OpenInSegment {
public:
    /// As `process` has marked them: takes the marks off the decision.
    MILLRACE_DEVICE explicit OpenInSegment(Decision& decision) : marks_(decision.outcome & kMarks) {
        if (const uint32_t first = decision.outcome / open_mark::kFirst; first != 0) named_[count_++] = first - 1;
        if (decision.outcome & open_mark::kInDetail) {
            named_[count_++] = decision.detail;
            decision.detail = kNoDetail;
        }
        decision.outcome &= open_mark::kOutcomes;
    }
    /// Of an early segment.
    MILLRACE_DEVICE explicit OpenInSegment(uint8_t kept)
        : marks_((kept & (kLater - 1u)) * open_mark::kSeveral | ((kept & kLater) != 0 ? kMessages : 0)) {}
    /// What is kept of it with an early segment: which rules they are is not.
    MILLRACE_DEVICE uint8_t for_later() const {
        const uint32_t several = count_ > 0 ? open_mark::kSeveral : 0;
        return static_cast<uint8_t>(((marks_ & ~kMessages) | several) / open_mark::kSeveral |
                                    ((marks_ & kMessages) != 0 || count_ > 0 ? kLater : 0));
    }
    /// Of those that are named only rules with a flag of CompiledRule.
    MILLRACE_DEVICE OpenInSegment of(const NidsTables& tables, uint8_t flag) const {
        OpenInSegment some = *this;
        some.count_ = 0;
        for (uint32_t i = 0; i < count_; ++i)
            if (tables.rules[named_[i]].action & flag) some.named_[some.count_++] = named_[i];
        return some;
    }
    MILLRACE_DEVICE bool has(uint32_t mark) const { return (marks_ & mark) != 0; }
    MILLRACE_DEVICE uint32_t count() const { return count_; }
    MILLRACE_DEVICE uint32_t operator[](uint32_t i) const { return named_[i]; }

private:
    static constexpr uint32_t kMessages = open_mark::kMessageUp | open_mark::kMessageDown;
    static constexpr uint32_t kLater = 8;  ///< of an early segment: any of these
    static constexpr uint32_t kMarks = open_mark::kSeveral | open_mark::kAtStart | open_mark::kOthers | kMessages;
    uint32_t marks_;
    uint32_t named_[2] = {};
    uint32_t count_ = 0;
};

}  // namespace millrace::nf::nids
