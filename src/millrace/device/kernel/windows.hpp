// Functions of tenants, in a chain that goes through a device in one piece: packets of a batch go into the window of
// one function, through it and out again, and on to the next one's, without the host. Included by the generated source
// only.
#pragma once

#include "millrace/device/kernel/chain.hpp"
#include "millrace/device/kernel/confined.hpp"
#include "millrace/device/kernel/copy.hpp"

namespace millrace::device {

/// Where a function has a batch of its chain in its window. In the device's memory, but not in the window.
struct ConfinedPlace {
    uint64_t handles = 0;   ///< address in the window: of each packet a handle, and its frame behind it
    uint64_t tables = 0;    ///< address in the window: of the function's tables
    uint32_t stride = 0;    ///< from one handle to the next; a multiple of 16
    uint32_t room = 0;      ///< bytes that each has for its frame, besides kConfinedShift
    uint32_t outcomes = 0;  ///< that the function's type has; others are wrong
    uint32_t absent = 0;    ///< the outcome in the chain of packets that it has not decided on
    uint32_t for_wrong = 0, for_too_long = 0;  ///< details of that one
    static constexpr size_t kMaxOutcomes = 64;
    uint8_t to_chain[kMaxOutcomes] = {};  ///< by the type's outcome: the chain's
};

/// A frame begins up to so many bytes behind its place in the window, as far from a multiple of 8 as it does elsewhere:
/// it is copied in words.
inline constexpr uint32_t kConfinedShift = 8;

/// Where the functions of a step (Step::Kind::confined) have a batch, and which of its packets they get. By value.
struct ConfinedWindows {
    ConfinedPlace* places[kMaxStages] = {};  ///< by function
    uint32_t first = 0, end = 0;             ///< the packets [first, end) of the batch
};

/// What a batch's counters (BatchView::outcome_counts) have of a tenant's node, behind the outcome `absent`.
enum class ConfinedCount : uint32_t {
    wrong = 1,  ///< packets of which it said what it may not say
    longest,    ///< the longest that any packet was in its window, in kConfinedTickNs
};
inline constexpr uint32_t kConfinedCounts = 2;
inline constexpr uint32_t kConfinedTickNs = 1024;

#if MILLRACE_GPU

namespace detail {

/// Bytes of a frame in pieces of 64, a bit each.
inline constexpr uint32_t kPieceBytes = 64;

/// Which bytes of a piece lie in declared fields. Frame bytes count from `shift` on, and the piece begins at `from`.
template <uint32_t Declared>
MILLRACE_DEVICE uint64_t declared_bytes(uint32_t length, const Layers& layers, uint32_t shift, uint32_t from) {
    uint64_t bits = 0;
    for_each_declared(length, layers, Fields{Declared}, [&](uint32_t at, uint32_t bytes) {
        at += shift;
        const uint32_t first = at > from ? at - from : 0;
        const uint32_t end = at + bytes > from ? smaller(at + bytes - from, kPieceBytes) : 0;
        if (first < end) bits |= (~uint64_t{0} >> (kPieceBytes - (end - first))) << first;
    });
    return bits;
}
/// 0xff in each byte of a word whose bit is set, of the lowest four.
MILLRACE_DEVICE uint32_t byte_mask(uint32_t bits) { return ((bits & 15) * 0x00204081u & 0x01010101u) * 255u; }

/// So many bytes of a frame's front have all that lies in declared fields.
template <uint32_t Declared>
MILLRACE_DEVICE uint32_t declared_extent(uint32_t length, const Layers& layers) {
    uint32_t end = 0;
    for_each_declared(length, layers, Fields{Declared}, [&](uint32_t at, uint32_t bytes) {
        if (at + bytes > end) end = at + bytes;
    });
    return end;
}

/// The first `extent` bytes of a frame into the window, 0 in place of what was not declared. Both lie `shift` behind a
/// multiple of 8. Whole words are written, as the function may read such.
template <uint32_t Declared>
MILLRACE_DEVICE void copy_in(const uint8_t* whole, uint8_t* frame, uint32_t length, uint32_t extent,
                             const Layers& layers, uint32_t shift) {
    const auto* from = reinterpret_cast<const uint2*>(whole - shift);
    auto* to = reinterpret_cast<uint2*>(frame - shift);
    const uint32_t end = shift + extent;
#pragma unroll 1
    for (uint32_t piece = 0; piece < end; piece += kPieceBytes) {
        const uint64_t bits = declared_bytes<Declared>(length, layers, shift, piece);
#pragma unroll
        for (uint32_t k = 0; k < kPieceBytes / 8; ++k) {
            if (piece + 8 * k >= end) break;
            const auto own = static_cast<uint32_t>(bits >> 8 * k) & 255;
            uint2 word = own != 0 ? from[piece / 8 + k] : make_uint2(0, 0);
            word.x &= byte_mask(own);
            word.y &= byte_mask(own >> 4);
            to[piece / 8 + k] = word;
        }
    }
}

/// Writes those bytes of a word whose bits are set.
MILLRACE_DEVICE void store_bytes(uint8_t* to, uint32_t word, uint32_t bits) {
    if (bits == 15) {
        *reinterpret_cast<uint32_t*>(to) = word;
        return;
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i)
        if (bits >> i & 1) to[i] = static_cast<uint8_t>(word >> 8 * i);
}

/// Declared fields out of the window: no other byte of the frame is written.
template <uint32_t Declared>
MILLRACE_DEVICE void copy_out(const uint8_t* frame, uint8_t* whole, uint32_t length, uint32_t extent,
                              const Layers& layers, uint32_t shift) {
    if constexpr (Declared != 0) {
        const auto* from = reinterpret_cast<const uint2*>(frame - shift);
        const uint32_t end = shift + extent;
#pragma unroll 1
        for (uint32_t piece = 0; piece < end; piece += kPieceBytes) {
            const uint64_t bits = declared_bytes<Declared>(length, layers, shift, piece);
#pragma unroll
            for (uint32_t k = 0; k < kPieceBytes / 8; ++k) {
                const auto own = static_cast<uint32_t>(bits >> 8 * k) & 255;
                if (own == 0) continue;
                const uint2 word = from[piece / 8 + k];
                uint8_t* const to = whole - shift + piece + 8 * k;
                store_bytes(to, word.x, own & 15);
                store_bytes(to + 4, word.y, own >> 4);
            }
        }
    }
}

/// Packet `i`, which waits for the function, through its window, in the place of its `k`th: what it may see goes there,
/// and what it may change comes back, where it said what it may say. Neither an address nor a length of the window is
/// followed.
template <uint32_t Sees, uint32_t Changes, class Function>
MILLRACE_DEVICE void through_window(const BatchView& batch, uint32_t* counts, const StageNodes& own, uint32_t i,
                                    const ConfinedPlace& place, uint32_t k, Function&& function) {
    const Packet& packet = batch.packets[i];
    const uint32_t node = batch.at[i], length = packet.length();
    const Layers layers = packet.layers();
    const uint32_t extent = declared_extent<Sees>(length, layers);
    if (extent > smaller(place.room, packet.present()))
        return route_packet(batch, counts, i, own, node, {place.for_too_long, place.absent});
    uint8_t* const whole = packet.data();
    const auto shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(whole) % kConfinedShift);
    uint8_t* const at = reinterpret_cast<uint8_t*>(place.handles + uint64_t{k} * place.stride);
    uint8_t* const frame = at + kConfinedHandleBytes + shift;
    copy_in<Sees>(whole, frame, length, extent, layers, shift);
    *reinterpret_cast<Packet*>(at) = handle_at(frame, extent,
                                               {batch.times != nullptr ? batch.times[i] : 0, length, layers}, k);
    // A Decision, of which the detail, in the lower half, is nobody's business.
    const auto outcome = static_cast<uint32_t>(function(at, reinterpret_cast<const void*>(place.tables)) >> 32);
    if (outcome >= place.outcomes || reinterpret_cast<const Packet*>(at)->out_port() != kNoPort) {
        atomicAdd(&counts[node * own.counters + place.absent + static_cast<uint32_t>(ConfinedCount::wrong)], 1u);
        return route_packet(batch, counts, i, own, node, {place.for_wrong, place.absent});
    }
    copy_out<Changes>(frame, whole, length, extent, layers, shift);
    route_packet(batch, counts, i, own, node, {kNoDetail, place.to_chain[outcome]});
}

MILLRACE_DEVICE uint64_t device_time_ns() {
    uint64_t time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}

}  // namespace detail

/// The packet of a thread, on its way through the windows of a step.
class ConfinedPacket {
public:
    MILLRACE_DEVICE ConfinedPacket(const BatchView& batch, const ConfinedWindows& windows)
        : batch_(batch), windows_(windows), k_(blockIdx.x * blockDim.x + threadIdx.x), i_(windows.first + k_),
          there_(i_ < windows.end) {}

    /// Where the step begins. As begin_packet; frames that are staged are scattered before.
    MILLRACE_DEVICE void begin(uint32_t stages, bool parses, uint32_t inner) const {
        if (batch_.staged) {
            const uint32_t first = windows_.first + blockIdx.x * blockDim.x;
            const uint32_t end = smaller(first + blockDim.x, windows_.end);
            for (uint32_t i = first + threadIdx.x / kCopyLanes; i < end; i += blockDim.x / kCopyLanes)
                gather_frame(batch_, i);
            __syncthreads();
        }
        if (there_) begin_packet(batch_, i_, stages, parses, inner);
    }
    /// Through the window of the step's `number`th function, if it waits for that: the function sees the one fields,
    /// and changes the others. `function(handle, tables)` calls it.
    template <uint32_t Sees, uint32_t Changes, class Function>
    MILLRACE_DEVICE void pass(uint32_t* counts, const StageNodes& own, uint32_t number, Function&& function) const {
        const ConfinedPlace& place = *windows_.places[number];
        uint32_t took = 0;
        // Nobody's time begins before the whole warp is back from the function before: it would be blamed for that one.
        __syncwarp();
        if (there_ && own.has(batch_.at[i_])) {
            const uint64_t entered = detail::device_time_ns();
            detail::through_window<Sees, Changes>(batch_, counts, own, i_, place, k_, function);
            took = static_cast<uint32_t>((detail::device_time_ns() - entered + kConfinedTickNs - 1) / kConfinedTickNs);
        }
        for (uint32_t by = 16; by > 0; by /= 2) {
            const uint32_t other = __shfl_xor_sync(0xffffffffu, took, by);
            if (other > took) took = other;
        }
        const uint32_t counter = own.first * own.counters + place.absent +
                                 static_cast<uint32_t>(ConfinedCount::longest);
        if (threadIdx.x % 32 == 0 && took > 0) atomicMax(&batch_.outcome_counts[counter], took);
    }
    /// Where the step ends.
    MILLRACE_DEVICE void end() const {
        if (there_) end_packet(batch_, i_);
    }

private:
    const BatchView& batch_;
    const ConfinedWindows& windows_;
    const uint32_t k_, i_;  // among those of the pass, and of the batch
    const bool there_;
};

#endif

}  // namespace millrace::device
