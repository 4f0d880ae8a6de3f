// Rules that several segments of a TCP stream meet together: the device half.
//
// `process` judges a segment by itself, as without streams, and notes whether its bytes led to rules that ask for more.
// `commit` puts it in order and looks at what follows each other: at the few bytes around the joint for patterns that
// lie across it; at the whole tail only if an earlier segment has led to such rules, and at the whole segment only if
// it has itself. Where a pattern is found its rules are asked of tail and segment together. What the tail or the
// segment alone meets has been told.
#pragma once

#include "millrace/nf/nids/flows/device.hpp"
#include "millrace/nf/nids/flows/stream_rules.hpp"
#include "millrace/nf/nids/http/messages.hpp"

namespace millrace::nf::nids {

/// `State`: as of FlowsHalf. `kMessages`: HTTP messages are followed, too.
template <class State, bool kMessages>
struct StreamsHalf : FlowsHalf<State, OpenRulesOfStream<MatchedRules, kMessages>> {
    using Half = FlowsHalf<State, OpenRulesOfStream<MatchedRules, kMessages>>;
    using typename Half::Tables;

    MILLRACE_DEVICE static Decision commit(Packet& packet, const Tables& tables, Decision decision,
                                           KeyedEntry<Flow> entry) {
        const OpenInSegment open(decision);
        const InFlow in = follow(packet, tables.flows, entry);
        const State left = Half::left_with(packet, tables, entry, in);
        Matches matches = Half::matches_of(packet, tables, decision, in.flags, left);
        if (entry && packet.layers().is_tcp()) follow_stream(packet, tables, entry, in, open, left, matches);
        return matches.decision();
    }

private:
    using One = Lanes<1>;
    using Alerts = StreamAlerts<kMessages>;
    using Buffers = PayloadBuffers<One, kMessages>;

    /// What is known of a packet while its stream is looked at.
    struct Look {
        Packet& packet;
        const Tables& tables;
        const flows::Streams& streams;
        State left;
        Matches& matches;
        MatchedRules told;  ///< of this packet
        uint16_t flow;
    };

    MILLRACE_DEVICE_CALL static void follow_stream(Packet& packet, const Tables& tables, const KeyedEntry<Flow>& entry,
                                                   const InFlow& in, const OpenInSegment& open, State left,
                                                   Matches& matches) {
        const auto place = tables.state.place_of(entry);
        const uint64_t first = place / flows::StreamMemory::kWays * flows::StreamMemory::kWays;
        const auto way = static_cast<uint32_t>(place - first);
        const auto bucket = static_cast<uint32_t>(first / flows::StreamMemory::kWays);
        const flows::Streams streams(tables.streams, bucket);
        if (in.begins) begin(tables, streams, bucket, way);
        const Layers& layers = packet.layers();
        if (!in.is_valid || layers.is_fragment()) return;
        flows::StreamSegment segment;
        segment.flags = packet.tcp_flags();
        if (segment.flags & tcp::kRst) return end(tables, streams, bucket, way);
        segment.seq = load_be32(packet.l4() + 4);
        segment.data = packet.payload();
        segment.bytes = packet.payload_bytes();
        segment.marks = open.for_later();
        const uint32_t number = 2 * way + ((in.flags & RuleHeader::kToServer) ? 0 : 1);
        const uint64_t now = packet.time_ns();
        Look look{packet, tables, streams, left, matches, MatchedRules(), in.flags};
        const uint8_t* const own = segment.data;
        const auto gone = [&](uint32_t other) {
            return tables.state.tags[first + other] == 0 || tables.state.deadlines[first + other] < now;
        };
        const uint32_t events = streams.take(number, segment, gone, [&](const flows::StreamPiece& piece) {
            const OpenInSegment left = piece.data - piece.before == own ? open : OpenInSegment(piece.marks);
            const NidsTables& rules = tables.rules;
            const bool joint = piece.tail_bytes > 0 && has_joint(rules, piece);
            judge_piece(look, piece, left.of(rules, CompiledRule::kSpans), streams.of(number), joint);
            if constexpr (kMessages)
                follow_messages(look, bucket, number, piece, left.of(rules, CompiledRule::kOfBody), joint, gone);
        });
        if constexpr (kMessages)
            if (streams.of(number).flags & flows::Stream::kEnded)
                http::MessageBucket(tables.messages, bucket).end(number);
        if (events & flows::stream_event::kChanged) packet.emit_once(changed_code(tables.rules));
        if (events & flows::stream_event::kGap) packet.emit_once(changed_code(tables.rules) + 1);
    }
    MILLRACE_DEVICE static void begin(const Tables& tables, const flows::Streams& streams, uint32_t bucket,
                                      uint32_t way) {
        streams.begin(way);
        if constexpr (kMessages) http::MessageBucket(tables.messages, bucket).begin(way);
    }
    MILLRACE_DEVICE static void end(const Tables& tables, const flows::Streams& streams, uint32_t bucket,
                                    uint32_t way) {
        streams.end(way);
        if constexpr (kMessages) http::MessageBucket(tables.messages, bucket).begin(way);
    }
    /// Events that are no rule's come behind those.
    MILLRACE_DEVICE static uint32_t changed_code(const NidsTables& tables) {
        return static_cast<uint32_t>(tables.rules.size());
    }

    /// How many bytes on either side of a joint a pattern across it has at most.
    MILLRACE_DEVICE static uint32_t reach_of(const NidsTables& tables) {
        const auto levels = static_cast<uint32_t>(tables.patterns.levels.size());  // one for each length from 0, and
                                                                                   // one
        return levels < 4 ? 0 : smaller(levels - 3, kMaxReach);
    }
    static constexpr uint32_t kMaxReach = 32;

    MILLRACE_DEVICE static void judge_piece(Look& look, const flows::StreamPiece& piece, const OpenInSegment& open,
                                            flows::Stream& stream, bool has_joint) {
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
            const bool joint = all_of_piece || all_of_tail || has_joint;
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
        alignas(8) uint8_t joint[2 * kMaxReach];
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
        Named named;
        for (uint32_t i = 0; i < noted.notes && noted.notes != flows::Stream::kMany; ++i) named.add(noted.noted[i]);
        for (uint32_t i = 0; i < open.count(); ++i) named.add(open[i]);
        for (uint32_t from = 0;;) {
            Alerts found = Alerts::spanning(from, piece.whole);
            ask(look, window, bytes, part, found, named);
            for (uint32_t i = 0; i < found.open().notes && i < 2; ++i) stream.note(found.open().noted[i]);
            if (found.open().notes == flows::Stream::kMany) stream.notes = flows::Stream::kMany;
            if (found.count() == 0) return;
            // What either alone meets has been told, unless it is met once more from the joint's surroundings on.
            Alerts by_tail = Alerts::told_of(found), by_piece = by_tail, once_more = by_tail, near_alone = by_tail;
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
    /// What of an HTTP message is new is asked of its rules.
    struct MessageVisitor {
        Look& seen;
        const flows::StreamPiece& piece;
        const OpenInSegment& open;
        bool asks;
        /// A message that the payload begins with is judged with it where it looks like one.
        MILLRACE_DEVICE bool judged(const http::MessagePiece& bytes) const {
            return find_http_start(bytes.data, bytes.bytes, One{}).kind != HttpHead::Kind::none;
        }
        MILLRACE_DEVICE void note(http::MessageRoom& room) const {
            for (uint32_t i = 0; i < open.count(); ++i) room.note(open[i], 0);
            room.reader = seen.tables.streams.reader;
        }
        MILLRACE_DEVICE void look(const http::MessageLook& message, http::MessageRoom& room) const {
            judge_message(seen, *this, message, room);
        }
    };
    template <class Gone>
    MILLRACE_DEVICE static void follow_messages(Look& look, uint32_t bucket, uint32_t number,
                                                const flows::StreamPiece& piece, const OpenInSegment& open,
                                                bool has_joint, Gone& gone) {
        const http::MessageBucket messages(look.tables.messages, bucket);
        const bool response = (number & 1) != 0;
        const bool asks = open.has(response ? open_mark::kMessageDown : open_mark::kMessageUp);
        MessageVisitor visitor{look, piece, open, asks};
        http::MessageFollower<Gone, MessageVisitor> follower(messages, number, response, look.packet.time_ns(), gone,
                                                             visitor);
        if (!follower.follows()) return;
        const bool looks = asks || has_joint || open.count() > 0;
        follower.take({piece.data, piece.bytes, piece.seq, piece.before == 0, looks, asks});
    }

    /// Asks the rules of messages of one as far as it has come: those that patterns lead to in what is new, those that
    /// were noted, those that the segment has left open.
    MILLRACE_DEVICE_CALL static void judge_message(Look& look, const MessageVisitor& of,
                                                   const http::MessageLook& message, http::MessageRoom& room) {
        const NidsTables& tables = look.tables.rules;
        const flows::StreamPiece& piece = of.piece;
        const bool other_rules = room.reader != look.tables.streams.reader && room.notes > 0;
        if (other_rules) room.notes = 0;  // of another generation: these have other numbers
        room.reader = look.tables.streams.reader;
        Named named;
        for (uint32_t i = 0; i < room.notes; ++i) named.add(room.noted[i] & ~http::MessageRoom::kExpires);
        for (uint32_t i = 0; i < of.open.count(); ++i) named.add(of.open[i]);
        room.pass(message.fresh);
        const uint32_t before = message.head + message.tail, bytes = before + message.fresh;
        const MessageParts parts{message.head, message.is_response, message.is_cut, message.from_start};
        const bool all = message.head_is_new || message.is_unsearched || of.asks || other_rules;
        const uint32_t joint = before - smaller(message.tail, reach_of(tables));
        const Part part{message.head_is_new || other_rules ? 0 : joint, all ? bytes : before, all};
        for (uint32_t from = 0;;) {
            Alerts found = Alerts::of_message(from, room, message.head_is_new ? 0 : look.tables.messages.tail);
            Buffers buffers(message.data, bytes, parts);
            ask(look, buffers, part, found, named);
            for (uint32_t i = 0; i < of.open.count() && !message.head_is_new; ++i)
                room.note(of.open[i], look.tables.messages.tail);
            if (found.count() == 0) return;
            // What the message met before, or the segment alone, has been told.
            Alerts by_before = Alerts::told_of(found), by_piece = by_before;
            if (!message.head_is_new) {
                Buffers old(message.data, before, parts);
                ask(look, old, {0, before, true}, by_before, {});
            } else if (message.judged > 0) {
                ask(look, message.data, message.judged, {0, message.judged, true}, by_before);
            }
            ask(look, piece.data - piece.before, piece.before + piece.bytes, {0, piece.before + piece.bytes, true},
                by_piece);
            tell(look, found, ~by_piece.those() & ~by_before.those());
            for (uint32_t i = 0; i < found.count(); ++i) room.forget(found[i]);
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
    /// Rules that are asked whatever leads to them.
    struct Named {
        static constexpr uint32_t kMax = http::MessageRoom::kNotes + 2;
        uint32_t numbers[kMax];
        uint32_t count = 0;
        MILLRACE_DEVICE void add(uint32_t number) { numbers[count++] = number; }
    };
    MILLRACE_DEVICE static void ask(Look& look, const uint8_t* data, uint32_t bytes, Part part, Alerts& alerts,
                                    const Named& named = {}) {
        Buffers buffers(data, bytes, true, {});
        ask(look, buffers, part, alerts, named);
    }
    MILLRACE_DEVICE_CALL static void ask(Look& look, Buffers& buffers, Part part, Alerts& alerts, const Named& named) {
        const NidsTables& tables = look.tables.rules;
        Evaluation<One, Alerts> evaluation(look.packet, tables, buffers, alerts, {}, look.flow);
        pattern::find_beginning(buffers.data(), buffers.bytes(), part.begin, part.behind, tables.patterns,
                                [&](auto& ids, uint32_t most) {
                                    evaluation.patterns([&](uint32_t) { return ids.take(tables.patterns, most); });
                                });
        alerts.named_follow();
        for (uint32_t i = 0; i < named.count; ++i) evaluation.one(named.numbers[i]);
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
            Half::add(look.packet, tables, found[i], look.matches);
        };
        for (uint32_t i = 0; i < found.count(); ++i) {
            const CompiledRule& rule = tables.rules.rules[found[i]];
            if ((those >> i & 1) != 0 && (rule.action & CompiledRule::kPass) && rule.state_rule == 0) met(i);
        }
        while (true) {
            uint32_t next = kNoDetail, place = kNoDetail;
            for (uint32_t i = 0; i < found.count(); ++i) {
                const uint32_t own = tables.rules.rules[found[i]].state_rule;
                if ((those >> i & 1) == 0 || own == 0 || own >= place) continue;
                place = own;
                next = i;
            }
            if (next == kNoDetail) break;
            those &= ~(1u << next);
            if (Half::meets(tables, place - 1, look.left)) met(next);
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

using NidsOfStreams = StreamsHalf<BitsOfFlow, false>;
using NidsOfStreamNumbers = StreamsHalf<StateOfFlow, false>;
using NidsOfMessages = StreamsHalf<BitsOfFlow, true>;
using NidsOfMessageNumbers = StreamsHalf<StateOfFlow, true>;

}  // namespace millrace::nf::nids
