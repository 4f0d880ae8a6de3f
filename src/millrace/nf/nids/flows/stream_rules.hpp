// What takes the rules that bytes of a stream meet: those of several segments, those that were told before, those of
// HTTP messages; and what a segment by itself has left open.
#pragma once

#include "millrace/nf/flows/stream.hpp"
#include "millrace/nf/nids/evaluate.hpp"
#include "millrace/nf/nids/http/message_memory.hpp"

namespace millrace::nf::nids {

/// `Alerts` for bytes of several segments: rules that may be met by such, whatever they do then, the lowest from a
/// number on.
class SpanningRules : public MatchedRules {
public:
    static constexpr bool kTakesAll = true;
    MILLRACE_DEVICE SpanningRules(uint32_t from, bool from_start) : MatchedRules(from), from_start_(from_start) {}
    MILLRACE_DEVICE bool takes(const CompiledRule& rule, uint32_t number) {
        if (rule.spans(from_start_)) add(number);
        return true;
    }
    MILLRACE_DEVICE void others_follow() { others_ = true; }
    /// A rule that a pattern led to was looked at, and is not met yet.
    MILLRACE_DEVICE void not_met(const CompiledRule& rule, uint32_t number) {
        if (!others_ && rule.spans(false)) open_.note(number);
    }
    MILLRACE_DEVICE const flows::Stream& open() const { return open_; }

private:
    bool from_start_;
    bool others_ = false;
    flows::Stream open_{};  ///< its notes
};

/// `Alerts` for bytes that have been judged before: which of some rules they meet.
class RulesTold {
public:
    static constexpr bool kTakesAll = true;
    MILLRACE_DEVICE explicit RulesTold(const MatchedRules& rules) : rules_(rules) {}
    MILLRACE_DEVICE bool takes(const CompiledRule&, uint32_t number) {
        for (uint32_t i = 0; i < rules_.count(); ++i)
            if (rules_[i] == number) those_ |= 1u << i;
        return true;
    }
    /// No other rule is looked at.
    MILLRACE_DEVICE bool wants(const CompiledRule&, uint32_t number) const {
        for (uint32_t i = 0; i < rules_.count(); ++i)
            if (rules_[i] == number) return true;
        return false;
    }
    MILLRACE_DEVICE void add(uint32_t) {}
    MILLRACE_DEVICE void sort() {}
    MILLRACE_DEVICE uint32_t count() const { return 0; }
    MILLRACE_DEVICE bool more() const { return false; }
    MILLRACE_DEVICE uint32_t operator[](uint32_t) const { return kNoDetail; }
    /// By the place of a rule among them, a bit.
    MILLRACE_DEVICE uint32_t those() const { return those_; }

private:
    const MatchedRules& rules_;
    uint32_t those_ = 0;
};

/// `Alerts` for an HTTP message: rules that ask of such, the lowest from a number on. Those that it may meet when more
/// of its body has come are noted with it.
class RulesOfMessage : public MatchedRules {
public:
    static constexpr bool kTakesAll = true;
    /// `for_bytes`: as of MessageRoom::note.
    MILLRACE_DEVICE RulesOfMessage(uint32_t from, http::MessageRoom& room, uint32_t for_bytes)
        : MatchedRules(from), room_(room), for_bytes_(for_bytes) {}
    MILLRACE_DEVICE bool wants(const CompiledRule& rule, uint32_t) const {
        return (rule.action & CompiledRule::kOfMessage) != 0;
    }
    MILLRACE_DEVICE bool takes(const CompiledRule& rule, uint32_t number) {
        if (wants(rule, number)) add(number);
        return true;
    }
    MILLRACE_DEVICE void others_follow() { notes_ = false; }
    /// Those that were noted are asked.
    MILLRACE_DEVICE void noted_follow() { notes_ = false; }
    MILLRACE_DEVICE void may_be_met(const CompiledRule&, uint32_t) {}
    MILLRACE_DEVICE void may_go_on(uint32_t number) {
        if (notes_) room_.note(number, for_bytes_);
    }

private:
    http::MessageRoom& room_;
    const uint32_t for_bytes_;
    bool notes_ = true;
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
