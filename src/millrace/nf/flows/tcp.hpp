// TCP as connection tracking sees it: states by flags and direction, and whether sequence and acknowledgement numbers
// lie in the windows (G. van Rooij, "Real stateful TCP packet filtering in IP Filter", 2001: bounds I to IV).
#pragma once

#include "millrace/packet/bytes.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::nf::flows {

enum class Tcp : uint8_t { none, syn_sent, syn_recv, established, fin_wait, close_wait, last_ack, time_wait, close };
inline constexpr unsigned kTcpStates = 9;

/// What one end has sent, and what the other lets it send.
struct TcpPeer {
    uint32_t end;      ///< behind the last byte that it has sent
    uint32_t max_end;  ///< behind the last byte that it may send
    uint32_t window;   ///< the largest that it has offered, in bytes; 0: it has not been seen yet
    uint8_t scale;
    uint8_t may_scale;
    uint16_t reserved;
};

/// The numbers of a segment.
struct TcpSegment {
    uint32_t seq, end, ack, sack;  ///< `sack`: the highest that is acknowledged selectively, or `ack`
    uint32_t window;
    uint8_t flags;
    uint8_t scale, may_scale;

    MILLRACE_DEVICE bool has(uint8_t flag) const { return (flags & flag) != 0; }
};

MILLRACE_DEVICE bool is_behind(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) > 0; }

/// `header` has `header_bytes` (with options), and `payload_bytes` follow.
MILLRACE_DEVICE TcpSegment read_segment(const uint8_t* header, uint32_t header_bytes, uint32_t payload_bytes) {
    TcpSegment segment{};
    segment.flags = header[13];
    segment.seq = load_be32(header + 4);
    segment.ack = segment.sack = load_be32(header + 8);
    segment.window = load_be16(header + 14);
    segment.end = segment.seq + payload_bytes + (segment.has(tcp::kSyn) ? 1 : 0) + (segment.has(tcp::kFin) ? 1 : 0);
    for (uint32_t at = tcp::kHeaderBytes; at + 1 < header_bytes;) {
        const uint8_t kind = header[at];
        if (kind == 0) break;
        if (kind == 1) {
            ++at;
            continue;
        }
        const uint32_t length = header[at + 1];
        if (length < 2 || at + length > header_bytes) break;
        if (kind == 3 && length == 3 && segment.has(tcp::kSyn)) {
            segment.may_scale = 1;
            segment.scale = smaller<uint8_t>(header[at + 2], 14);  // RFC 7323, section 2.3
        }
        if (kind == 5)  // RFC 2018
            for (uint32_t block = at + 2; block + 8 <= at + length; block += 8)
                if (const uint32_t right = load_be32(header + block + 4); is_behind(right, segment.sack))
                    segment.sack = right;
        at += length;
    }
    return segment;
}

/// Whether a segment's numbers lie in the windows. One without an acknowledgement has the receiver's end in its place.
MILLRACE_DEVICE bool is_in_windows(const TcpSegment& segment, const TcpPeer& sender, const TcpPeer& receiver) {
    constexpr uint32_t kLateAck = 66000;
    const bool i = !is_behind(segment.seq, sender.max_end);
    const bool ii = receiver.window == 0 || is_behind(segment.end, sender.end - receiver.window - 1);
    const bool iii = !is_behind(segment.sack, receiver.end);
    const bool iv = is_behind(segment.sack, receiver.end - larger(sender.window, kLateAck) - 1);
    return i && ii && iii && iv;
}

/// Takes a segment in: false, and nothing changed, when its numbers lie outside of the windows.
MILLRACE_DEVICE bool take_segment(TcpSegment segment, Tcp state, bool from_originator, TcpPeer& sender,
                                  TcpPeer& receiver) {
    const TcpPeer old_sender = sender, old_receiver = receiver;
    const bool syn = segment.has(tcp::kSyn), ack = segment.has(tcp::kAck);
    const bool opens_again = syn && ((state == Tcp::syn_sent && from_originator) ||
                                     (state == Tcp::syn_recv && !from_originator));
    if (syn && (sender.window == 0 || opens_again)) {
        sender.end = sender.max_end = segment.end;
        sender.window = larger(segment.window, 1u);
        sender.scale = segment.scale;
        sender.may_scale = segment.may_scale;
        // Windows are scaled if both ends say so (RFC 7323, section 2.2).
        if (ack && (sender.may_scale == 0 || receiver.may_scale == 0)) sender.scale = receiver.scale = 0;
        if (!ack) return true;
    } else if (sender.window == 0) {
        // In the midst of a connection: what its scale is nobody knows.
        sender.end = segment.end;
        sender.window = larger(segment.window, 1u);
        sender.max_end = segment.end + sender.window;
        if (receiver.window == 0) receiver.end = receiver.max_end = segment.sack;
    }
    if (!ack || (segment.has(tcp::kRst) && segment.ack == 0)) segment.ack = segment.sack = receiver.end;
    // An answer to a SYN may have no number of its own.
    if (segment.has(tcp::kRst) && segment.seq == 0 && state == Tcp::syn_sent) segment.seq = segment.end = sender.end;
    if (!is_in_windows(segment, sender, receiver)) {
        sender = old_sender;
        receiver = old_receiver;
        return false;
    }
    const uint32_t window = syn ? segment.window : segment.window << sender.scale;
    sender.window = larger(sender.window, window + (segment.sack - segment.ack));
    if (receiver.window != 0 && is_behind(segment.end, sender.max_end)) receiver.window += segment.end - sender.max_end;
    if (is_behind(segment.end, sender.end)) sender.end = segment.end;
    if (!is_behind(receiver.max_end, segment.sack + window)) receiver.max_end = segment.sack + larger(window, 1u);
    return true;
}

/// What a segment makes of a connection's state (RFC 9293, section 3.3.2, seen from between both ends).
struct TcpStep {
    Tcp next = Tcp::none;
    bool valid = true;
    bool reopens = false;  ///< it begins another connection of the same name
};

MILLRACE_DEVICE TcpStep step_of(Tcp state, uint8_t flags, bool from_originator, bool may_pick_up) {
    const bool syn = (flags & tcp::kSyn) != 0, ack = (flags & tcp::kAck) != 0, fin = (flags & tcp::kFin) != 0,
               rst = (flags & tcp::kRst) != 0;
    const TcpStep invalid{state, false, false}, stays{state, true, false};
    if ((syn && (fin || rst)) || (fin && rst) || (fin && !ack) || !(syn || ack || rst)) return invalid;
    if (rst) return state == Tcp::none ? invalid : TcpStep{Tcp::close, true, false};
    if (syn && !ack) {
        if (state == Tcp::none) return {Tcp::syn_sent, true, false};
        if (state == Tcp::time_wait || state == Tcp::close) return {Tcp::syn_sent, true, true};
        return stays;  // sent again, a simultaneous open, or a try to find out where the other end is
    }
    if (syn) {
        if (state == Tcp::syn_sent) return from_originator ? invalid : TcpStep{Tcp::syn_recv, true, false};
        return state == Tcp::none ? invalid : stays;
    }
    switch (state) {
        case Tcp::none: return may_pick_up && !fin ? TcpStep{Tcp::established, true, false} : invalid;
        case Tcp::syn_sent: return invalid;
        case Tcp::syn_recv:
            if (fin) return {Tcp::fin_wait, true, false};
            return from_originator ? TcpStep{Tcp::established, true, false} : stays;
        case Tcp::established: return fin ? TcpStep{Tcp::fin_wait, true, false} : stays;
        case Tcp::fin_wait: return {fin ? Tcp::last_ack : Tcp::close_wait, true, false};
        case Tcp::close_wait: return fin ? TcpStep{Tcp::last_ack, true, false} : stays;
        case Tcp::last_ack: return fin ? stays : TcpStep{Tcp::time_wait, true, false};
        case Tcp::time_wait:
        case Tcp::close: return stays;
    }
    return invalid;
}

/// What a segment is to a connection.
enum class Taken : uint8_t { invalid, valid, reopens };

/// A connection between its ends.
struct TcpConnection {
    TcpPeer peers[2];  ///< by whether it is the originator's (0) or the other's
    Tcp state;
    uint8_t was_picked_up;  ///< it was met in its midst: nobody knows how its windows are scaled, so none is held to
    uint8_t reserved[2];

    /// Takes a segment in, which comes from the originator or not; one that is invalid changes nothing. Where it opens
    /// a connection of the same name anew, its sender is the originator from here on.
    MILLRACE_DEVICE Taken take(const TcpSegment& segment, bool& from_originator, bool may_pick_up, bool checks_window) {
        const TcpStep step = step_of(state, segment.flags, from_originator, may_pick_up);
        if (!step.valid) return Taken::invalid;
        if (step.reopens) {
            from_originator = true;
            peers[0] = peers[1] = {};
            was_picked_up = 0;
        }
        // By values: a GPU keeps what no index picks in registers.
        TcpPeer sender = from_originator ? peers[0] : peers[1], receiver = from_originator ? peers[1] : peers[0];
        if (take_segment(segment, step.reopens ? Tcp::none : state, from_originator, sender, receiver)) {
            peers[0] = from_originator ? sender : receiver;
            peers[1] = from_originator ? receiver : sender;
        } else if (checks_window && was_picked_up == 0) {
            return Taken::invalid;
        }
        if (state == Tcp::none) was_picked_up = segment.has(tcp::kSyn) ? 0 : 1;
        state = step.next;
        return step.reopens ? Taken::reopens : Taken::valid;
    }
};

/// What segments do to a connection whose state they leave as it is: they raise words of it, and do no more. What some
/// do one after the other is the highest of what each does, whatever the connection was before. TcpRaised{}: nothing.
struct TcpRaised {
    /// By whether it is the originator's (0) or the other's: how far above what it was.
    int32_t end[2], max_end[2];
    uint32_t window[2];  ///< at least that

    /// What a segment does, if it is valid; false: something else.
    MILLRACE_DEVICE static bool by(const TcpSegment& segment, const TcpConnection& connection, bool from_originator,
                                   TcpRaised& raised) {
        const TcpStep step = step_of(connection.state, segment.flags, from_originator, false);
        const uint32_t from = from_originator ? 0 : 1;
        const TcpPeer &sender = connection.peers[from], &receiver = connection.peers[1 - from];
        if (!step.valid || step.reopens || step.next != connection.state || connection.state == Tcp::none ||
            segment.has(tcp::kSyn) || segment.has(tcp::kRst) || sender.window == 0 || receiver.window == 0)
            return false;
        const uint32_t window = segment.window << sender.scale;
        const auto end = static_cast<int32_t>(segment.end - sender.end);
        const auto max_end = static_cast<int32_t>(segment.sack + larger(window, 1u) - receiver.max_end);
        // Numbers of a connection are compared modulo 2^32.
        constexpr int32_t kFar = 1 << 30;
        if (end >= kFar || end <= -kFar || max_end >= kFar || max_end <= -kFar) return false;
        raised.end[from] = larger(end, 0);
        raised.max_end[1 - from] = larger(max_end, 0);
        raised.window[from] = window + (segment.sack - segment.ack);
        return true;
    }
    /// Whether a segment, for which `by` says so, is valid behind others that have done this to `connection`, and does
    /// no more then.
    MILLRACE_DEVICE bool lets(const TcpSegment& segment, const TcpConnection& connection, bool from_originator) const {
        TcpConnection now = connection;
        apply(now);
        const uint32_t from = from_originator ? 0 : 1;
        const TcpPeer &sender = now.peers[from], &receiver = now.peers[1 - from];
        return is_in_windows(segment, sender, receiver) && !is_behind(segment.end, sender.max_end);
    }
    /// Does what `next` does as well, behind this.
    MILLRACE_DEVICE void append(const TcpRaised& next) {
        for (uint32_t side = 0; side < 2; ++side) {
            end[side] = larger(end[side], next.end[side]);
            max_end[side] = larger(max_end[side], next.max_end[side]);
            window[side] = larger(window[side], next.window[side]);
        }
    }
    MILLRACE_DEVICE void apply(TcpConnection& connection) const {
        for (uint32_t side = 0; side < 2; ++side) {
            TcpPeer& peer = connection.peers[side];
            peer.end += static_cast<uint32_t>(end[side]);
            peer.max_end += static_cast<uint32_t>(max_end[side]);
            peer.window = larger(peer.window, window[side]);
        }
    }
};

}  // namespace millrace::nf::flows
