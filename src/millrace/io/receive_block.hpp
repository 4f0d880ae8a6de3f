// Frames that a port has received into contiguous memory, many to a buffer, in place of one mbuf each.
//
// NICs with striding receive queues or packed streams, and the block rings of kernels, leave frames like that. What a
// worker then does for each of them is a look at 8 bytes, where an mbuf takes two cache lines of header and a pool.
#pragma once

#include <bit>
#include <cstdint>

namespace millrace::io {

/// Where one frame of a block lies.
struct FrameSpot {
    uint32_t offset = 0;         ///< of its first byte, from ReceiveBlock::memory; a multiple of kFrameSpacing
    uint16_t length = 0;         ///< bytes
    uint16_t segment_bytes = 0;  ///< as io::segment_bytes of a packet
};
static_assert(sizeof(FrameSpot) == 8);

/// Frames of a block begin at multiples of so many bytes, as strides of NICs are no shorter. What lies between two of
/// them is readable.
inline constexpr uint32_t kFrameSpacing = 64;

/// How many of the `count` frames, one at least, are of one length and at one distance from each other.
inline uint32_t frames_alike(const FrameSpot* spots, uint32_t count) {
    if (count < 2) return count;
    constexpr uint32_t kAtOnce = 8;  // without a branch
    const auto step = [&](uint32_t i) {
        return std::bit_cast<uint64_t>(spots[i + 1]) - std::bit_cast<uint64_t>(spots[i]);
    };
    const uint64_t first = step(0);
    if (first > UINT32_MAX) return 1;  // another length
    uint32_t n = 2;
    for (uint64_t others = 0; n + kAtOnce <= count; n += kAtOnce) {
        for (uint32_t k = 0; k < kAtOnce; ++k) others |= step(n + k - 1) ^ first;
        if (others != 0) break;
    }
    while (n < count && step(n - 1) == first) ++n;
    return n;
}

/// Frames as a port received them, in order of arrival. The memory is the port's, stays as it is until the frames are
/// given back
/// (`Port::give_back`), and must not be written.
struct ReceiveBlock {
    const uint8_t* memory = nullptr;
    const FrameSpot* spots = nullptr;  ///< `count` of them, at rising offsets
    uint32_t count = 0;
    uint16_t port = 0;          ///< index of the port
    bool has_uncut = false;     ///< some have segment_bytes
    uint64_t first_number = 0;  ///< as `packet_number`; each following frame's is `number_step` more
    uint64_t number_step = 1;
    uint64_t first_ns = 0;  ///< as `packet_timestamp_ns`; each following frame's is `interval_ns` more
    uint64_t interval_ns = 0;

    const uint8_t* data(uint32_t i) const { return memory + spots[i].offset; }
    uint64_t number(uint32_t i) const { return first_number + i * number_step; }
    uint64_t timestamp_ns(uint32_t i) const { return first_ns + i * interval_ns; }
    /// Takes in a block that goes on where this one ends; false if it does not. Times of its frames may shift by
    /// kMaxShiftNs.
    bool join(const ReceiveBlock& behind) {
        const uint64_t next_ns = timestamp_ns(count);
        const uint64_t shift_ns = next_ns > behind.first_ns ? next_ns - behind.first_ns : behind.first_ns - next_ns;
        if (behind.memory != memory || behind.spots != spots + count || behind.port != port ||
            behind.first_number != number(count) || behind.number_step != number_step ||
            behind.interval_ns != interval_ns || shift_ns > kMaxShiftNs)
            return false;
        count += behind.count;
        has_uncut |= behind.has_uncut;
        return true;
    }
    static constexpr uint64_t kMaxShiftNs = 1000;
    /// Frames [first, first + n) of it.
    ReceiveBlock part(uint32_t first, uint32_t n) const {
        ReceiveBlock result = *this;
        result.spots += first;
        result.count = n;
        result.first_number = number(first);
        result.first_ns = timestamp_ns(first);
        return result;
    }
};

/// A frame on its way out, in one piece or two: what follows the head may still lie where it was received. Memory of
/// the sender's.
struct FramePieces {
    const uint8_t* head = nullptr;
    const uint8_t* rest = nullptr;
    uint16_t head_bytes = 0, rest_bytes = 0;
    uint32_t index = 0;  ///< in the block that it came with
    uint32_t bytes() const { return uint32_t{head_bytes} + rest_bytes; }
};

}  // namespace millrace::io
