// Memory for the HTTP messages of the flows of a table: per bucket a few rooms, each for a message that is under way.
#pragma once

#include "millrace/nf/flows/stream.hpp"
#include "millrace/nf/nids/http/decoders.hpp"
#include "millrace/nf/nids/http/message.hpp"

namespace millrace::nf::nids::http {

/// What is counted of messages.
enum class MessageCount : uint32_t {
    messages,    ///< whose head has come
    unfollowed,  ///< directions of connections that found no room for a message
    lost,        ///< directions in whose midst what came next was not known: a gap, or no HTTP
    cut,         ///< heads that were longer than their room
    decoded,     ///< bodies that were decompressed
    undecoded,   ///< bodies that found no decoder, or lost theirs
    limited,     ///< bodies of which no more was decompressed
    count
};

/// A message that is under way.
struct MessageRoom {
    static constexpr uint32_t kNotes = 8, kLayers = 3;
    static constexpr uint32_t kExpires = 0x80000000u;  ///< a note of what the body has, not the head

    Message message;
    uint64_t owner;          ///< of its decoders
    uint32_t noted[kNotes];  ///< rules that are to be asked again when more of the message has come
    uint32_t expires_in;     ///< bytes of the body behind which notes that expire do
    uint32_t reader;         ///< as of flows::Stream
    uint32_t judged;         ///< as of MessageLook
    uint32_t tail;           ///< bytes of the body that are kept, its last ones
    uint32_t decoded;        ///< bytes that decoders have given
    uint32_t decoders[kLayers];
    uint8_t used;       ///< 0: the room is free
    uint8_t number;     ///< of the stream
    uint8_t notes;      ///< rules in `noted`
    uint8_t layers;     ///< decoders, the first one takes what is sent
    uint8_t seen;       ///< its head was judged with the segment that it began with
    uint8_t dropped;    ///< the tail is not all of the body
    uint8_t undecoded;  ///< its body is not looked at any more
    uint8_t reserved;

    MILLRACE_DEVICE bool has_note(uint32_t number) const {
        for (uint32_t i = 0; i < notes; ++i)
            if ((noted[i] & ~kExpires) == number) return true;
        return false;
    }
    /// As far as there is room. `for_bytes`: of the body, behind which it is forgotten; 0: it never is.
    MILLRACE_DEVICE void note(uint32_t number, uint32_t for_bytes) {
        if (notes == kNotes || has_note(number)) return;
        noted[notes++] = number | (for_bytes != 0 ? kExpires : 0);
        if (for_bytes != 0) expires_in = for_bytes;
    }
    MILLRACE_DEVICE void forget(uint32_t number) {
        remove([&](uint32_t note) { return (note & ~kExpires) == number; });
    }
    /// More of the body has come.
    MILLRACE_DEVICE void pass(uint32_t bytes) {
        if (expires_in > bytes) expires_in -= bytes;
        else remove([](uint32_t note) { return (note & kExpires) != 0; });
    }

private:
    template <class Which>
    MILLRACE_DEVICE void remove(Which&& which) {
        uint32_t stay = 0;
        for (uint32_t i = 0; i < notes; ++i)
            if (!which(noted[i])) noted[stay++] = noted[i];
        notes = static_cast<uint8_t>(stay);
    }
};

/// One direction of a connection.
struct MessageStream {
    static constexpr uint8_t kBetween = 0, kWithin = 1, kLost = 2;
    uint32_t next;  ///< sequence number behind what has come
    uint8_t state;
    uint8_t room;  ///< kWithin a message: its number
    uint8_t any;   ///< something has come
    uint8_t reserved;
};
/// Both.
struct MessageFlow {
    static constexpr uint32_t kMaxWaiting = 16;
    static constexpr uint32_t kOther = 0, kHead = 1, kConnect = 2;
    uint32_t methods;   ///< of requests without an answer yet, two bits each, the oldest lowest
    uint8_t waiting;    ///< how many these are
    uint8_t requested;  ///< there was a request
    uint8_t reserved[2];

    MILLRACE_DEVICE void ask(uint32_t method) {
        requested = 1;
        if (waiting >= kMaxWaiting) return;
        methods |= method << (2 * waiting++);
    }
    MILLRACE_DEVICE uint32_t answer(bool last) {
        if (waiting == 0) return kOther;
        const uint32_t method = methods & 3;
        if (last) {
            methods >>= 2;
            --waiting;
        }
        return method;
    }
};
static_assert(sizeof(MessageRoom) % 8 == 0 && sizeof(MessageStream) == 8 && sizeof(MessageFlow) == 8);

/// A member of an NF's Tables.
struct MessageMemory {
    static constexpr uint32_t kFresh = 2048;  ///< most bytes of a body that are looked at at once, behind its tail
    static constexpr uint32_t kWays = flows::StreamMemory::kWays, kStreams = flows::StreamMemory::kStreams;

    MutableView<uint64_t> words;   ///< `words_of_bucket` a bucket; none: messages are not followed
    MutableView<uint64_t> counts;  ///< by MessageCount
    DecoderPool decoders;
    uint32_t rooms = 0;    ///< a bucket
    uint32_t head = 0;     ///< bytes of a head that are kept, a multiple of 8
    uint32_t tail = 0;     ///< bytes of a body that are kept, a multiple of 8
    uint32_t inflate = 0;  ///< most bytes that a body, or a segment, is decompressed to

    MILLRACE_DEVICE static constexpr uint64_t words_of_bucket(uint32_t rooms, uint32_t head, uint32_t tail) {
        return 1 + kStreams + kWays + uint64_t{rooms} * (sizeof(MessageRoom) + head + tail) / 8 +
               (uint64_t{head} + tail + kFresh) / 8;
    }
    MILLRACE_DEVICE void count(MessageCount what) const { add_atomically(counts[static_cast<uint32_t>(what)], 1); }
};

/// The memory of one bucket, which nobody else looks at meanwhile.
class MessageBucket {
public:
    MILLRACE_DEVICE MessageBucket(const MessageMemory& memory, uint32_t bucket)
        : memory_(memory), bucket_(bucket),
          at_(reinterpret_cast<uint8_t*>(
              memory.words.data() + bucket * MessageMemory::words_of_bucket(memory.rooms, memory.head, memory.tail))) {}

    MILLRACE_DEVICE const MessageMemory& memory() const { return memory_; }
    MILLRACE_DEVICE MessageStream& stream(uint32_t number) const {
        return reinterpret_cast<MessageStream*>(at_ + 8)[number];
    }
    MILLRACE_DEVICE MessageFlow& flow(uint32_t way) const {
        return reinterpret_cast<MessageFlow*>(at_ + 8 + MessageMemory::kStreams * sizeof(MessageStream))[way];
    }
    MILLRACE_DEVICE MessageRoom& room(uint32_t i) const { return *reinterpret_cast<MessageRoom*>(room_at(i)); }
    MILLRACE_DEVICE HeadRoom head(uint32_t i) const { return {room_at(i) + sizeof(MessageRoom), memory_.head}; }
    MILLRACE_DEVICE uint8_t* tail(uint32_t i) const { return room_at(i) + sizeof(MessageRoom) + memory_.head; }
    /// Room for a head, a tail, and MessageMemory::kFresh bytes next to each other.
    MILLRACE_DEVICE uint8_t* window() const { return room_at(memory_.rooms); }

    /// A flow begins, or a connection was reset: what is known of it is forgotten.
    MILLRACE_DEVICE void begin(uint32_t way) const {
        for (uint32_t i = 0; i < memory_.rooms; ++i)
            if (room(i).used && room(i).number / 2 == way) release(i);
        stream(2 * way) = stream(2 * way + 1) = {};
        flow(way) = {};
    }
    /// No more of stream `number` will come.
    MILLRACE_DEVICE void end(uint32_t number) const {
        if (stream(number).state == MessageStream::kWithin) release(stream(number).room);
        stream(number).state = MessageStream::kLost;
    }
    /// A room for a message of stream `number`; the number of rooms where all are taken.
    template <class Gone>
    MILLRACE_DEVICE uint32_t take_room(uint32_t number, Gone&& gone) const {
        uint32_t i = 0;
        while (i < memory_.rooms && room(i).used && !gone(room(i).number / 2u)) ++i;
        if (i == memory_.rooms) return i;
        if (room(i).used) {
            stream(room(i).number).state = MessageStream::kLost;
            release(i);
        }
        MessageRoom& own = room(i);
        auto& serial = *reinterpret_cast<uint64_t*>(at_);
        own.owner = (uint64_t{bucket_} * MessageMemory::kStreams + number + 1) << 31 | (++serial & 0x7fffffffu);
        own.judged = own.tail = own.decoded = own.reader = own.expires_in = 0;
        own.used = 1;
        own.number = static_cast<uint8_t>(number);
        own.notes = own.layers = own.seen = own.dropped = own.undecoded = 0;
        return i;
    }
    MILLRACE_DEVICE void release(uint32_t i) const {
        MessageRoom& own = room(i);
        for (uint32_t k = 0; k < own.layers; ++k) memory_.decoders.release(own.decoders[k], own.owner);
        own.layers = own.used = 0;
    }

private:
    MILLRACE_DEVICE uint8_t* room_at(uint32_t i) const {
        return at_ + 8 + MessageMemory::kStreams * sizeof(MessageStream) + MessageMemory::kWays * sizeof(MessageFlow) +
               uint64_t{i} * (sizeof(MessageRoom) + memory_.head + memory_.tail);
    }

    const MessageMemory& memory_;
    uint32_t bucket_;
    uint8_t* at_;
};

}  // namespace millrace::nf::nids::http
