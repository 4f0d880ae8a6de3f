// Intrusion detection by rules that ask for the state of flows: the device half.
//
// The search for patterns and all that rules ask of a packet by itself is done for all packets at once, as without
// flows (`process`). Behind it each packet is taken into its flow, in order of arrival (`commit`), and the few of them
// that some rule has something to say about are decided there: by the one rule that has matched but for the flow, or,
// where several have, by all rules once more.
#pragma once

#include "millrace/nf/flows/stream.hpp"
#include "millrace/nf/nids/device.hpp"
#include "millrace/nf/nids/flows/bits.hpp"
#include "millrace/nf/nids/flows/flow.hpp"
#include "millrace/nf/nids/flows/numbers.hpp"
#include "millrace/nf/nids/http/message_memory.hpp"

namespace millrace::nf::nids {

/// What rules that matched come to.
struct Matches {
    uint32_t pass = kNoDetail, drop = kNoDetail, alert = kNoDetail;  ///< the lowest of each

    MILLRACE_DEVICE void add(uint32_t number, uint32_t action) {
        if (action & CompiledRule::kPass) pass = smaller(pass, number);
        else if (action & CompiledRule::kDrop) drop = smaller(drop, number);
        if (!(action & (CompiledRule::kPass | CompiledRule::kSilent))) alert = smaller(alert, number);
    }
    MILLRACE_DEVICE Decision decision() const {
        if (pass != kNoDetail) return {pass, kClean};
        if (drop != kNoDetail) return {drop, kBlock};
        return {alert, alert == kNoDetail ? kClean : kAlert};
    }
};

/// `Alerts` for a packet whose flow is known: those without flowbits, and the places of those that have some, of each
/// the lowest from a number on.
class RulesOfFlow : public MatchedRules {
public:
    MILLRACE_DEVICE RulesOfFlow(uint32_t from, uint32_t from_place) : MatchedRules(from), places_(from_place) {}
    MILLRACE_DEVICE bool takes(const CompiledRule& rule, uint32_t) {
        if (rule.state_rule != 0) places_.add(rule.state_rule - 1u);
        return rule.state_rule != 0;
    }
    MILLRACE_DEVICE const MatchedRules& places() const { return places_; }

private:
    MatchedRules places_;
};

struct FlowTables {
    NidsTables rules;
    KeyedState<flows::FlowKey, Flow> state;
    FlowRules flows;
    StateTables asked;
    MutableView<uint32_t> words;  ///< of the flows' bits, `bit_words` each, in the order of state.entries
    uint32_t bit_words = 0;
    uint32_t reserved = 0;
    flows::StreamMemory streams;    ///< of StreamsHalf
    http::MessageMemory messages;   ///< of StreamsHalf
    MutableView<uint32_t> numbers;  ///< NumbersOfFlow, `number_words` each, in that order, too
    uint32_t number_words = 0;
};

/// `State`: what rules may ask of a flow, BitsOfFlow or StateOfFlow. `Alerts`: what a packet's rules come to before
/// that.
template <class State, class Alerts = OpenRules<MatchedRules>>
struct FlowsHalf {
    static constexpr Fields reads = Nids::reads;
    static constexpr Fields writes = field::none;
    static constexpr unsigned lanes = Nids::lanes;
    static constexpr uint32_t block_bytes = Nids::block_bytes;

    using Tables = FlowTables;
    using InParts = RulesInParts<Alerts>;

#if MILLRACE_GPU
    MILLRACE_DEVICE static void stage(const Tables& tables, uint32_t* block) { Nids::stage(tables.rules, block); }
#endif

    MILLRACE_DEVICE static Lookup key(const Packet& packet, const Tables&, flows::FlowKey& key) {
        return flows::name_flow(packet, true, key).lookup;
    }

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        return Nids::search<Alerts>(packet, tables.rules, lanes, RuleHeader::kFlow);
    }

    template <class Lanes>
    MILLRACE_DEVICE static void find(const Packet& packet, const Tables& tables, uint32_t* words, Lanes lanes) {
        InParts::find(packet, tables.rules, words, lanes, RuleHeader::kFlow);
    }
    MILLRACE_DEVICE static uint32_t candidates(const Packet&, const Tables& tables, uint32_t* words) {
        return InParts::candidates(tables.rules, words);
    }
    MILLRACE_DEVICE static void sift(Packet& packet, const Tables& tables, uint32_t* words, uint32_t candidate) {
        InParts::sift(packet, tables.rules, words, candidate);
    }
    MILLRACE_DEVICE static uint32_t sifted(const Packet&, const Tables& tables, uint32_t* words) {
        return InParts::sifted(tables.rules, words);
    }
    MILLRACE_DEVICE static void check(Packet& packet, const Tables& tables, uint32_t* words, uint32_t noted) {
        InParts::check(packet, tables.rules, words, noted);
    }
    MILLRACE_DEVICE static uint32_t checked(const Packet&, const Tables& tables, uint32_t* words) {
        return InParts::checked(tables.rules, words);
    }
    template <class Lanes>
    MILLRACE_DEVICE static void judge(Packet& packet, const Tables& tables, uint32_t* words, uint32_t piece,
                                      Lanes lanes) {
        InParts::judge(packet, tables.rules, words, piece, lanes);
    }
    MILLRACE_DEVICE static Decision conclude(Packet& packet, const Tables& tables, uint32_t* words) {
        return InParts::conclude(packet, tables.rules, words);
    }

    MILLRACE_DEVICE static Decision commit(Packet& packet, const Tables& tables, Decision decision,
                                           KeyedEntry<Flow> entry) {
        const InFlow in = follow(packet, tables.flows, entry);
        const State left = left_with(packet, tables, entry, in);
        return matches_of(packet, tables, decision, in.flags, left).decision();
    }

protected:
    /// What the rules come to that the packet meets by itself, its flow known.
    MILLRACE_DEVICE static Matches matches_of(Packet& packet, const Tables& tables, Decision decision, uint16_t flow,
                                              State left) {
        if (decision.outcome == kIfFlowAllows) return decide_by_one(packet, tables, decision.detail, flow, left);
        if (decision.outcome == kNoted) return decide_by_note(packet, tables, decision.detail, flow, left);
        if (decision.outcome == kAskAgain) return decide_anew(packet, tables, flow, left);
        Matches matches;
        (decision.outcome == kBlock   ? matches.drop
         : decision.outcome == kAlert ? matches.alert
                                      : matches.pass) = decision.detail;
        return matches;
    }

    /// What packets have left with the packet's flow; the packet is taken in.
    MILLRACE_DEVICE static State left_with(const Packet& packet, const Tables& tables, const KeyedEntry<Flow>& entry,
                                           const InFlow& in) {
        const BitsOfFlow bits = bits_of(tables, entry, in.begins);
        if constexpr (State::kHasNumbers) return State(bits, numbers_of(packet, tables, entry, in));
        else return bits;
    }
    MILLRACE_DEVICE static NumbersOfFlow numbers_of(const Packet& packet, const Tables& tables,
                                                    const KeyedEntry<Flow>& entry, const InFlow& in) {
        if (!entry) return {};
        uint32_t* const words = tables.numbers.data() + tables.state.place_of(entry) * tables.number_words;
        if (in.begins)
            for (uint32_t i = 0; i < tables.number_words; ++i) words[i] = 0;
        const NumbersOfFlow numbers(words, packet.layers().is_tcp());
        if (in.is_valid) numbers.take_segment(packet, (in.flags & RuleHeader::kToServer) != 0, entry->tcp.state);
        return numbers;
    }
    MILLRACE_DEVICE static BitsOfFlow bits_of(const Tables& tables, const KeyedEntry<Flow>& entry, bool begins) {
        if (!entry || tables.bit_words == 0) return {};
        uint32_t* const words = tables.words.data() + tables.state.place_of(entry) * tables.bit_words;
        if (begins)
            for (uint32_t i = 0; i < tables.bit_words; ++i) words[i] = 0;
        return BitsOfFlow(words);
    }

    /// A rule that has matched but for the flow.
    MILLRACE_DEVICE static Matches decide_by_one(Packet& packet, const Tables& tables, uint32_t number, uint16_t flow,
                                                 State left) {
        const CompiledRule& rule = tables.rules.rules[number];
        Matches matches;
        if ((rule.flags & RuleHeader::kFlow & ~flow) != 0) return matches;
        if (rule.state_rule == 0 || meets(tables, rule.state_rule - 1u, left)) matches.add(number, rule.action);
        if (matches.alert != kNoDetail) packet.emit_once(number);
        return matches;
    }

    /// Whether a rule that asks what packets have left, all else of which is met, matches. Then it leaves what it does.
    MILLRACE_DEVICE static bool meets(const Tables& tables, uint32_t place, State left) {
        const StateRule& rule = tables.asked.rules[place];
        if (!left.allow(tables.asked, rule)) return false;
        left.take(tables.asked, rule);
        return true;
    }

    /// Several rules, some of which have matched but for the flow: as decide_anew, which has to look for them.
    MILLRACE_DEVICE_CALL static Matches decide_by_note(Packet& packet, const Tables& tables, uint32_t number,
                                                       uint16_t flow, State left) {
        RuleNote note;
        if (!tables.rules.notes.read(number, note)) return decide_anew(packet, tables, flow, left);
        Matches matches;
        matches.pass = note.pass;
        matches.drop = note.drop;
        uint32_t plain = 0, with_state = 0;  // of those that the flow allows, a bit each
        for (uint32_t i = 0; i < note.count; ++i) {
            const CompiledRule& rule = tables.rules.rules[note.rules[i]];
            if ((rule.flags & RuleHeader::kFlow & ~flow) != 0) continue;
            if (rule.state_rule != 0) with_state |= 1u << i;
            else if (rule.action & CompiledRule::kPass) matches.pass = smaller(matches.pass, note.rules[i]);
            else plain |= 1u << i;
        }
        while (with_state != 0) {
            uint32_t next = 0, place = kNoDetail;
            for (uint32_t i = 0; i < note.count; ++i) {
                const uint32_t own = tables.rules.rules[note.rules[i]].state_rule - 1u;
                if ((with_state >> i & 1) == 0 || own >= place) continue;
                place = own;
                next = i;
            }
            with_state &= ~(1u << next);
            if (meets(tables, place, left)) add(packet, tables, note.rules[next], matches);
        }
        for (uint32_t i = 0; i < note.count; ++i)
            if ((plain >> i & 1) != 0) add(packet, tables, note.rules[i], matches);
        return matches;
    }

    /// All rules once more. Those with a StateRule come first, in their order, a few at a time; however many alert,
    /// each is told.
    MILLRACE_DEVICE_CALL static Matches decide_anew(Packet& packet, const Tables& tables, uint16_t flow, State left) {
        Matches matches;
        bool more_alerts = true, more_asked = true;
        uint32_t from = 0, from_place = 0;
        while (more_alerts || more_asked) {
            RulesOfFlow found(from, from_place);
            look_again(packet, tables.rules, found, flow, matches);
            for (uint32_t i = 0; i < found.places().count() && more_asked; ++i) {
                const uint32_t place = found.places()[i];
                if (meets(tables, place, left)) add(packet, tables, tables.asked.rules[place].rule, matches);
                from_place = place + 1;
            }
            more_asked = more_asked && found.places().more();
            if (more_asked) continue;
            for (uint32_t i = 0; i < found.count(); ++i) {
                add(packet, tables, found[i], matches);
                from = found[i] + 1;
            }
            more_alerts = found.more();
        }
        return matches;
    }
    MILLRACE_DEVICE static void add(Packet& packet, const Tables& tables, uint32_t number, Matches& matches) {
        const uint32_t action = tables.rules.rules[number].action;
        matches.add(number, action);
        const bool alerts = !(action & (CompiledRule::kPass | CompiledRule::kSilent));
        if (alerts && matches.pass == kNoDetail) packet.emit_once(number);
    }
    MILLRACE_DEVICE_CALL static void look_again(Packet& packet, const NidsTables& tables, RulesOfFlow& found,
                                                uint16_t flow, Matches& matches) {
        using One = Lanes<1>;
        using Rules = Evaluation<One, RulesOfFlow>;
        Rules::Buffers buffers = Rules::buffers_of(packet, {});
        Rules evaluation(packet, tables, buffers, found, {}, flow);
        pattern::find_beginning(packet.payload(), packet.payload_bytes(), 0, packet.payload_bytes(), tables.patterns,
                                [&](auto& ids, uint32_t most) {
                                    evaluation.patterns([&](uint32_t) { return ids.take(tables.patterns, most); });
                                });
        evaluation.others();
        matches.pass = smaller(matches.pass, evaluation.passes());
        matches.drop = smaller(matches.drop, evaluation.drops());
    }
};

using NidsOfFlows = FlowsHalf<BitsOfFlow>;
using NidsOfFlowNumbers = FlowsHalf<StateOfFlow>;

}  // namespace millrace::nf::nids
