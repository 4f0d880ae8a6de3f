// The HTTP messages of a connection, one behind the other, of its streams put in order (nf/flows/stream.hpp).
//
// Of each message that is under way the head is kept, as far as there is room, and the last bytes of its body, without
// chunks and decompressed. Whoever follows them looks at both together, once for each segment that has more of it.
#pragma once

#include "millrace/nf/nids/http/message_memory.hpp"

namespace millrace::nf::nids::http {

/// A message as far as it has come: its head, the last bytes of its body before this, and those that are new.
struct MessageLook {
    const uint8_t* data = nullptr;  ///< all of it
    uint32_t head = 0, tail = 0, fresh = 0;
    uint32_t judged = 0;  ///< bytes of the head that were judged with their segment, before there was more of it
    bool is_response = false;
    bool is_cut = false;         ///< the head has bytes that were not kept
    bool from_start = false;     ///< the tail begins where the body does
    bool head_is_new = false;    ///< it was not complete before
    bool is_unsearched = false;  ///< the new bytes were not judged with their segment
};

/// Bytes of a stream that are next in order, and what is known of them.
struct MessagePiece {
    const uint8_t* data = nullptr;
    uint32_t bytes = 0;
    uint32_t seq = 0;
    bool starts_segment = false;  ///< the segment begins with them, and was judged by itself
    bool looks = false;           ///< their segment may have what some rule of messages wants, or a pattern across its
                                  ///< beginning
    bool asks = false;            ///< and of more rules than are known: all of a body is to be looked at
};

/// `Visitor`: look(MessageLook, MessageRoom&); note(MessageRoom&): a message that was judged with its segment goes on;
/// judged(piece): whether the message that its segment begins with was
/// judged with that.
template <class Gone, class Visitor>
class MessageFollower {
public:
    /// `gone(way)`: the flow there has ended. `now`: the packet's time.
    MILLRACE_DEVICE MessageFollower(const MessageBucket& bucket, uint32_t number, bool response, uint64_t now,
                                    Gone& gone, Visitor& visitor)
        : bucket_(bucket), memory_(bucket.memory()), number_(number), response_(response), now_(now), gone_(gone),
          visitor_(visitor) {}

    MILLRACE_DEVICE bool follows() const { return bucket_.stream(number_).state != MessageStream::kLost; }

    MILLRACE_DEVICE void take(const MessagePiece& piece) {
        MessageStream& stream = bucket_.stream(number_);
        if (stream.state == MessageStream::kLost) return;
        if (stream.any && stream.next != piece.seq && stream.state == MessageStream::kWithin &&
            !skip(bucket_.room(stream.room), piece.seq - stream.next))
            return drop(stream);
        stream.any = 1;
        stream.next = piece.seq + piece.bytes;
        looks_ = piece.looks;
        asks_ = piece.asks;
        uint32_t at = 0;
        while (at < piece.bytes) {
            if (stream.state == MessageStream::kBetween) {
                // Lines that are empty stand between messages.
                while (at < piece.bytes && (piece.data[at] == '\r' || piece.data[at] == '\n')) ++at;
                if (at == piece.bytes) return;
                if (!begin(stream)) return;
                bucket_.room(stream.room).seen = at == 0 && piece.starts_segment && visitor_.judged(piece);
            }
            uint32_t taken = 0;
            const Message::Got got = step(stream, piece.data + at, piece.bytes - at, taken);
            at += taken;
            if (got == Message::Got::not_http) return drop(stream);
            if (stream.state == MessageStream::kLost) return;
        }
        if (stream.state != MessageStream::kWithin) return;
        MessageRoom& own = bucket_.room(stream.room);
        flush(own, stream.room);
        if (own.message.is_in_body()) return;
        if (own.seen) own.judged = own.message.head_bytes();  // as far as it had come
        own.seen = 0;
    }

private:
    /// For what has no body yet.
    struct NoBody {
        MILLRACE_DEVICE void operator()(const uint8_t*, uint32_t) const {}
    };
    /// Goes on behind bytes that are missing, if that can be.
    MILLRACE_DEVICE bool skip(MessageRoom& own, uint32_t bytes) {
        if (!own.message.skip(bytes)) return false;
        own.tail = 0;
        own.dropped = 1;
        if (own.layers > 0) give_up(own, MessageCount::undecoded);
        return true;
    }
    MILLRACE_DEVICE_CALL void drop(MessageStream& stream) {
        if (stream.state == MessageStream::kWithin) {
            const bool in_body = bucket_.room(stream.room).message.is_in_body();
            flush(bucket_.room(stream.room), stream.room);
            if (in_body || bucket_.flow(number_ / 2).requested) memory_.count(MessageCount::lost);
            bucket_.release(stream.room);
        }
        stream.state = MessageStream::kLost;
    }
    MILLRACE_DEVICE_CALL bool begin(MessageStream& stream) {
        const uint32_t room = bucket_.take_room(number_, gone_);
        if (room == memory_.rooms) {
            memory_.count(MessageCount::unfollowed);
            stream.state = MessageStream::kLost;
            return false;
        }
        stream.room = static_cast<uint8_t>(room);
        stream.state = MessageStream::kWithin;
        bucket_.room(room).message.begin(response_, bucket_.flow(number_ / 2).requested != 0);
        head_is_new_ = is_laid_out_ = asks_body_ = decoded_ = begins_body_ = false;
        fresh_ = 0;
        return true;
    }

    /// What the message that is under way makes of some bytes.
    MILLRACE_DEVICE Message::Got step(MessageStream& stream, const uint8_t* data, uint32_t bytes, uint32_t& taken) {
        const uint32_t room = stream.room;
        MessageRoom& own = bucket_.room(room);
        Message::Got got = own.message.take(data, bytes, taken, bucket_.head(room),
                                            [&](const uint8_t* part, uint32_t n) { body(own, room, part, n); });
        if (got == Message::Got::head) {
            complete_head(stream, own, room);
            uint32_t none = 0;  // there may be no body
            if (stream.state == MessageStream::kWithin)
                got = own.message.take(data, 0, none, bucket_.head(room), NoBody{});
        }
        if (got != Message::Got::end || stream.state != MessageStream::kWithin) return got;
        const uint32_t back = own.message.given_back();
        flush(own, room, true);
        bucket_.release(room);
        stream.state = MessageStream::kBetween;
        if (back == 0 || !begin(stream)) return Message::Got::more;
        uint32_t none = 0;
        return bucket_.room(stream.room)
            .message.take(reinterpret_cast<const uint8_t*>("HTTP/"), back, none, bucket_.head(stream.room), NoBody{});
    }

    MILLRACE_DEVICE_CALL void complete_head(MessageStream& stream, MessageRoom& own, uint32_t room) {
        memory_.count(MessageCount::messages);
        if (own.message.is_cut()) memory_.count(MessageCount::cut);
        head_is_new_ = true;
        MessageFlow& flow = bucket_.flow(number_ / 2);
        const uint8_t* const head = bucket_.head(room).data;
        const uint32_t bytes = own.message.head_bytes();
        Message::Body how = Message::Body::as_said;
        if (!response_) {
            flow.ask(begins_with(head, bytes, "HEAD ")      ? MessageFlow::kHead
                     : begins_with(head, bytes, "CONNECT ") ? MessageFlow::kConnect
                                                            : MessageFlow::kOther);
        } else {
            const uint32_t status = status_of(head, bytes);
            const bool interim = status >= 100 && status < 200;
            const uint32_t method = flow.answer(!interim);
            if (status == 101 || (method == MessageFlow::kConnect && status >= 200 && status < 300)) {
                // What follows in both directions is no HTTP.
                flush(own, room);
                bucket_.begin(number_ / 2);
                stream.state = bucket_.stream(number_ ^ 1u).state = MessageStream::kLost;
                return;
            }
            if (interim || status == 204 || status == 304 || method == MessageFlow::kHead)
                how = Message::Body::not_wanted;
        }
        own.message.body_follows(how);
    }
    MILLRACE_DEVICE static bool begins_with(const uint8_t* data, uint32_t bytes, const char* word) {
        for (uint32_t i = 0; word[i] != 0; ++i)
            if (i == bytes || data[i] != static_cast<uint8_t>(word[i])) return false;
        return true;
    }
    MILLRACE_DEVICE static uint32_t status_of(const uint8_t* head, uint32_t bytes) {
        uint32_t at = 0, status = 0, digits = 0;
        while (at < bytes && head[at] != ' ' && head[at] != '\n') ++at;
        while (at < bytes && (head[at] == ' ' || head[at] == '\t')) ++at;
        for (; at < bytes && digits < 4 && head[at] >= '0' && head[at] <= '9'; ++at, ++digits)
            status = status * 10 + (head[at] - '0');
        return status;
    }

    /// Bytes of the body as they are sent, without chunks.
    MILLRACE_DEVICE_CALL void body(MessageRoom& own, uint32_t room, const uint8_t* data, uint32_t bytes) {
        if (own.undecoded || bytes == 0) return;
        const BodyFields& fields = own.message.fields();
        if (fields.codings > 0 && own.layers == 0) begin_decoding(own);
        if (own.undecoded) return;
        if (own.layers > 0) return decode(own, room, data, bytes);
        decoded_ = fields.chunked != 0;
        // The body's first bytes, whose head came before: rules that say where in it something stands want them.
        if (!head_is_new_ && own.tail == 0 && !own.dropped) begins_body_ = true;
        if (decoded_ || begins_body_ || own.notes > 0 || (head_is_new_ ? asks_ || !own.seen : looks_))
            asks_body_ = true;
        if (!asks_body_) return keep(own, room, data, bytes);
        while (bytes > 0) {
            uint8_t* const to = fresh_room(own, room);
            const uint32_t those = smaller(bytes, MessageMemory::kFresh - fresh_);
            copy_bytes(to, data, those);
            fresh_ += those;
            data += those;
            bytes -= those;
        }
    }
    /// Where the next bytes of the body go, of which there is at least one.
    MILLRACE_DEVICE uint8_t* fresh_room(MessageRoom& own, uint32_t room) {
        if (fresh_ == MessageMemory::kFresh) flush(own, room);
        lay_out(own, room);
        return bucket_.window() + own.message.head_bytes() + own.tail + fresh_;
    }
    /// Head and tail into the window, where new bytes follow.
    MILLRACE_DEVICE_CALL void lay_out(const MessageRoom& own, uint32_t room) {
        if (is_laid_out_) return;
        copy_bytes(bucket_.window(), bucket_.head(room).data, own.message.head_bytes());
        copy_bytes(bucket_.window() + own.message.head_bytes(), bucket_.tail(room), own.tail);
        is_laid_out_ = true;
    }
    /// Bytes that are not looked at become part of the tail.
    MILLRACE_DEVICE_CALL void keep(MessageRoom& own, uint32_t room, const uint8_t* data, uint32_t bytes) {
        uint8_t* const to = bucket_.tail(room);
        if (own.tail + bytes > memory_.tail) {
            own.dropped = 1;
            const uint32_t stay = bytes < memory_.tail ? memory_.tail - bytes : 0;
            if (stay < own.tail) {
                move_bytes_down(to, to + own.tail - stay, stay);
                own.tail = stay;
            }
            const uint32_t those = memory_.tail - own.tail;
            data += bytes - those;
            bytes = those;
        }
        copy_bytes(to + own.tail, data, bytes);
        own.tail += bytes;
    }

    MILLRACE_DEVICE_CALL void begin_decoding(MessageRoom& own) {
        const uint32_t wanted = smaller<uint32_t>(own.message.fields().codings, MessageRoom::kLayers);
        while (own.layers < wanted) {
            const uint32_t decoder = memory_.decoders.acquire(own.owner, now_);
            if (decoder == DecoderPool::kNone) return give_up(own, MessageCount::undecoded);
            own.decoders[own.layers++] = decoder;
            memory_.decoders.leave(decoder, own.owner, now_);
        }
        memory_.count(MessageCount::decoded);
    }
    MILLRACE_DEVICE_CALL void give_up(MessageRoom& own, MessageCount why) {
        memory_.count(why);
        for (uint32_t i = 0; i < own.layers; ++i) memory_.decoders.release(own.decoders[i], own.owner);
        own.layers = 0;
        own.undecoded = 1;
    }
    MILLRACE_DEVICE_CALL void decode(MessageRoom& own, uint32_t room, const uint8_t* data, uint32_t bytes) {
        for (uint32_t i = 0; i < own.layers; ++i) {
            if (memory_.decoders.enter(own.decoders[i], own.owner)) continue;
            for (uint32_t k = 0; k < i; ++k) memory_.decoders.leave(own.decoders[k], own.owner, now_);
            return give_up(own, MessageCount::undecoded);
        }
        decoded_ = asks_body_ = true;
        const bool within = pump(own, room, data, bytes);
        for (uint32_t i = 0; i < own.layers; ++i) memory_.decoders.leave(own.decoders[i], own.owner, now_);
        if (!within) give_up(own, MessageCount::limited);
    }
    /// Lets each layer take what the one before it has given, the last one first; false where it came to be too much.
    MILLRACE_DEVICE bool pump(MessageRoom& own, uint32_t room, const uint8_t* data, uint32_t bytes) {
        constexpr uint32_t kBetween = 64;
        uint8_t between[MessageRoom::kLayers - 1][kBetween];
        uint32_t from[MessageRoom::kLayers] = {}, to[MessageRoom::kLayers] = {};  // of what each has before it
        to[0] = bytes;
        const uint32_t last = own.layers - 1u;
        for (uint32_t layer = last;;) {
            const uint8_t* const in = layer == 0 ? data : between[layer - 1];
            uint8_t* out = between[smaller(layer, MessageRoom::kLayers - 2)];
            uint32_t most = kBetween;
            if (layer == last) {
                out = fresh_room(own, room);
                most = MessageMemory::kFresh - fresh_;
            }
            const uint32_t left = memory_.inflate - smaller(memory_.inflate, larger(own.decoded, decoded_bytes_));
            if (left == 0) return false;
            const Inflate::Step step = memory_.decoders.of(own.decoders[layer])
                                           .inflate.run(in + from[layer], to[layer] - from[layer], out,
                                                        smaller(most, left));
            from[layer] += step.taken;
            own.decoded += step.given;
            decoded_bytes_ += step.given;
            if (layer == last) {
                fresh_ += step.given;
            } else if (step.given > 0) {
                from[layer + 1] = 0;
                to[layer + 1] = step.given;
            }
            if (step.given > 0) {
                layer = last;  // there may be more of it, or room for it
            } else if (layer == 0) {
                return true;
            } else {
                --layer;
            }
        }
    }

    /// Lets the visitor look at what has come of the message since the last time.
    MILLRACE_DEVICE_CALL void flush(MessageRoom& own, uint32_t room, bool ended = false) {
        // One without a body was judged with its segment, and will have no more.
        const bool anew = head_is_new_ && (!own.seen || (asks_ && !(ended && own.tail == 0)));
        if (fresh_ > 0 || anew) {
            lay_out(own, room);
            MessageLook look;
            look.data = bucket_.window();
            look.head = own.message.head_bytes();
            look.tail = own.tail;
            look.fresh = fresh_;
            look.is_response = response_;
            look.is_cut = own.message.is_cut();
            look.from_start = own.dropped == 0;
            look.head_is_new = head_is_new_;
            look.judged = own.judged;
            look.is_unsearched = decoded_ || begins_body_;
            visitor_.look(look, own);
        }
        if (head_is_new_ && own.seen && !ended) visitor_.note(own);
        head_is_new_ = false;
        if (fresh_ == 0) return;
        const uint32_t fresh = fresh_;
        fresh_ = 0;
        begins_body_ = false;
        keep(own, room, bucket_.window() + own.message.head_bytes() + own.tail, fresh);
        is_laid_out_ = false;
    }
    const MessageBucket& bucket_;
    const MessageMemory& memory_;
    const uint32_t number_;
    const bool response_;
    const uint64_t now_;
    Gone& gone_;
    Visitor& visitor_;
    uint32_t fresh_ = 0;                 ///< bytes of the body in the window, behind its tail
    uint32_t decoded_bytes_ = 0;         ///< of this segment
    bool looks_ = false, asks_ = false;  ///< as of MessagePiece
    bool asks_body_ = false;             ///< the body's bytes of this segment are looked at
    bool head_is_new_ = false, is_laid_out_ = false, decoded_ = false, begins_body_ = false;
};

}  // namespace millrace::nf::nids::http
