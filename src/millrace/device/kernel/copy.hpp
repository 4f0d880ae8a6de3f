// How a GPU's threads fetch frames, and copy the heads that go back. Included by the generated source only.
#pragma once

#include "millrace/device/kernel/chain.hpp"
#include "millrace/packet/lanes.hpp"

#if MILLRACE_GPU

namespace millrace::device {

/// Threads that copy a frame together.
inline constexpr uint32_t kCopyLanes = 8;

/// Writes the first `count` bytes, 1 to 8, of two words to a multiple of 8.
MILLRACE_DEVICE void store_first(uint8_t* to, uint2 words, uint32_t count) {
    if (count >= sizeof words) {
        *reinterpret_cast<uint2*>(to) = words;
        return;
    }
    uint32_t rest = words.x;
    if (count & 4) {
        *reinterpret_cast<uint32_t*>(to) = rest;
        to += 4;
        rest = words.y;
    }
    if (count & 2) {
        *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(rest);
        to += 2;
        rest >>= 16;
    }
    if (count & 1) *to = static_cast<uint8_t>(rest);
}

/// Copies a frame from a multiple of 16 to kSkew behind one of 8, in kCopyLanes threads. The kSkew bytes before it are
/// overwritten.
MILLRACE_DEVICE void gather_skewed(const uint8_t* from, uint8_t* to, uint32_t bytes) {
    constexpr uint32_t kWord = sizeof(uint4), kAsked = 4, kShift = 32 - 8 * kSkew;
    const uint32_t rank = threadIdx.x % kCopyLanes, lanes = ((1u << kCopyLanes) - 1) << (threadIdx.x % 32 - rank);
    const auto* const words = reinterpret_cast<const uint4*>(from);
    const uint32_t end = bytes + kSkew;
    uint32_t last = 0;  // of the words before
    for (uint32_t first = 0; first * kWord < end; first += kCopyLanes * kAsked) {
        // The last word may reach behind the frame, as far as a multiple of its size.
        uint4 asked[kAsked];
#pragma unroll
        for (uint32_t k = 0; k < kAsked; ++k) {
            const uint32_t at = first + k * kCopyLanes + rank;
            asked[k] = at * kWord < bytes ? __ldcs(words + at) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (uint32_t k = 0; k < kAsked; ++k) {
            if ((first + k * kCopyLanes) * kWord >= end) return;  // the same for all that copy the frame
            const uint4& own = asked[k];
            uint32_t before = __shfl_up_sync(lanes, own.w, 1, kCopyLanes);
            if (rank == 0) before = last;
            last = __shfl_sync(lanes, own.w, kCopyLanes - 1, kCopyLanes);
            const uint32_t place = (first + k * kCopyLanes + rank) * kWord;
            uint8_t* const there = to - kSkew + place;
            if (place < end)
                store_first(there,
                            make_uint2(__funnelshift_r(before, own.x, kShift), __funnelshift_r(own.x, own.y, kShift)),
                            end - place);
            if (place + 8 < end)
                store_first(there + 8,
                            make_uint2(__funnelshift_r(own.y, own.z, kShift), __funnelshift_r(own.z, own.w, kShift)),
                            end - place - 8);
        }
    }
}

/// Fetches packet `i`'s frame from the host's memory, or from where it is staged, in kCopyLanes threads. The bus takes
/// long to answer: each thread asks for several words before it waits.
MILLRACE_DEVICE void gather_frame(const BatchView& batch, uint32_t i) {
    constexpr uint32_t kWord = sizeof(uint4), kHalf = sizeof(uint2), kAsked = 4;
    const uint32_t rank = threadIdx.x % kCopyLanes;
    const FrameDescriptor& frame = batch.descriptors[i];
    const auto* from = reinterpret_cast<const uint8_t*>(batch.source_of(i));
    uint8_t* to = batch.frames + frame.offset;
    if ((reinterpret_cast<uintptr_t>(from) & (kWord - 1)) == 0 &&
        (reinterpret_cast<uintptr_t>(to) & (kHalf - 1)) == kSkew && batch.headroom >= kSkew)
        return gather_skewed(from, to, frame.present);
    if ((reinterpret_cast<uintptr_t>(from) & (kWord - 1)) != 0 ||
        (reinterpret_cast<uintptr_t>(to) & (kHalf - 1)) != 0) {
        for (uint32_t at = rank; at < frame.present; at += kCopyLanes) to[at] = from[at];
        return;
    }
    // The last word may reach behind the frame, the last half of one that is written up to a multiple of kHalf: frames
    // begin at such.
    const auto* words = reinterpret_cast<const uint4*>(from);
    auto* into = reinterpret_cast<uint2*>(to);
    const uint32_t count = (frame.present + kWord - 1) / kWord, halves = (frame.present + kHalf - 1) / kHalf;
    const bool whole = (reinterpret_cast<uintptr_t>(to) & (kWord - 1)) == 0;
    const auto put = [&](uint32_t at, const uint4& word) {
        if (whole && 2 * at + 1 < halves) {
            reinterpret_cast<uint4*>(into)[at] = word;
            return;
        }
        into[2 * at] = make_uint2(word.x, word.y);
        if (2 * at + 1 < halves) into[2 * at + 1] = make_uint2(word.z, word.w);
    };
    for (uint32_t at = rank; at < count; at += kCopyLanes * kAsked) {
        uint4 asked[kAsked];
#pragma unroll
        for (uint32_t k = 0; k < kAsked; ++k)
            if (at + k * kCopyLanes < count) asked[k] = __ldcs(words + at + k * kCopyLanes);
#pragma unroll
        for (uint32_t k = 0; k < kAsked; ++k)
            if (at + k * kCopyLanes < count) put(at + k * kCopyLanes, asked[k]);
    }
}

/// Runs `f(i)` for each of the batch's packets in kCopyLanes threads, all blocks in turn.
template <class F>
MILLRACE_DEVICE void for_each_copy(const BatchView& batch, F&& f) {
    const uint32_t at_once = gridDim.x * (blockDim.x / kCopyLanes);
    for (uint32_t i = blockIdx.x * (blockDim.x / kCopyLanes) + threadIdx.x / kCopyLanes; i < batch.count; i += at_once)
        f(i);
}

/// Fetches all frames.
MILLRACE_DEVICE void gather_frames(const BatchView& batch) {
    for_each_copy(batch, [&](uint32_t i) { gather_frame(batch, i); });
}

/// Copies the head of packet `i` that goes back, in kCopyLanes threads.
MILLRACE_DEVICE void pack_head(const BatchView& batch, uint32_t i) {
    constexpr uint32_t kWord = sizeof(uint4);
    const uint8_t* from = batch.frames + batch.results[i].offset;
    uint8_t* to = batch.prefixes + static_cast<uint64_t>(i) * batch.prefix_bytes;
    if (((reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to) | batch.prefix_bytes) & (kWord - 1)) !=
        0) {
        pack_packet(batch, i, Lanes<kCopyLanes>{});
        return;
    }
    // The last word may reach behind what was brought: into the room of its own frame.
    const uint32_t words = (smaller(batch.prefix_bytes, static_cast<uint32_t>(batch.descriptors[i].present)) + kWord -
                            1) /
                           kWord;
    for (uint32_t k = threadIdx.x % kCopyLanes; k < words; k += kCopyLanes)
        reinterpret_cast<uint4*>(to)[k] = reinterpret_cast<const uint4*>(from)[k];
}

/// Copies all heads.
MILLRACE_DEVICE void pack_heads(const BatchView& batch) {
    for_each_copy(batch, [&](uint32_t i) { pack_head(batch, i); });
}

}  // namespace millrace::device

#endif
