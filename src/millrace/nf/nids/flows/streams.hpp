// Rules that several segments of a TCP stream meet together: the device half.
//
// `process` judges a segment by itself, as without streams, and notes whether its bytes led to rules that ask for more.
// `commit` puts it in order and looks at what follows each other: at the few bytes around the joint for patterns that
// lie across it; at the whole tail only if an earlier segment has led to such rules, and at the whole segment only if
// it has itself. Where a pattern is found its rules are asked of tail and segment together. What the tail or the
// segment alone meets has been told.
#pragma once

#include "millrace/nf/flows/stream.hpp"
#include "millrace/nf/nids/flows/device.hpp"

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
    MILLRACE_DEVICE explicit OpenInSegment(uint8_t kept) : marks_(uint32_t{kept} * open_mark::kSeveral) {}
    /// What is kept of it with an early segment: which rules they are is not.
    MILLRACE_DEVICE uint8_t for_later() const {
        return static_cast<uint8_t>((marks_ | (count_ > 0 ? open_mark::kSeveral : 0)) / open_mark::kSeveral);
    }
    MILLRACE_DEVICE bool has(uint32_t mark) const { return (marks_ & mark) != 0; }
    MILLRACE_DEVICE uint32_t count() const { return count_; }
    MILLRACE_DEVICE uint32_t operator[](uint32_t i) const { return named_[i]; }

private:
    static constexpr uint32_t kMarks = open_mark::kSeveral | open_mark::kAtStart | open_mark::kOthers;
    uint32_t marks_;
    uint32_t named_[2] = {};
    uint32_t count_ = 0;
};

struct NidsOfStreams : NidsOfFlows {
    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        return Nids::search<OpenRulesOfStream<MatchedRules>>(packet, tables.rules, lanes, RuleHeader::kFlow);
    }

    MILLRACE_DEVICE static Decision commit(Packet& packet, const Tables& tables, Decision decision,
                                           KeyedEntry<Flow> entry) {
        const OpenInSegment open(decision);
        const InFlow in = follow(packet, tables.flows, entry);
        const BitsOfFlow bits = bits_of(tables, entry, in.begins);
        Matches matches = matches_of(packet, tables, decision, in.flags, bits);
        if (entry && packet.layers().is_tcp()) follow_stream(packet, tables, entry, in, open, bits, matches);
        return matches.decision();
    }

private:
    using One = Lanes<1>;

    /// What is known of a packet while its stream is looked at.
    struct Look {
        Packet& packet;
        const Tables& tables;
        const flows::Streams& streams;
        BitsOfFlow bits;
        Matches& matches;
        MatchedRules told;  ///< of this packet
        uint16_t flow;
    };

    MILLRACE_DEVICE_CALL static void follow_stream(Packet& packet, const Tables& tables, const KeyedEntry<Flow>& entry,
                                                   const InFlow& in, const OpenInSegment& open, BitsOfFlow bits,
                                                   Matches& matches) {
        const auto place = static_cast<uint64_t>(&*entry - tables.state.values.data());
        const uint64_t first = place / flows::StreamMemory::kWays * flows::StreamMemory::kWays;
        const auto way = static_cast<uint32_t>(place - first);
        const flows::Streams streams(tables.streams, static_cast<uint32_t>(first / flows::StreamMemory::kWays));
        if (in.begins) streams.begin(way);
        const Layers& layers = packet.layers();
        if (!in.is_valid || layers.is_fragment()) return;
        flows::StreamSegment segment;
        segment.flags = packet.tcp_flags();
        if (segment.flags & tcp::kRst) return streams.end(way);
        segment.seq = load_be32(packet.l4() + 4);
        segment.data = packet.payload();
        segment.bytes = packet.payload_bytes();
        segment.marks = open.for_later();
        const uint32_t number = 2 * way + ((in.flags & RuleHeader::kToServer) ? 0 : 1);
        const uint64_t now = packet.time_ns();
        Look look{packet, tables, streams, bits, matches, MatchedRules(), in.flags};
        const uint8_t* const own = segment.data;
        const uint32_t events = streams.take(
            number, segment,
            [&](uint32_t other) {
                return tables.state.tags[first + other] == 0 || tables.state.deadlines[first + other] < now;
            },
            [&](const flows::StreamPiece& piece) {
                judge(look, piece, piece.data - piece.before == own ? open : OpenInSegment(piece.marks),
                      streams.of(number));
            });
        if (events & flows::stream_event::kChanged) packet.emit_once(changed_code(tables.rules));
        if (events & flows::stream_event::kGap) packet.emit_once(changed_code(tables.rules) + 1);
    }
    /// Events that are no rule's come behind those.
    MILLRACE_DEVICE static uint32_t changed_code(const NidsTables& tables) {
        return static_cast<uint32_t>(tables.rules.size());
    }

    /// How many bytes on either side of a joint a pattern across it has at most.
    MILLRACE_DEVICE static uint32_t reach_of(const NidsTables& tables) {
        const auto levels = static_cast<uint32_t>(tables.patterns.levels.size());  // one for each length from 0, and
                                                                                   // one
        return levels < 4 ? 0 : smaller(levels - 3, kMostReach);
    }
    static constexpr uint32_t kMostReach = 32;

    MILLRACE_DEVICE static void judge(Look& look, const flows::StreamPiece& piece, const OpenInSegment& open,
                                      flows::Stream& stream) {
        const NidsTables& tables = look.tables.rules;
        // Of another generation of rules: these have other numbers.
        if (stream.reader != look.tables.streams.reader && stream.notes != 0) stream.notes = flows::Stream::kMany;
        stream.reader = look.tables.streams.reader;
        const bool all_of_piece = open.has(open_mark::kSeveral) || (open.has(open_mark::kAtStart) && piece.whole);
        const bool all_of_tail = stream.notes == flows::Stream::kMany || (piece.whole && tables.spans_from_start);
        const uint32_t before = stream.notes;
        const flows::Stream noted = stream;
        // What will be out of reach behind this piece makes room.
        const uint32_t behind = piece.seq + piece.bytes;
        if (!flows::is_behind(stream.noted_to, behind - look.tables.streams.tail)) stream.notes = 0;
        const uint32_t stay = stream.notes;
        if (piece.tail_bytes > 0) {
            const bool joint = all_of_piece || all_of_tail || has_joint(tables, piece);
            if (joint || open.has(open_mark::kOthers) || before + open.count() > 0)
                judge_window(look, piece, {joint, all_of_tail, all_of_piece}, open, noted, stream);
        }
        for (uint32_t i = 0; i < open.count(); ++i) stream.note(open[i]);
        if (open.has(open_mark::kSeveral)) stream.notes = flows::Stream::kMany;
        if (stream.notes != stay || open.count() > 0 || open.has(open_mark::kSeveral)) stream.noted_to = behind;
    }

    /// Where patterns count: around the joint or nowhere, and all over tail and piece.
    struct Where {
        bool joint, all_of_tail, all_of_piece;
    };

    /// Whether a pattern may begin in the tail's last bytes and go on behind it.
    MILLRACE_DEVICE static bool has_joint(const NidsTables& tables, const flows::StreamPiece& piece) {
        alignas(8) uint8_t joint[2 * kMostReach];
        const uint32_t reach = reach_of(tables), before = smaller(reach, piece.tail_bytes);
        const uint32_t behind = smaller(reach, piece.bytes);
        copy_bytes(joint, piece.tail + piece.tail_bytes - before, before);
        copy_bytes(joint + before, piece.data, behind);
        return pattern::any_begins(joint, before + behind, before, tables.patterns);
    }

    /// Asks rules of the tail and what follows it: those that patterns lead to, those that were `noted`, those that the
    /// segment has left open. Notes in `stream` those that may be met later.
    MILLRACE_DEVICE_CALL static void judge_window(Look& look, const flows::StreamPiece& piece, Where where,
                                                  const OpenInSegment& open, const flows::Stream& noted,
                                                  flows::Stream& stream) {
        const NidsTables& tables = look.tables.rules;
        uint8_t* const window = look.streams.window();
        const uint32_t joint = piece.tail_bytes;
        const uint32_t bytes = joint + smaller(piece.bytes, flows::StreamMemory::kWindowBytes);
        copy_bytes(window, piece.tail, joint);
        copy_bytes(window + joint, piece.data, bytes - joint);
        const uint32_t near = joint - smaller(joint, reach_of(tables));
        Part part{where.all_of_tail ? 0 : near, where.all_of_piece ? bytes : joint,
                  open.has(open_mark::kOthers | open_mark::kAtStart) || where.all_of_tail};
        if (!where.joint) part.behind = part.begin;
        for (uint32_t from = 0;;) {
            SpanningRules found(from, piece.whole);
            ask(look, window, bytes, part, found, [&](auto& evaluation) {
                for (uint32_t i = 0; i < noted.notes && noted.notes != flows::Stream::kMany; ++i)
                    evaluation.one(noted.noted[i]);
                for (uint32_t i = 0; i < open.count(); ++i) evaluation.one(open[i]);
            });
            for (uint32_t i = 0; i < found.open().notes && i < 2; ++i) stream.note(found.open().noted[i]);
            if (found.open().notes == flows::Stream::kMany) stream.notes = flows::Stream::kMany;
            if (found.count() == 0) return;
            // What either alone meets has been told, unless it is met once more from the joint's surroundings on.
            RulesTold by_tail(found), by_piece(found), once_more(found), near_alone(found);
            ask(look, window, joint, {0, joint, true}, by_tail);
            ask(look, piece.data - piece.before, piece.before + piece.bytes, {0, piece.before + piece.bytes, true},
                by_piece);
            if (by_tail.those() != 0 && near > 0) {
                ask(look, window + near, bytes - near, {0, bytes - near, true}, once_more);
                ask(look, window + near, joint - near, {0, joint - near, true}, near_alone);
            }
            const uint32_t again = once_more.those() & ~near_alone.those() & ~at_start(tables, found);
            tell(look, found, ~by_piece.those() & (~by_tail.those() | again));
            if (!found.more()) return;
            from = found[found.count() - 1] + 1;
        }
    }
    /// Of some rules, those that count from the stream's start.
    MILLRACE_DEVICE static uint32_t at_start(const NidsTables& tables, const MatchedRules& rules) {
        uint32_t those = 0;
        for (uint32_t i = 0; i < rules.count(); ++i)
            if (tables.rules[rules[i]].action & CompiledRule::kAtStart) those |= 1u << i;
        return those;
    }

    /// Where patterns that lead to rules begin, and whether rules without a pattern are asked.
    struct Part {
        uint32_t begin, behind;
        bool others;
    };
    template <class Alerts>
    MILLRACE_DEVICE static void ask(Look& look, const uint8_t* data, uint32_t bytes, Part part, Alerts& alerts) {
        ask(look, data, bytes, part, alerts, [](auto&) {});
    }
    /// `more(evaluation)` asks some more rules.
    template <class Alerts, class More>
    MILLRACE_DEVICE_CALL static void ask(Look& look, const uint8_t* data, uint32_t bytes, Part part, Alerts& alerts,
                                         More&& more) {
        const NidsTables& tables = look.tables.rules;
        PayloadBuffers<One> buffers(data, bytes, true, {});
        Evaluation<One, Alerts> evaluation(look.packet, tables, buffers, alerts, {}, look.flow);
        pattern::find_beginning(data, bytes, part.begin, part.behind, tables.patterns, [&](auto& ids, uint32_t most) {
            evaluation.patterns([&](uint32_t) { return ids.take(tables.patterns, most); });
        });
        more(evaluation);
        if (part.others) evaluation.others();
    }

    /// Rules that are met, a bit each: pass rules first, then those with flowbits in their order, then the others.
    MILLRACE_DEVICE static void tell(Look& look, const MatchedRules& found, uint32_t those) {
        const Tables& tables = look.tables;
        for (uint32_t i = 0; i < found.count(); ++i)
            if (is_told(look.told, found[i])) those &= ~(1u << i);
        const auto met = [&](uint32_t i) {
            those &= ~(1u << i);
            look.told.add(found[i]);
            add(look.packet, tables, found[i], look.matches);
        };
        for (uint32_t i = 0; i < found.count(); ++i) {
            const CompiledRule& rule = tables.rules.rules[found[i]];
            if ((those >> i & 1) != 0 && (rule.action & CompiledRule::kPass) && rule.bits == 0) met(i);
        }
        while (true) {
            uint32_t next = kNoDetail, place = kNoDetail;
            for (uint32_t i = 0; i < found.count(); ++i) {
                const uint32_t own = tables.rules.rules[found[i]].bits;
                if ((those >> i & 1) == 0 || own == 0 || own >= place) continue;
                place = own;
                next = i;
            }
            if (next == kNoDetail) break;
            those &= ~(1u << next);
            if (meets(tables, place - 1, look.bits)) met(next);
        }
        for (uint32_t i = 0; i < found.count(); ++i)
            if ((those >> i & 1) != 0) met(i);
    }
    MILLRACE_DEVICE static bool is_told(const MatchedRules& told, uint32_t number) {
        for (uint32_t i = 0; i < told.count(); ++i)
            if (told[i] == number) return true;
        return false;
    }
};

}  // namespace millrace::nf::nids
