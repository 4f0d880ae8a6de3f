// Decompression of gzip, zlib and bare deflate (RFC 1952, 1950, 1951) in memory of a fixed size, of bytes that come in
// pieces of any length: the device half.
//
// What is compressed is told by its first bytes, not by its name. Checksums are not looked at: whoever reads the body
// may not look at them either. What turns out to be nothing of the three is passed on as it is.
#pragma once

#include "millrace/nf/nids/http/huffman.hpp"

namespace millrace::nf::nids::http {

/// One decoder. What it has decoded last is in `window`.
class Inflate {
public:
    static constexpr uint32_t kWindow = 32768;

    /// What a call has taken and given.
    struct Step {
        uint32_t taken = 0, given = 0;
    };

    MILLRACE_DEVICE void begin() {
        state_ = State::first_bytes;
        bits_ = 0;
        bit_count_ = kept_ = left_ = at_ = filled_ = 0;
        last_ = began_ = false;
    }
    /// Whether what came was not, or is no longer, what it was taken for: what follows is passed on.
    MILLRACE_DEVICE bool is_broken() const { return state_ == State::pass || state_ == State::replay; }

    /// Decodes in[0, bytes) into out[0, room): as much as there is room for. All of it is taken when the room is not
    /// filled.
    MILLRACE_DEVICE_CALL Step run(const uint8_t* in, uint32_t bytes, uint8_t* out, uint32_t room) {
        Input input{in, bytes, 0};
        uint32_t given = 0;
        while (given < room && step(input, out, room, given)) {
        }
        return {input.taken, given};
    }

private:
    enum class State : uint8_t {
        first_bytes,
        gzip_head,
        gzip_extra,  ///< its length
        skip,        ///< left_ bytes
        gzip_text,   ///< to its 0
        block,
        stored,
        stored_bytes,  ///< left_
        dynamic,
        code_lengths,
        lengths,
        symbols,
        copy,  ///< left_ bytes from distance_ on
        done,
        replay,  ///< kept bytes, then pass
        pass,
    };
    static constexpr uint32_t kKept = 32;
    static constexpr uint8_t kHeadCrc = 2, kExtra = 4, kName = 8, kComment = 16;  // RFC 1952, section 2.3.1

    struct Input {
        const uint8_t* data;
        uint32_t bytes, taken;
        MILLRACE_DEVICE bool empty() const { return taken == bytes; }
    };

    /// One step; false where more bytes are needed.
    MILLRACE_DEVICE bool step(Input& input, uint8_t* out, uint32_t room, uint32_t& given) {
        if (state_ == State::pass) {
            const uint32_t bytes = smaller(room - given, input.bytes - input.taken);
            copy_bytes(out + given, input.data + input.taken, bytes);
            input.taken += bytes;
            given += bytes;
            return !input.empty();
        }
        if (state_ == State::done) {
            input.taken = input.bytes;
            return false;
        }
        if (state_ == State::replay) {
            while (at_ < kept_ && given < room) out[given++] = keep_[at_++];
            if (at_ == kept_) state_ = State::pass;
            return true;
        }
        fill(input);
        // No state wants more bits than there is room for.
        return decode(input, out, room, given) || !input.empty();
    }
    /// The same of what is compressed: false where more bits are needed than are there.
    MILLRACE_DEVICE bool decode(Input& input, uint8_t* out, uint32_t room, uint32_t& given) {
        switch (state_) {
            case State::first_bytes: return first_bytes();
            case State::gzip_head: return gzip_head();
            case State::gzip_extra:
                if (!has(16)) return false;
                left_ = take(16);
                state_ = State::skip;
                return true;
            case State::skip:
                for (; left_ > 0; --left_) {
                    if (!has(8)) return false;
                    take(8);
                }
                next_of_gzip();
                return true;
            case State::gzip_text:
                while (true) {
                    if (!has(8)) return false;
                    if (take(8) == 0) break;
                }
                next_of_gzip();
                return true;
            case State::block: return block();
            case State::stored: return stored();
            case State::stored_bytes:
                while (left_ > 0 && given < room && has(8)) {
                    give(static_cast<uint8_t>(take(8)), out, given);
                    --left_;
                }
                if (left_ == 0) end_block();
                return left_ == 0;
            case State::dynamic: return dynamic();
            case State::code_lengths: return code_lengths();
            case State::lengths: return lengths();
            case State::symbols: return symbols(input, out, room, given);
            case State::copy: copy(out, room, given); return true;
            default: return false;
        }
    }

    // Bits come from the lowest one on (RFC 1951, section 3.1.1).
    MILLRACE_DEVICE void fill(Input& input) {
        while (bit_count_ <= 56 && !input.empty()) {
            const uint8_t byte = input.data[input.taken++];
            if (!began_ && kept_ < kKept) keep_[kept_++] = byte;
            bits_ |= uint64_t{byte} << bit_count_;
            bit_count_ += 8;
        }
    }
    MILLRACE_DEVICE bool has(uint32_t count) const { return bit_count_ >= count; }
    MILLRACE_DEVICE uint32_t peek(uint32_t count) const {
        return static_cast<uint32_t>(bits_ & ((uint64_t{1} << count) - 1));
    }
    MILLRACE_DEVICE uint32_t take(uint32_t count) {
        const uint32_t value = peek(count);
        drop(count);
        return value;
    }
    MILLRACE_DEVICE void drop(uint32_t count) {
        bits_ >>= count;
        bit_count_ -= count;
    }

    MILLRACE_DEVICE void give(uint8_t byte, uint8_t* out, uint32_t& given) {
        out[given++] = byte;
        window_[at_] = byte;
        at_ = (at_ + 1) % kWindow;
        if (filled_ < kWindow) ++filled_;
        began_ = true;
    }
    /// Nothing of it was what it seemed: what is known of it, and what follows, is passed on.
    MILLRACE_DEVICE bool broken() {
        if (began_) {  // what is in `bits_` was not decoded
            kept_ = 0;
            for (drop(bit_count_ % 8); bit_count_ > 0;) keep_[kept_++] = static_cast<uint8_t>(take(8));
        }
        at_ = 0;
        state_ = State::replay;
        return true;
    }

    MILLRACE_DEVICE bool first_bytes() {
        if (!has(16)) return false;
        const uint32_t low = peek(8), high = peek(16) >> 8;
        if (low == '\r' && high == '\n') {  // an empty line too many
            if (!has(32)) return false;
            if ((bits_ >> 16 & 0xffff) == 0x8b1f) drop(16);
        }
        if (peek(16) == 0x8b1f) {
            drop(16);
            state_ = State::gzip_head;
        } else if ((low & 0x0f) == 8 && low <= 0x7f && (low << 8 | high) % 31 == 0) {
            if (high & 0x20) return broken();  // a dictionary that both ends know
            drop(16);
            state_ = State::block;
        } else {
            state_ = State::block;
        }
        return true;
    }
    /// The method, the flags, a time, two bytes more.
    MILLRACE_DEVICE bool gzip_head() {
        if (!has(16)) return false;
        if (take(8) != 8) return broken();
        flags_ = static_cast<uint8_t>(take(8));
        left_ = 6;
        gzip_at_ = 0;
        state_ = State::skip;
        return true;
    }
    /// What of a gzip's head follows.
    MILLRACE_DEVICE void next_of_gzip() {
        constexpr uint8_t kOrder[] = {kExtra, kName, kComment, kHeadCrc};
        while (gzip_at_ < 4 && !(flags_ & kOrder[gzip_at_])) ++gzip_at_;
        if (gzip_at_ == 4) {
            state_ = State::block;
            return;
        }
        const uint8_t which = kOrder[gzip_at_++];
        left_ = 2;
        state_ = which == kExtra ? State::gzip_extra : which == kHeadCrc ? State::skip : State::gzip_text;
    }

    MILLRACE_DEVICE bool block() {
        if (!has(3)) return false;
        last_ = take(1) != 0;
        switch (take(2)) {
            case 0:
                drop(bit_count_ % 8);
                state_ = State::stored;
                return true;
            case 1:
                for (uint32_t i = 0; i < kFixedLengths; ++i) lengths_[i] = fixed_length(i);
                codes_.literals.build(lengths_, kFixedLengths);
                for (uint32_t i = 0; i < kFixedDistances; ++i) lengths_[i] = 5;
                codes_.distances.build(lengths_, kFixedDistances);
                state_ = State::symbols;
                return true;
            case 2: state_ = State::dynamic; return true;
            default: return broken();
        }
    }
    MILLRACE_DEVICE void end_block() { state_ = last_ ? State::done : State::block; }
    MILLRACE_DEVICE bool stored() {
        if (!has(32)) return false;
        left_ = peek(16);
        if ((left_ ^ 0xffff) != static_cast<uint32_t>(bits_ >> 16 & 0xffff)) return broken();
        drop(32);
        state_ = State::stored_bytes;
        if (left_ == 0) end_block();
        return true;
    }
    // RFC 1951, section 3.2.7.
    MILLRACE_DEVICE bool dynamic() {
        if (!has(14)) return false;
        literals_ = static_cast<uint16_t>(take(5) + 257);
        distances_ = static_cast<uint16_t>(take(5) + 1);
        code_lengths_ = static_cast<uint16_t>(take(4) + 4);
        if (literals_ > 286 || distances_ > 30) return broken();
        for (uint32_t i = 0; i < kCodeLengths; ++i) lengths_[i] = 0;
        index_ = 0;
        state_ = State::code_lengths;
        return true;
    }
    MILLRACE_DEVICE bool code_lengths() {
        for (; index_ < code_lengths_; ++index_) {
            if (!has(3)) return false;
            lengths_[code_length_order(index_)] = static_cast<uint8_t>(take(3));
        }
        if (!codes_.literals.build(lengths_, kCodeLengths, true)) return broken();
        index_ = 0;
        state_ = State::lengths;
        return true;
    }
    MILLRACE_DEVICE bool lengths() {
        const uint32_t all = uint32_t{literals_} + distances_;
        while (index_ < all) {
            const Symbol symbol = codes_.literals.decode(bits_, bit_count_);
            if (symbol.bits == 0) return symbol.is_none() ? broken() : false;
            if (symbol.value < 16) {
                drop(symbol.bits);
                lengths_[index_++] = static_cast<uint8_t>(symbol.value);
                continue;
            }
            const uint32_t extra = symbol.value == 16 ? 2 : symbol.value == 17 ? 3 : 7;
            if (!has(symbol.bits + extra)) return false;
            drop(symbol.bits);
            const uint32_t times = take(extra) + (symbol.value == 18 ? 11 : 3);
            if (index_ + times > all || (symbol.value == 16 && index_ == 0)) return broken();
            const uint8_t length = symbol.value == 16 ? lengths_[index_ - 1] : uint8_t{0};
            for (uint32_t i = 0; i < times; ++i) lengths_[index_++] = length;
        }
        if (lengths_[256] == 0) return broken();  // no end of the block
        if (!codes_.literals.build(lengths_, literals_) || !codes_.distances.build(lengths_ + literals_, distances_))
            return broken();
        state_ = State::symbols;
        return true;
    }

    MILLRACE_DEVICE bool symbols(Input& input, uint8_t* out, uint32_t room, uint32_t& given) {
        while (given < room) {
            fill(input);
            const Symbol symbol = codes_.literals.decode(bits_, bit_count_);
            if (symbol.bits == 0) return symbol.is_none() ? broken() : false;
            if (symbol.value < 256) {
                drop(symbol.bits);
                give(static_cast<uint8_t>(symbol.value), out, given);
                continue;
            }
            if (symbol.value == 256) {
                drop(symbol.bits);
                end_block();
                return true;
            }
            if (symbol.value > 285) return broken();
            // A length and a distance have 48 bits at most: `bits_` has them, or more are to come.
            const uint32_t length_bits = extra_of_length(symbol.value);
            uint32_t used = symbol.bits + length_bits;
            if (!has(used)) return false;
            const Symbol distance = codes_.distances.decode(bits_ >> used, bit_count_ - used);
            if (distance.bits == 0) return distance.is_none() ? broken() : false;
            if (distance.value > 29) return broken();
            const uint32_t distance_bits = extra_of_distance(distance.value);
            used += distance.bits + distance_bits;
            if (!has(used)) return false;
            drop(symbol.bits);
            left_ = base_of_length(symbol.value) + take(length_bits);
            drop(distance.bits);
            distance_ = base_of_distance(distance.value) + take(distance_bits);
            if (distance_ > filled_) return broken();
            state_ = State::copy;
            copy(out, room, given);
            if (state_ == State::copy) return true;
        }
        return true;
    }
    MILLRACE_DEVICE void copy(uint8_t* out, uint32_t room, uint32_t& given) {
        for (; left_ > 0 && given < room; --left_) give(window_[(at_ + kWindow - distance_) % kWindow], out, given);
        if (left_ == 0) state_ = State::symbols;
    }

    uint64_t bits_;
    uint32_t bit_count_;
    uint32_t kept_;  ///< bytes in `keep_`
    uint32_t left_;
    uint32_t at_;      ///< in the window, or in `keep_`
    uint32_t filled_;  ///< bytes that the window has
    uint32_t distance_;
    State state_;
    bool last_;   ///< the block is
    bool began_;  ///< something was given
    uint8_t flags_, gzip_at_;
    uint16_t literals_, distances_, code_lengths_, index_;
    uint8_t keep_[kKept];  ///< the first bytes, as long as nothing was given; those that are passed on
    uint8_t lengths_[kMaxLengths];
    Codes codes_;
    uint8_t window_[kWindow];
};

}  // namespace millrace::nf::nids::http
