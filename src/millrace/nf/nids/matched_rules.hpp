// What one packet's rules come to: those that matched, and those that wait for what its flow or its stream tells.
#pragma once

#include "millrace/nf/nids/tables.hpp"
#include "millrace/packet/decision.hpp"

namespace millrace::nf::nids {

/// Outcomes of the NF.
enum Outcome : uint32_t { kClean, kAlert, kBlock };

/// Most alerts that the device half holds; of packets with more the CPU tells.
inline constexpr uint32_t kMaxAlerts = 15;

/// The lowest of the rules that matched, of those from a number on, ascending; and whether there were more.
class MatchedRules {
public:
    MILLRACE_DEVICE explicit MatchedRules(uint32_t from = 0) : from_(from) {}
    /// Any number of times.
    MILLRACE_DEVICE_CALL void add(uint32_t rule) {
        if (rule < from_) return;
        uint32_t i = count_;
        while (i > 0 && rules_[i - 1] > rule) --i;
        if (i > 0 && rules_[i - 1] == rule) return;
        if (count_ == kMaxAlerts) {
            more_ = true;
            if (i == kMaxAlerts) return;
            --count_;
        }
        for (uint32_t k = count_++; k > i; --k) rules_[k] = rules_[k - 1];
        rules_[i] = rule;
    }
    MILLRACE_DEVICE uint32_t count() const { return count_; }
    MILLRACE_DEVICE bool more() const { return more_; }
    MILLRACE_DEVICE void sort() {}
    MILLRACE_DEVICE uint32_t operator[](uint32_t i) const { return rules_[i]; }

private:
    uint32_t rules_[kMaxAlerts];
    uint32_t from_;
    uint32_t count_ = 0;
    bool more_ = false;
};

/// `Alerts` for a packet of whose flow nothing is known yet. Rules that ask for it are held against all else; those
/// that match then are kept with the others.
template <class Alerts>
class OpenRules : public Alerts {
public:
    using Alerts::Alerts;
    /// Whether the rule was one of these.
    MILLRACE_DEVICE bool takes(const CompiledRule& rule, uint32_t number) {
        if (!rule.asks_flow()) return false;
        any_ = true;
        Alerts::add(number);
        return true;
    }
    MILLRACE_DEVICE bool any() const { return any_; }

private:
    bool any_ = false;
};

/// Outcomes that are none: what the rules say of the packet depends on its flow. The detail of the first is the one
/// rule that has matched but for that; of the second the number of a RuleNote that has all; of the last there are more
/// than a note has room for.
inline constexpr uint32_t kIfFlowAllows = 16, kNoted = 17, kAskAgain = 18;

/// What is known of a segment's bytes besides an outcome, and added to that: rules that they led to, whose headers it
/// has, ask for more than it has alone.
namespace open_mark {
inline constexpr uint32_t kOutcomes = 31;
inline constexpr uint32_t kSeveral = 32;    ///< more than are named
inline constexpr uint32_t kAtStart = 64;    ///< such as are CompiledRule::kAtStart
inline constexpr uint32_t kOthers = 128;    ///< such as no pattern leads to
inline constexpr uint32_t kInDetail = 256;  ///< the detail is one's number: it has no other meaning then
/// More than are named that an HTTP message to the server, or to the client, may meet.
inline constexpr uint32_t kMessageUp = 512, kMessageDown = 1024;
inline constexpr uint32_t kFirst = 4096;                        ///< one's number, and 1, times this; 0: none is named
inline constexpr uint32_t kLargest = 0xfffffffeu / kFirst - 1;  ///< number that is named so
}  // namespace open_mark

/// OpenRules, where streams are looked at; `kMessages`: and HTTP messages in them.
template <class Alerts, bool kMessages>
class OpenRulesOfStream : public OpenRules<Alerts> {
public:
    using OpenRules<Alerts>::OpenRules;
    /// Rules that follow are those without a pattern.
    MILLRACE_DEVICE void others_follow() { others_ = true; }
    /// A rule says of the stream's first bytes what this packet's are not.
    MILLRACE_DEVICE void open_at_start() { marks_ |= open_mark::kAtStart; }
    /// A rule was looked at, and its options are not met.
    MILLRACE_DEVICE void not_met(const CompiledRule& rule, uint32_t number) {
        if ((rule.action & CompiledRule::kSpans) == 0) return;
        if (rule.action & CompiledRule::kAtStart) open_at_start();
        else if (others_) marks_ |= open_mark::kOthers;
        else if (!name(number)) marks_ |= open_mark::kSeveral;
    }
    /// An HTTP message that the packet is a part of may meet a rule.
    MILLRACE_DEVICE void may_be_met(const CompiledRule& rule, uint32_t number)
        requires kMessages
    {
        const uint32_t ways = ((rule.flags & RuleHeader::kToClient) ? 0 : open_mark::kMessageUp) |
                              ((rule.flags & RuleHeader::kToServer) ? 0 : open_mark::kMessageDown);
        if (name(number)) named_ways_ |= ways;
        else marks_ |= ways;
    }
    /// It may when more of its body has come, of which the packet has a part: noted as far as there is room.
    MILLRACE_DEVICE void may_go_on(uint32_t number)
        requires kMessages
    {
        for (uint32_t i = 0; i < 2; ++i) {
            if (named_[i] == number) return;
            if (named_[i] != kNoDetail) continue;
            named_[i] = number;
            weak_ |= 1u << i;
            return;
        }
    }
    MILLRACE_DEVICE Decision with_marks(Decision decision) const {
        decision.outcome |= marks_;
        if (named_[0] == kNoDetail) return decision;
        const bool has_detail = decision.detail != kNoDetail;
        const uint32_t first = has_detail && (weak_ & 1) != 0 && named_[1] != kNoDetail ? 1 : 0;
        const bool has_second = first == 0 && named_[1] != kNoDetail && !(has_detail && (weak_ & 2) != 0);
        if (named_[first] > open_mark::kLargest || (has_second && has_detail)) {
            decision.outcome |= open_mark::kSeveral | named_ways_;
            return decision;
        }
        decision.outcome |= (named_[first] + 1) * open_mark::kFirst | (has_second ? open_mark::kInDetail : 0);
        if (has_second) decision.detail = named_[1];
        return decision;
    }

private:
    /// False where two others are named, by more than may_go_on.
    MILLRACE_DEVICE bool name(uint32_t number) {
        uint32_t at = 2;
        for (uint32_t i = 2; i-- > 0;)
            if (named_[i] == kNoDetail || (weak_ >> i & 1) != 0) at = i;
        for (uint32_t i = 0; i < 2; ++i)
            if (named_[i] == number) at = i;
        if (at == 2) return false;
        named_[at] = number;
        weak_ &= ~(1u << at);
        return true;
    }

    uint32_t named_[2] = {kNoDetail, kNoDetail};
    uint32_t weak_ = 0;        ///< of them, a bit each: may_go_on has named it
    uint32_t named_ways_ = 0;  ///< marks to be made where names can't be given
    uint32_t marks_ = 0;
    bool others_ = false;
};

}  // namespace millrace::nf::nids
