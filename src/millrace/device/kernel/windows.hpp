// The steps on both sides of a tenant's function, in a chain that goes through a device in one piece: packets of a
// batch go into its window, and out of it, without the host. Included by the generated source only.
#pragma once

#include "millrace/device/kernel/chain.hpp"
#include "millrace/device/kernel/confined.hpp"

namespace millrace::device {

/// Where a function has a batch of its chain in its window. In the device's memory, but not in the window.
struct ConfinedPlace {
    uint64_t handles = 0;            ///< address in the window: of each packet a handle, and its frame behind it
    uint64_t decisions = 0;          ///< address in the window
    uint32_t stride = 0;             ///< from one handle to the next
    uint32_t room = 0;               ///< bytes that each has for its frame
    uint32_t sees = 0, changes = 0;  ///< Fields::bits
    uint32_t outcomes = 0;           ///< that the function's type has; others are wrong
    uint32_t absent = 0;             ///< the outcome in the chain of packets that it has not decided on
    uint32_t for_wrong = 0, for_too_long = 0;  ///< details of that one
    uint64_t begun_ns = 0;                     ///< when the batch entered
    uint64_t* took_ns = nullptr;               ///< how long it was there; in the host's memory
    static constexpr size_t kMaxOutcomes = 64;
    uint8_t to_chain[kMaxOutcomes] = {};  ///< by the type's outcome: the chain's
};

#if MILLRACE_GPU

namespace detail {

MILLRACE_DEVICE uint64_t device_time_ns() {
    uint64_t time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
}

/// So many bytes of a frame's front have all that lies in the declared fields.
MILLRACE_DEVICE uint32_t declared_extent(const Packet& packet, uint32_t fields) {
    uint32_t end = 0;
    for_each_declared(packet.length(), packet.layers(), Fields{fields}, [&](uint32_t at, uint32_t bytes) {
        if (at + bytes > end) end = at + bytes;
    });
    return end;
}

/// The thread's packet of a step on one side of a function, and its place there.
MILLRACE_DEVICE uint32_t place_of_thread() { return blockIdx.x * blockDim.x + threadIdx.x; }

}  // namespace detail

/// Brings the packets that wait for `node` into the window; in the places of others there are packets of no bytes.
MILLRACE_DEVICE void enter_windows(const BatchView& batch, uint32_t node) {
    const uint32_t k = detail::place_of_thread();
    ConfinedPlace& place = *batch.confined;
    if (k == 0 && batch.confined_first == 0) place.begun_ns = detail::device_time_ns();
    if (k >= batch.confined_count) return;
    const uint32_t i = batch.confined_first + k;
    uint8_t* const at = reinterpret_cast<uint8_t*>(place.handles + uint64_t{k} * place.stride);
    uint8_t* const frame = at + kConfinedHandleBytes;
    About about{};
    uint32_t extent = 0;
    if (batch.at[i] == node) {
        const Packet& packet = batch.packets[i];
        extent = detail::declared_extent(packet, place.sees);
        if (extent > place.room) {
            extent = 0;
        } else {
            about = {batch.times != nullptr ? batch.times[i] : 0, packet.length(), packet.layers()};
            // The function may read words: what lies beside its fields within one is 0, too.
            for (uint32_t word = 0; word < (extent + 3) / 4; ++word) reinterpret_cast<uint32_t*>(frame)[word] = 0;
            const uint8_t* const from = packet.data();
            for_each_declared(about.length, about.layers, Fields{place.sees}, [&](uint32_t first, uint32_t bytes) {
                for (uint32_t b = 0; b < bytes; ++b) frame[first + b] = from[first + b];
            });
        }
    }
    *reinterpret_cast<Packet*>(at) = handle_at(frame, extent, about, k);
}

/// Takes them out: what the function may change, where it said what it may say, and where that leads. Neither an
/// address nor a length of the window is followed.
MILLRACE_DEVICE void leave_windows(const BatchView& batch, uint32_t* counts, const StageNodes& own) {
    const uint32_t k = detail::place_of_thread();
    ConfinedPlace& place = *batch.confined;
    if (k == 0 && batch.confined_first + batch.confined_count == batch.count)
        *place.took_ns = detail::device_time_ns() - place.begun_ns;
    if (k >= batch.confined_count) return;
    const uint32_t i = batch.confined_first + k, node = batch.at[i];
    if (!own.has(node)) return;
    const Packet& packet = batch.packets[i];
    if (detail::declared_extent(packet, place.sees) > place.room)
        return route_packet(batch, counts, i, own, node, {place.for_too_long, place.absent});
    uint8_t* const at = reinterpret_cast<uint8_t*>(place.handles + uint64_t{k} * place.stride);
    // Read once: the function may be at work for another worker, and write anywhere in its window.
    const uint32_t outcome = reinterpret_cast<const volatile Decision*>(place.decisions)[k].outcome;
    if (outcome >= place.outcomes || reinterpret_cast<const Packet*>(at)->out_port() != kNoPort) {
        // The host finds how many they are behind the outcomes that the chain has.
        atomicAdd(&counts[node * own.counters + place.absent + 1], 1u);
        return route_packet(batch, counts, i, own, node, {place.for_wrong, place.absent});
    }
    const uint8_t* const frame = at + kConfinedHandleBytes;
    uint8_t* const to = packet.data();
    for_each_declared(packet.length(), packet.layers(), Fields{place.changes}, [&](uint32_t first, uint32_t bytes) {
        for (uint32_t b = 0; b < bytes; ++b) to[first + b] = frame[first + b];
    });
    route_packet(batch, counts, i, own, node, {kNoDetail, place.to_chain[outcome]});
}

#endif

}  // namespace millrace::device
