// Functions of tenants, in a chain that goes through a device in one piece: packets of a batch go into the window of
// one function, through it and out again, and on to the next one's, without the host. Included by the generated source
// only.
#pragma once

#include "millrace/device/kernel/chain.hpp"
#include "millrace/device/kernel/confined.hpp"

namespace millrace::device {

/// Where a function has a batch of its chain in its window. In the device's memory, but not in the window.
struct ConfinedPlace {
    uint64_t handles = 0;            ///< address in the window: of each packet a handle, and its frame behind it
    uint64_t tables = 0;             ///< address in the window: of the function's tables
    uint32_t stride = 0;             ///< from one handle to the next
    uint32_t room = 0;               ///< bytes that each has for its frame
    uint32_t sees = 0, changes = 0;  ///< Fields::bits
    uint32_t outcomes = 0;           ///< that the function's type has; others are wrong
    uint32_t absent = 0;             ///< the outcome in the chain of packets that it has not decided on
    uint32_t for_wrong = 0, for_too_long = 0;  ///< details of that one
    uint64_t begun = 0;                        ///< when the batch entered: detail::BatchTime
    uint64_t* took_ns = nullptr;               ///< how long it was there; in the host's memory
    static constexpr size_t kMaxOutcomes = 64;
    uint8_t to_chain[kMaxOutcomes] = {};  ///< by the type's outcome: the chain's
};

/// Where the functions of a step (Step::Kind::confined) have a batch, and which of its packets they get. By value.
struct ConfinedWindows {
    ConfinedPlace* places[kMaxStages] = {};  ///< by function
    uint32_t first = 0, count = 0;
    uint32_t run = 0;  ///< another number than that of the batches before it
};

#if MILLRACE_GPU

namespace detail {

/// When a batch began in a window, in 48 bits of the device's clock in ns, and which batch it was, in the 16 above.
class BatchTime {
public:
    MILLRACE_DEVICE static uint64_t now() {
        uint64_t time;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
        return time & kTime;
    }
    MILLRACE_DEVICE static uint64_t of(uint32_t run, uint64_t time) {
        return static_cast<uint64_t>(run & 0xffffu) << 48 | time;
    }
    /// From `begun` to `end`. Where that is another batch's, its own has not begun: it began with `entered`.
    MILLRACE_DEVICE static uint64_t between(uint64_t begun, uint32_t run, uint64_t entered, uint64_t end) {
        const uint64_t from = begun >> 48 == (run & 0xffffu) ? begun & kTime : entered;
        return (end - from) & kTime;
    }

private:
    static constexpr uint64_t kTime = (uint64_t{1} << 48) - 1;
};

/// So many bytes of a frame's front have all that lies in the declared fields.
MILLRACE_DEVICE uint32_t declared_extent(const Packet& packet, uint32_t fields) {
    uint32_t end = 0;
    for_each_declared(packet.length(), packet.layers(), Fields{fields}, [&](uint32_t at, uint32_t bytes) {
        if (at + bytes > end) end = at + bytes;
    });
    return end;
}

/// Packet `i`, which waits for the function, through its window: what it may see goes there, and what it may change
/// comes back, where it said what it may say. Neither an address nor a length of the window is followed.
template <class Function>
MILLRACE_DEVICE void through_window(const BatchView& batch, uint32_t* counts, const StageNodes& own, uint32_t i,
                                    const ConfinedPlace& place, uint32_t k, Function&& function) {
    const Packet& packet = batch.packets[i];
    const uint32_t node = batch.at[i], extent = declared_extent(packet, place.sees);
    if (extent > place.room) return route_packet(batch, counts, i, own, node, {place.for_too_long, place.absent});
    uint8_t* const at = reinterpret_cast<uint8_t*>(place.handles + uint64_t{k} * place.stride);
    uint8_t *const frame = at + kConfinedHandleBytes, *const whole = packet.data();
    // The function may read words: what lies beside its fields within one is 0, too.
    for (uint32_t word = 0; word < (extent + 3) / 4; ++word) reinterpret_cast<uint32_t*>(frame)[word] = 0;
    for_each_declared(packet.length(), packet.layers(), Fields{place.sees}, [&](uint32_t first, uint32_t bytes) {
        for (uint32_t b = 0; b < bytes; ++b) frame[first + b] = whole[first + b];
    });
    const About about{batch.times != nullptr ? batch.times[i] : 0, packet.length(), packet.layers()};
    *reinterpret_cast<Packet*>(at) = handle_at(frame, extent, about, k);
    // A Decision, of which the detail, in the lower half, is nobody's business.
    const auto outcome = static_cast<uint32_t>(function(at, reinterpret_cast<const void*>(place.tables)) >> 32);
    if (outcome >= place.outcomes || reinterpret_cast<const Packet*>(at)->out_port() != kNoPort) {
        // The host finds how many they are behind the outcomes that the chain has.
        atomicAdd(&counts[node * own.counters + place.absent + 1], 1u);
        return route_packet(batch, counts, i, own, node, {place.for_wrong, place.absent});
    }
    for_each_declared(packet.length(), packet.layers(), Fields{place.changes}, [&](uint32_t first, uint32_t bytes) {
        for (uint32_t b = 0; b < bytes; ++b) whole[first + b] = frame[first + b];
    });
    route_packet(batch, counts, i, own, node, {kNoDetail, place.to_chain[outcome]});
}

}  // namespace detail

/// Takes the thread's packet through the window of the step's `number`th function, if it waits for that.
/// `function(handle, tables)` calls it.
template <class Function>
MILLRACE_DEVICE void pass_window(const BatchView& batch, uint32_t* counts, const StageNodes& own,
                                 const ConfinedWindows& windows, uint32_t number, Function&& function) {
    const uint32_t k = blockIdx.x * blockDim.x + threadIdx.x, i = windows.first + k;
    if (k >= windows.count) return;
    ConfinedPlace& place = *windows.places[number];
    const bool is_last = i + 1 == batch.count;
    uint64_t entered = 0;
    if (i == 0 || is_last) entered = detail::BatchTime::now();
    if (i == 0) *const_cast<volatile uint64_t*>(&place.begun) = detail::BatchTime::of(windows.run, entered);
    if (own.has(batch.at[i])) detail::through_window(batch, counts, own, i, place, k, function);
    if (is_last)
        *place.took_ns = detail::BatchTime::between(*const_cast<const volatile uint64_t*>(&place.begun), windows.run,
                                                    entered, detail::BatchTime::now());
}

#endif

}  // namespace millrace::device
