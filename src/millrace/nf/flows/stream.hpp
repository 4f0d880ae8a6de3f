// Both directions of TCP connections put in order (RFC 9293, section 3.4), in memory of a fixed size: of each the last
// bytes that came in order, and a few segments that came too early.
//
// Nothing is held back: a packet goes on at once, and what the sequence of a stream was is told when the segment has
// come that closes a gap. What came first counts; who sends other bytes for the same numbers is reported.
#pragma once

#include "millrace/nf/flows/tcp.hpp"
#include "millrace/packet/counter.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::flows {

/// What is counted of streams.
enum class StreamCount : uint32_t {
    early,     ///< segments that came too early and were kept
    repeated,  ///< segments of which all bytes had come before
    changed,   ///< segments with other bytes than came before for the same numbers
    gaps,      ///< gaps that were given up, as there was no room for more segments behind them
    count
};

/// What is told of a segment, each once a direction.
namespace stream_event {
inline constexpr uint32_t kChanged = 1, kGap = 2;
}

/// Memory for the streams of all buckets of a table of flows. A member of an NF's Tables.
struct StreamMemory {
    static constexpr uint32_t kWays = 16;            ///< flows of a bucket (KeyedState::kWays)
    static constexpr uint32_t kEarlyBytes = 1536;    ///< most bytes of an early segment
    static constexpr uint32_t kWindowBytes = 2048;   ///< most bytes of a segment behind a tail, in `window`
    static constexpr uint32_t kStreams = 2 * kWays;  ///< of a bucket
    static constexpr uint32_t kMaxTail = 16 * 1024, kMaxEarly = 64;

    MutableView<uint64_t> words;   ///< `bucket_words` a bucket
    MutableView<uint64_t> counts;  ///< by StreamCount
    uint32_t tail = 0;             ///< bytes that are kept of each direction, a multiple of 8
    uint32_t early = 0;            ///< rooms for early segments a bucket
    uint32_t reader = 0;           ///< whose numbers Stream::noted has: those of others mean something else
    uint32_t reserved = 0;

    MILLRACE_DEVICE static constexpr uint64_t words_of_bucket(uint32_t tail, uint32_t early) {
        return kStreams * 3 + early +
               (uint64_t{kStreams} * tail + uint64_t{early} * kEarlyBytes + tail + kWindowBytes) / 8;
    }
    MILLRACE_DEVICE void count(StreamCount what) const { add_atomically(counts[static_cast<uint32_t>(what)], 1); }
};

/// One direction of a connection.
struct Stream {
    static constexpr uint8_t kKnown = 1;  ///< `next` is
    static constexpr uint8_t kWhole = 2;  ///< the tail is all that has come since the SYN
    static constexpr uint8_t kEnded = 4;  ///< behind a FIN or a reset nothing counts
    static constexpr uint8_t kToldChanged = 8, kToldGap = 16;

    /// As many as are told apart, and one.
    static constexpr uint8_t kMany = 3;

    uint32_t next;   ///< sequence number of the next byte
    uint16_t bytes;  ///< of the tail
    uint8_t flags;
    uint8_t notes;      ///< numbers in `noted`, or kMany: whoever looks at the stream has noted more
    uint32_t noted[2];  ///< what is to be looked at again while the tail has a byte before `noted_to`
    uint32_t noted_to;
    uint32_t reader;  ///< StreamMemory::reader of whoever has noted them

    MILLRACE_DEVICE void note(uint32_t number) {
        if ((notes > 0 && noted[0] == number) || (notes == 2 && noted[1] == number) || notes == kMany) return;
        if (notes < 2) noted[notes] = number;
        ++notes;
    }
};
static_assert(sizeof(Stream) == 24);

/// A segment that came too early, whose bytes are in the room of the same number.
struct EarlySegment {
    uint32_t seq;
    uint16_t bytes;
    uint8_t stream;  ///< of the bucket
    uint8_t flags;   ///< 0: the room is free
    static constexpr uint8_t kUsed = 1, kFin = 2, kMarksShift = 4;
};
static_assert(sizeof(EarlySegment) == 8);

/// A segment as it came.
struct StreamSegment {
    uint32_t seq = 0;
    uint32_t bytes = 0;
    const uint8_t* data = nullptr;
    uint8_t flags = 0;  ///< of TCP
    uint8_t marks = 0;  ///< what whoever looks at the stream knows of it, up to 15: comes back with the piece
};

/// Bytes of a stream that are next in order.
struct StreamPiece {
    const uint8_t* tail = nullptr;  ///< the bytes before them
    uint32_t tail_bytes = 0;
    const uint8_t* data = nullptr;
    uint32_t bytes = 0;
    uint32_t before = 0;  ///< bytes of their segment in front of them: they had come before
    uint32_t seq = 0;     ///< of the first one
    bool whole = false;   ///< the tail begins where the stream does
    uint8_t marks = 0;    ///< as of the segment
};

/// The streams of one bucket, which nobody else looks at meanwhile.
class Streams {
public:
    MILLRACE_DEVICE Streams(const StreamMemory& memory, uint32_t bucket)
        : memory_(memory),
          at_(reinterpret_cast<uint8_t*>(memory.words.data() +
                                         bucket * StreamMemory::words_of_bucket(memory.tail, memory.early))) {}

    MILLRACE_DEVICE Stream& of(uint32_t stream) const { return reinterpret_cast<Stream*>(at_)[stream]; }
    /// Room for a tail and StreamMemory::kWindowBytes behind it, for whoever wants them next to each other.
    MILLRACE_DEVICE uint8_t* window() const { return room(memory_.early); }

    /// A flow begins: what is known of the one before in its place is forgotten.
    MILLRACE_DEVICE void begin(uint32_t way) const {
        for (uint32_t side = 0; side < 2; ++side) {
            of(2 * way + side) = {};
            release(2 * way + side);
        }
    }
    /// A connection was reset.
    MILLRACE_DEVICE void end(uint32_t way) const {
        for (uint32_t side = 0; side < 2; ++side) {
            of(2 * way + side).flags |= Stream::kEnded;
            release(2 * way + side);
        }
    }

    /// Takes a segment of stream `number` in, and calls `visit(piece)` for what is next in order with it, before that
    /// becomes part of the tail. `gone(way)`: the flow there has ended, its early segments are not missed. What is
    /// there to tell: of stream_event.
    template <class Gone, class Visit>
    MILLRACE_DEVICE uint32_t take(uint32_t number, StreamSegment segment, Gone&& gone, Visit&& visit) const {
        Stream& stream = of(number);
        if (segment.flags & tcp::kSyn) {
            // As long as nothing else has come, the last one says where the stream begins.
            if (!(stream.flags & Stream::kKnown) || ((stream.flags & Stream::kWhole) && stream.bytes == 0)) {
                stream = {};
                stream.next = segment.seq + 1;
                stream.flags = Stream::kKnown | Stream::kWhole;
            }
            ++segment.seq;
        }
        if ((stream.flags & Stream::kEnded) || (segment.bytes == 0 && !(segment.flags & tcp::kFin))) return 0;
        if (!(stream.flags & Stream::kKnown)) {
            stream.next = segment.seq;
            stream.flags |= Stream::kKnown;
        }
        uint32_t told = 0;
        // Each gap that is given up makes room.
        for (uint32_t tries = 0; tries <= memory_.early + 1; ++tries) {
            if (!is_behind(segment.seq, stream.next)) {
                told |= take_next(number, segment, visit);
                return told | drain(number, visit);
            }
            if (tries == 0) {
                bool there = false;
                told |= compare_early(number, segment, there);
                if (there) memory_.count(StreamCount::repeated);
                if (there || segment.bytes == 0) return told;
            }
            if (keep(number, segment, gone)) return told;
            told |= give_up(number, segment);
            told |= drain(number, visit);
        }
        return told;
    }

private:
    MILLRACE_DEVICE EarlySegment& early(uint32_t i) const {
        return reinterpret_cast<EarlySegment*>(at_ + StreamMemory::kStreams * sizeof(Stream))[i];
    }
    MILLRACE_DEVICE uint8_t* tail(uint32_t number) const {
        return at_ + StreamMemory::kStreams * sizeof(Stream) + memory_.early * sizeof(EarlySegment) +
               uint64_t{number} * memory_.tail;
    }
    MILLRACE_DEVICE uint8_t* room(uint32_t i) const {
        return tail(StreamMemory::kStreams) + uint64_t{i} * StreamMemory::kEarlyBytes;
    }
    MILLRACE_DEVICE bool is_of(uint32_t i, uint32_t number) const {
        return early(i).flags != 0 && early(i).stream == number;
    }
    MILLRACE_DEVICE void release(uint32_t number) const {
        for (uint32_t i = 0; i < memory_.early; ++i)
            if (is_of(i, number)) early(i).flags = 0;
    }

    /// A segment that does not begin behind `next`.
    template <class Visit>
    MILLRACE_DEVICE uint32_t take_next(uint32_t number, const StreamSegment& segment, Visit&& visit) const {
        Stream& stream = of(number);
        const uint32_t old = stream.next - segment.seq;
        uint32_t told = 0;
        // One old byte and no more asks whether the other end is there: it may be any (RFC 1122, section 4.2.3.6).
        if (old > 0 && !(old == 1 && segment.bytes == 1)) told = compare_tail(number, segment);
        if (old < segment.bytes) {
            visit(StreamPiece{tail(number), stream.bytes, segment.data + old, segment.bytes - old, old, stream.next,
                              (stream.flags & Stream::kWhole) != 0, segment.marks});
            append(number, segment.data + old, segment.bytes - old);
        } else if (old > 0 && segment.bytes > 0) {
            memory_.count(StreamCount::repeated);
        }
        if ((segment.flags & tcp::kFin) && stream.next == segment.seq + segment.bytes) {
            stream.flags |= Stream::kEnded;
            release(number);
        }
        return told;
    }
    /// What of the early segments is next now.
    template <class Visit>
    MILLRACE_DEVICE uint32_t drain(uint32_t number, Visit&& visit) const {
        uint32_t told = 0;
        for (uint32_t i = 0; i < memory_.early; ++i) {
            EarlySegment& kept = early(i);
            if (!is_of(i, number) || is_behind(kept.seq, of(number).next)) continue;
            const StreamSegment segment{kept.seq, kept.bytes, room(i),
                                        static_cast<uint8_t>((kept.flags & EarlySegment::kFin) ? tcp::kFin : 0),
                                        static_cast<uint8_t>(kept.flags >> EarlySegment::kMarksShift)};
            kept.flags = 0;
            told |= take_next(number, segment, visit);
            i = ~0u;  // from the first one again
        }
        return told;
    }
    MILLRACE_DEVICE void append(uint32_t number, const uint8_t* data, uint32_t bytes) const {
        Stream& stream = of(number);
        uint8_t* const to = tail(number);
        stream.next += bytes;
        if (!is_behind(stream.noted_to, stream.next - memory_.tail)) stream.notes = 0;
        if (stream.bytes + bytes > memory_.tail) {
            stream.flags &= static_cast<uint8_t>(~Stream::kWhole);
            const uint32_t stay = bytes < memory_.tail ? memory_.tail - bytes : 0;
            move_bytes_down(to, to + stream.bytes - stay, stay);
            data += bytes - (memory_.tail - stay);
            bytes = memory_.tail - stay;
            stream.bytes = static_cast<uint16_t>(stay);
        }
        copy_bytes(to + stream.bytes, data, bytes);
        stream.bytes = static_cast<uint16_t>(stream.bytes + bytes);
    }

    /// Keeps a segment for later; false where there is no room for it.
    template <class Gone>
    MILLRACE_DEVICE bool keep(uint32_t number, const StreamSegment& segment, Gone&& gone) const {
        if (segment.bytes > StreamMemory::kEarlyBytes) return false;
        for (uint32_t i = 0; i < memory_.early; ++i) {
            EarlySegment& kept = early(i);
            if (kept.flags != 0 && !gone(kept.stream / 2u)) continue;
            const bool fin = (segment.flags & tcp::kFin) != 0;
            kept = {segment.seq, static_cast<uint16_t>(segment.bytes), static_cast<uint8_t>(number),
                    static_cast<uint8_t>(EarlySegment::kUsed | (fin ? EarlySegment::kFin : 0) |
                                         segment.marks << EarlySegment::kMarksShift)};
            copy_bytes(room(i), segment.data, segment.bytes);
            memory_.count(StreamCount::early);
            return true;
        }
        return false;
    }
    /// Goes on behind a gap: with the first of the early segments and `segment`.
    MILLRACE_DEVICE uint32_t give_up(uint32_t number, const StreamSegment& segment) const {
        Stream& stream = of(number);
        uint32_t first = segment.seq;
        for (uint32_t i = 0; i < memory_.early; ++i)
            if (is_of(i, number) && early(i).seq - stream.next < first - stream.next) first = early(i).seq;
        stream.next = first;
        stream.bytes = 0;
        stream.notes = 0;
        stream.flags &= static_cast<uint8_t>(~Stream::kWhole);
        memory_.count(StreamCount::gaps);
        return tell(stream, Stream::kToldGap, stream_event::kGap);
    }

    MILLRACE_DEVICE static uint32_t tell(Stream& stream, uint8_t told, uint32_t event) {
        const bool before = (stream.flags & told) != 0;
        stream.flags |= told;
        return before ? 0 : event;
    }
    MILLRACE_DEVICE uint32_t changed(uint32_t number) const {
        memory_.count(StreamCount::changed);
        return tell(of(number), Stream::kToldChanged, stream_event::kChanged);
    }
    /// Whether a[0, n) and b[0, m), which begin at these numbers, differ where both have bytes.
    MILLRACE_DEVICE static bool differ(uint32_t at_a, const uint8_t* a, uint32_t n, uint32_t at_b, const uint8_t* b,
                                       uint32_t m) {
        const uint32_t ahead = at_b - at_a, back = at_a - at_b;
        const bool b_later = static_cast<int32_t>(ahead) >= 0;
        if (b_later ? ahead >= n : back >= m) return false;
        const uint32_t in_a = b_later ? ahead : 0, in_b = b_later ? 0 : back;
        const uint32_t bytes = smaller(n - in_a, m - in_b);
        for (uint32_t i = 0; i < bytes; ++i)
            if (a[in_a + i] != b[in_b + i]) return true;
        return false;
    }
    MILLRACE_DEVICE uint32_t compare_tail(uint32_t number, const StreamSegment& segment) const {
        const Stream& stream = of(number);
        const bool other = differ(stream.next - stream.bytes, tail(number), stream.bytes, segment.seq, segment.data,
                                  segment.bytes);
        return other ? changed(number) : 0;
    }
    /// `there`: one of the early segments has all of these numbers.
    MILLRACE_DEVICE uint32_t compare_early(uint32_t number, const StreamSegment& segment, bool& there) const {
        bool other = false;
        for (uint32_t i = 0; i < memory_.early; ++i) {
            if (!is_of(i, number)) continue;
            const EarlySegment& kept = early(i);
            other = other || differ(kept.seq, room(i), kept.bytes, segment.seq, segment.data, segment.bytes);
            const uint32_t in_kept = segment.seq - kept.seq;
            there = there || (segment.bytes > 0 && in_kept < kept.bytes && segment.bytes <= kept.bytes - in_kept);
        }
        return other ? changed(number) : 0;
    }

    const StreamMemory& memory_;
    uint8_t* at_;
};

}  // namespace millrace::nf::flows
