// All rules against one packet, once the patterns in its payload are known.
#pragma once

#include "millrace/nf/nids/kept.hpp"
#include "millrace/nf/nids/matched_rules.hpp"
#include "millrace/nf/nids/rule_groups.hpp"

namespace millrace::nf::nids {

namespace detail {

template <class Lanes, class Alerts>
MILLRACE_DEVICE_CALL void emit_alerts(Packet& packet, const Alerts& alerts, Lanes lanes) {
    if (alerts.more()) return lanes.once([&] { packet.leave_events(); });
    for (uint32_t i = 0; i < alerts.count(); ++i) lanes.once([&] { packet.emit(alerts[i]); });
}

}  // namespace detail

/// Whether rules say anything of such a packet.
MILLRACE_DEVICE bool concerns(const Packet& packet) {
    return packet.layers().is_ip() && packet.layers().malformed == Malformed::no;
}

/// One packet's way through the rules: `patterns` for those found, then `finish`. The lanes look for different rules
/// whether the packet has their headers, and together at what else the few ask for that it may meet. `Alerts` takes the
/// rules that matched. Its parts that calls get by reference are the caller's: on a GPU they lie in memory, and all
/// that is of one object with them would, too.
template <class Lanes, class Alerts = MatchedRules>
class Evaluation {
public:
    /// Whether what a packet does not meet may be met by more of an HTTP message.
    static constexpr bool kOfMessages = requires(Alerts& alerts) { alerts.may_go_on(0u); };
    using Buffers = PayloadBuffers<Lanes, kOfMessages>;

    /// `flow`: as of header_flags.
    MILLRACE_DEVICE Evaluation(Packet& packet, const NidsTables& tables, Buffers& buffers, Alerts& alerts, Lanes lanes,
                               uint16_t flow = 0)
        : packet_(packet), tables_(tables), lanes_(lanes), examination_(packet, tables, buffers, lanes, flow),
          alerts_(alerts) {}
    /// Of the packet's payload.
    MILLRACE_DEVICE static Buffers buffers_of(const Packet& packet, Lanes lanes) {
        return {packet.payload(), packet.payload_bytes(), packet.layers().is_tcp(), lanes};
    }

    /// The rules that look for the patterns which `take(lane)` gives, one of those that a lane has found at each call,
    /// kNoPattern behind the last. Some may come several times.
    template <class Take>
    MILLRACE_DEVICE void patterns(Take&& take) {
        while (true) {
            LaneLists<Lanes, Listed> rules;
            lanes_.for_each(Lanes::count, [&](uint32_t lane) {
                const uint32_t id = take(lane);
                if (id != pattern::kNoPattern) rules.of(lane) = rules_of(tables_.by_pattern[id]);
            });
            const uint32_t total = rules.join(lanes_);
            if (total == 0) return;
            if (tables_.asks_more) examination_.look();
            try_rules(rules, total, [&](const Listed& listed) { return may_meet(listed); });
        }
    }

    /// The rules that look for no pattern.
    MILLRACE_DEVICE void others() {
        if (!tables_.without_pattern) return;
        examination_.look();
        if constexpr (requires { alerts_.others_follow(); }) alerts_.others_follow();
        try_groups();
    }
    /// The lowest rule that matched and passes, or drops; kNoDetail: none does.
    MILLRACE_DEVICE uint32_t passes() const { return pass_; }
    MILLRACE_DEVICE uint32_t drops() const { return drop_; }

    // The same in parts, by what is kept of the packet. Each may be by an object of its own.

    /// Tells it what is kept of the packet's header_flags and ports.
    MILLRACE_DEVICE void know(const KeptOfPacket& kept) { examination_.know(kept.flags(), kept.ports()); }
    /// Notes what flags and ports do not refuse: the rules of the `which`th pattern that is kept, or behind those the
    /// groups of an index. By one lane.
    MILLRACE_DEVICE void note(uint32_t which, KeptOfPacket& kept) const {
        const bool by_pattern = which < kept.ids();
        const List<Listed> list = by_pattern ? rules_of(tables_.by_pattern[kept.id(which)])
                                             : detail::groups_without_pattern(tables_, packet_, which - kept.ids());
#if MILLRACE_GPU
#pragma unroll 1
#endif
        for (uint32_t i = 0; i < list.count; ++i) {
            const Listed listed = list.first[i];
            if (examination_.may_be_for(listed, messages_followed())) kept.note(listed.number, by_pattern);
        }
    }
    /// Adds the rules of what was noted whose header and fields the packet has. By one lane.
    MILLRACE_DEVICE void add_noted(uint32_t which, KeptOfPacket& kept) const {
        const uint32_t noted = kept.noted(which);
        const bool by_pattern = kept.is_by_pattern(which);
        if (by_pattern && (noted & named_rule::kAlways)) return kept.add_rule(noted, true);
        uint32_t header = 0, count = 1;
        uint16_t flags = 0;
        const uint32_t* grouped = nullptr;
        if (by_pattern) {
            const CompiledRule& rule = tables_.rules[noted];
            header = rule.header;
            flags = rule.flags;
        } else {
            const RuleGroup& group = tables_.groups[noted];
            header = group.header;
            flags = group.flags;
            count = group.count;
            grouped = tables_.grouped_rules.data() + group.first;
        }
        if (!has_header(flags, header, messages_followed())) return;
#if MILLRACE_GPU
#pragma unroll 1
#endif
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t number = by_pattern ? noted : grouped[i];
            const May may = may_meet_else(number);
            if (may == May::yes) kept.add_rule(number, by_pattern);
            if (may == May::at_start) kept.open_at_start();
        }
    }
    /// What becomes of the options of a rule. By all lanes.
    MILLRACE_DEVICE Answer answer(uint32_t number) {
        const CompiledRule& rule = tables_.rules[number];
        const bool elsewhere = is_elsewhere(rule);
        if (!elsewhere && examination_.has_options(rule)) return Answer::met;
        if constexpr (kOfMessages)
            if (asks_messages()) return answer_in_message(rule, elsewhere);
        return elsewhere ? Answer::elsewhere : Answer::not_met;
    }
    /// What the rules come to that are kept, with their answers.
    MILLRACE_DEVICE Decision conclude(const KeptOfPacket& kept) {
        if (kept.is_open_at_start()) open_at_start();
        for (uint32_t round = 0; round < 2; ++round) {
            const bool by_pattern = round == 0;
            if constexpr (requires { alerts_.others_follow(); })
                if (!by_pattern) alerts_.others_follow();
            for (uint32_t i = 0; i < kept.rules(); ++i) {
                if (kept.rule_is_by_pattern(i) != by_pattern) continue;
                const uint32_t named = kept.rule(i), number = named & named_rule::kNumbers;
                if (named & named_rule::kAlways) take_always(named);
                else take(tables_.rules[number], number, KeptOfPacket::answer_of(named));
            }
        }
        return result();
    }

    /// The rules that look for no pattern, the alerts, the decision; or that the flow is to be asked.
    MILLRACE_DEVICE Decision finish() {
        others();
        return result();
    }
    MILLRACE_DEVICE Decision result() {
        const Decision decision = decide();
        if constexpr (requires { alerts_.with_marks(decision); }) return alerts_.with_marks(decision);
        else return decision;
    }
    /// One rule, whatever leads to it.
    MILLRACE_DEVICE void one(uint32_t number) {
        examination_.look();
        const CompiledRule& rule = tables_.rules[number];
        if (has_header(rule.flags, rule.header, messages_followed()) && may_meet_rest(number)) try_options(number);
    }

private:
    /// kOfMessages, where the alerts do not say otherwise.
    MILLRACE_DEVICE bool asks_messages() const {
        if constexpr (requires { alerts_.asks_messages(); }) return alerts_.asks_messages();
        return kOfMessages;
    }

    MILLRACE_DEVICE Decision decide() {
        if constexpr (requires { alerts_.any(); })
            if (alerts_.any()) return open_decision();
        if (pass_ != kNoDetail) return {pass_, kClean};
        alerts_.sort();
        if (alerts_.count() > 0) detail::emit_alerts(packet_, alerts_, lanes_);
        if (drop_ != kNoDetail) return {drop_, kBlock};
        return alerts_.count() == 0 ? Decision{kNoDetail, kClean} : Decision{alerts_[0], kAlert};
    }

    /// Where rules ask for the flow.
    MILLRACE_DEVICE_CALL Decision open_decision() {
        alerts_.sort();
        if (alerts_.count() == 1 && !alerts_.more() && pass_ == kNoDetail && drop_ == kNoDetail)
            return {alerts_[0], kIfFlowAllows};
        if (alerts_.more() || alerts_.count() > RuleNote::kMaxRules || tables_.notes.words.empty())
            return {kNoDetail, kAskAgain};
        const uint32_t number = lanes_.minimum(1, [&](uint32_t) { return tables_.notes.write(pass_, drop_, alerts_); });
        return {number, kNoted};
    }

    MILLRACE_DEVICE List<Listed> rules_of(const PatternRules& rules) const {
        return {rules.count == 1 ? &rules.only : tables_.pattern_rules.data() + rules.first, rules.count};
    }
    /// Whether HTTP messages are, so that a packet without a head may be a part of one.
    MILLRACE_DEVICE bool messages_followed() const { return asks_messages() && tables_.follows_messages; }

    /// Rules without a pattern.
    MILLRACE_DEVICE void try_groups() {
        for (uint32_t first = 0; first < detail::kIndexes; first += Lanes::count) {
            LaneLists<Lanes, Listed> groups;
            lanes_.for_each(smaller(Lanes::count, detail::kIndexes - first), [&](uint32_t lane) {
                groups.of(lane) = detail::groups_without_pattern(tables_, packet_, first + lane);
            });
            const uint32_t total = groups.join(lanes_);
#if MILLRACE_GPU
#pragma unroll 1
#endif
            for (uint32_t base = 0; base < total; base += Lanes::count) try_groups(groups.next(base, total, lanes_));
        }
    }
    /// Those of a group for each lane.
    MILLRACE_DEVICE void try_groups(PerLane<Listed, Lanes> groups) {
        LaneLists<Lanes, uint32_t> rules;
        lanes_.for_each(Lanes::count, [&](uint32_t lane) {
            if (groups.of(lane).number != kNoNumber) rules.of(lane) = rules_of(groups.of(lane));
        });
        try_rules(rules, rules.join(lanes_), [&](uint32_t number) { return may_meet_rest(number); });
    }
    /// Those of a group; none where the packet has not its header.
    MILLRACE_DEVICE List<uint32_t> rules_of(const Listed& listed) const {
        if (!examination_.may_be_for(listed, messages_followed())) return {};
        const RuleGroup& group = tables_.groups[listed.number];
        if (!tells_all(listed, tables_.header) && !has_header(group.flags, group.header, messages_followed()))
            return {};
        return {tables_.grouped_rules.data() + group.first, group.count};
    }

    MILLRACE_DEVICE static uint32_t number_of(uint32_t number) { return number; }
    MILLRACE_DEVICE static uint32_t number_of(const Listed& listed) { return listed.number; }
    /// All rules of lists, named ones: those for which `may_meet`, which each lane asks of another one, holds are
    /// looked at by all lanes.
    template <class T, class MayMeet>
    MILLRACE_DEVICE void try_rules(LaneLists<Lanes, T>& rules, uint32_t total, MayMeet&& may_meet) {
#if MILLRACE_GPU
#pragma unroll 1
#endif
        for (uint32_t base = 0; base < total; base += Lanes::count) {
            PerLane<T, Lanes> next = rules.next(base, total, lanes_);
            if constexpr (Lanes::count == 1) {
                if (may_meet(next.of(0))) try_options(number_of(next.of(0)));
                continue;
            }
            PerLane<uint32_t, Lanes> named;
            lanes_.for_each(Lanes::count, [&](uint32_t lane) {
                const bool meets = number_of(next.of(lane)) != kNoNumber && may_meet(next.of(lane));
                named.of(lane) = meets ? number_of(next.of(lane)) : kNoNumber;
            });
            uint32_t from = 0;
            while (true) {
                const uint32_t least = lanes_.minimum(
                    Lanes::count, [&](uint32_t lane) { return named.of(lane) >= from ? named.of(lane) : kNoNumber; });
                if (least == kNoNumber) break;
                try_options(least);
                from = least + 1;
            }
        }
    }
    /// Whether anybody asks of a rule.
    MILLRACE_DEVICE bool wants(const CompiledRule& rule, uint32_t number) const {
        if constexpr (requires { alerts_.wants(rule, number); }) return alerts_.wants(rule, number);
        return true;
    }
    /// Whether the packet has the header and the fields of a named rule.
    MILLRACE_DEVICE bool may_meet(const Listed& listed) {
        if (listed.number & named_rule::kAlways) return true;
        if (!examination_.may_be_for(listed, messages_followed())) return false;
        const CompiledRule& rule = tables_.rules[listed.number];
        return (tells_all(listed, tables_.header) || has_header(rule.flags, rule.header, messages_followed())) &&
               may_meet_rest(listed.number);
    }
    enum class May : uint8_t { no, at_start, yes };
    /// Whether the packet may meet a rule whose header it has, or lacks only an HTTP message's begin. `at_start`: it
    /// does not, but may be one of several segments that do, which is decided by the first of them.
    MILLRACE_DEVICE May may_meet_else(uint32_t number) const {
        const CompiledRule& rule = tables_.rules[number];
        if (!wants(rule, number) || (is_elsewhere(rule) && !is_of_body(rule))) return May::no;
        const HasFields has = examination_.has_fields(rule);
        if (has != HasFields::not_at_start) return has == HasFields::yes ? May::yes : May::no;
        if constexpr (requires { alerts_.not_met(rule, number); }) {
            if (rule.action & CompiledRule::kOfMessage) return May::yes;
            if (rule.action & CompiledRule::kAtStart) return May::at_start;
        }
        return May::no;
    }
    /// Whether its options are to be looked at. By one lane that is told at once; several look where it is open.
    MILLRACE_DEVICE bool may_meet_rest(uint32_t number) {
        const May may = may_meet_else(number);
        if constexpr (Lanes::count == 1)
            if (may == May::at_start) {
                open_at_start();
                return false;
            }
        return may != May::no;
    }
    MILLRACE_DEVICE void open_at_start() {
        if constexpr (requires { alerts_.open_at_start(); }) alerts_.open_at_start();
    }
    /// Whether it is for HTTP, of which the packet has no head: of a message that began elsewhere.
    MILLRACE_DEVICE bool is_elsewhere(const CompiledRule& rule) const {
        return asks_messages() && (rule.flags & RuleHeader::kHttp) != 0 && !examination_.begins_http();
    }
    /// Whether a body may meet a rule of which this packet has a part.
    MILLRACE_DEVICE bool is_of_body(const CompiledRule& rule) const {
        return asks_messages() && (rule.action & CompiledRule::kOfBody) != 0;
    }
    /// Whether the packet has a header; `of_body`: or lacks of it only that an HTTP message begins here.
    MILLRACE_DEVICE bool has_header(uint16_t flags, uint32_t header, bool of_body) const {
        return of_body ? examination_.may_have_header(flags, header) : examination_.has_header(flags, header);
    }
    /// A named rule that the packet may meet.
    MILLRACE_DEVICE void try_options(uint32_t named) {
        const uint32_t number = named & named_rule::kNumbers;
        if (named & named_rule::kAlways) take_always(named);
        else take(tables_.rules[number], number, answer(number));
    }
    MILLRACE_DEVICE void take_always(uint32_t named) {
        const uint32_t number = named & named_rule::kNumbers;
        if constexpr (requires { Alerts::kTakesAll; }) alerts_.takes(tables_.rules[number], number);
        else matched(number, named >> named_rule::kActionShift & named_rule::kActions);
    }
    MILLRACE_DEVICE void take(const CompiledRule& rule, uint32_t number, Answer answer) {
        if (answer == Answer::met) {
            if constexpr (requires { alerts_.takes(rule, number); })
                if (alerts_.takes(rule, number)) return;
            matched(number, rule.action);
            return;
        }
        if constexpr (kOfMessages) {
            if (answer == Answer::may_go_on || answer == Answer::elsewhere_may_go_on) alerts_.may_go_on(number);
            if constexpr (requires { alerts_.may_be_met(rule, number); })
                if (answer == Answer::may_be_met || answer == Answer::elsewhere_may_be_met)
                    alerts_.may_be_met(rule, number);
        }
        if constexpr (requires { alerts_.not_met(rule, number); })
            if (answer == Answer::not_met || answer == Answer::may_be_met || answer == Answer::may_go_on)
                alerts_.not_met(rule, number);
    }
    /// A rule that the packet does not meet: whether a message may, of which the packet is a part.
    MILLRACE_DEVICE_CALL Answer answer_in_message(const CompiledRule& rule, bool elsewhere) {
        const Answer no = elsewhere ? Answer::elsewhere : Answer::not_met;
        if ((rule.action & CompiledRule::kOfBody) == 0 || !packet_.layers().is_tcp()) return no;
        const bool begins = examination_.begins_http();
        const bool rest_is_open = examination_.has_options(rule, begins ? TakenFor::head : TakenFor::body);
        if (begins == rest_is_open) return elsewhere ? Answer::elsewhere_may_go_on : Answer::may_go_on;
        if (rest_is_open) return elsewhere ? Answer::elsewhere_may_be_met : Answer::may_be_met;
        return no;
    }

    MILLRACE_DEVICE void matched(uint32_t index, uint32_t action) {
        if (action & CompiledRule::kPass) {
            pass_ = smaller(pass_, index);
            return;
        }
        if (action & CompiledRule::kDrop) drop_ = smaller(drop_, index);
        if (!(action & CompiledRule::kSilent)) alerts_.add(index);
    }

    Packet& packet_;
    const NidsTables& tables_;
    Lanes lanes_;
    Examination<Lanes, kOfMessages> examination_;
    Alerts& alerts_;
    uint32_t pass_ = kNoDetail;
    uint32_t drop_ = kNoDetail;
};

}  // namespace millrace::nf::nids
