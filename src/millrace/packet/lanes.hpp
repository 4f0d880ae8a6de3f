// The lanes that share one packet: 1 to 32 threads of a warp on a GPU, a plain loop on the host.
//
// Device code is written as if one thread ran it. Where work can be spread, it hands a function to
// one of the calls below; everything outside of them is uniform: every lane computes the same values
// from the same inputs. Three rules follow:
//   - the `Packet` object and local variables belong to each lane; change them outside of the calls,
//     or take the calls' results;
//   - packet bytes and state are shared: write them only inside `once` or `for_each`;
//   - inside a call, no lane may read what another lane writes in the same call.
// On the host the same code runs with any number of lanes, one after the other, so that lane
// arithmetic (chunks, overlaps, tails) is tested without a GPU.
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace {

/// Most threads of a block that runs NFs.
inline constexpr uint32_t kMaxBlockThreads = 256;

#if MILLRACE_GPU
extern __shared__ __align__(16) uint32_t millrace_block_memory[];
/// What the threads of a block share, as large as the NF's `block_bytes`; it begins at a multiple of 16 bytes.
MILLRACE_DEVICE uint32_t* block_memory() { return millrace_block_memory; }
#endif

template <unsigned Count>
struct Lanes {
    static_assert(Count == 1 || Count == 2 || Count == 4 || Count == 8 || Count == 16 || Count == 32);
    /// How many lanes share the packet.
    static constexpr unsigned count = Count;

#if MILLRACE_GPU
    MILLRACE_DEVICE unsigned rank() const { return Count == 1 ? 0 : (threadIdx.x & (Count - 1)); }
    MILLRACE_DEVICE unsigned mask() const {
        if constexpr (Count == 32) {
            return 0xffffffffu;
        } else {
            return ((1u << Count) - 1u) << ((threadIdx.x & 31u) & ~(Count - 1u));
        }
    }
    /// Orders memory accesses of the lanes: what was written before is seen after.
    MILLRACE_DEVICE void sync() const {
        if constexpr (Count > 1) __syncwarp(mask());
    }

    /// Runs `f(i)` for i in [0, n), spread over the lanes; all is done, and visible, on return.
    template <class F>
    MILLRACE_DEVICE void for_each(uint32_t n, F&& f) const {
        sync();
        for (uint32_t i = rank(); i < n; i += Count) f(i);
        sync();
    }
    /// Runs `f()` in one lane; what it wrote to memory is visible to all on return.
    template <class F>
    MILLRACE_DEVICE void once(F&& f) const {
        sync();
        if (rank() == 0) f();
        sync();
    }
    /// The smallest of `f(i)` for i in [0, n), 0xffffffff when n is 0.
    template <class F>
    MILLRACE_DEVICE uint32_t minimum(uint32_t n, F&& f) const {
        uint32_t best = 0xffffffffu;
        for (uint32_t i = rank(); i < n; i += Count) best = smaller(best, static_cast<uint32_t>(f(i)));
        if constexpr (Count > 1) {
            for (unsigned step = Count / 2; step > 0; step /= 2)
                best = smaller(best, __shfl_xor_sync(mask(), best, step, Count));
        }
        return best;
    }
    /// The sum of `f(i)` for i in [0, n), modulo 2^32.
    template <class F>
    MILLRACE_DEVICE uint32_t sum(uint32_t n, F&& f) const {
        uint32_t total = 0;
        for (uint32_t i = rank(); i < n; i += Count) total += static_cast<uint32_t>(f(i));
        if constexpr (Count > 1) {
            for (unsigned step = Count / 2; step > 0; step /= 2) total += __shfl_xor_sync(mask(), total, step, Count);
        }
        return total;
    }
    /// Whether `f(i)` holds for any i in [0, n).
    template <class F>
    MILLRACE_DEVICE bool any(uint32_t n, F&& f) const {
        bool found = false;
        for (uint32_t i = rank(); i < n && !found; i += Count) found = f(i);
        if constexpr (Count > 1) found = __any_sync(mask(), found);
        return found;
    }
    /// Calls `f(lane, place)` in each lane for which `holds(lane)` does, these numbered from 0 on: how many they are.
    template <class Holds, class F>
    MILLRACE_DEVICE uint32_t number(Holds&& holds, F&& f) const {
        const bool own = holds(rank());
        uint32_t those = own;
        if constexpr (Count > 1) those = __ballot_sync(mask(), own) >> ((threadIdx.x & 31u) & ~(Count - 1u));
        if constexpr (Count < 32) those &= (1u << Count) - 1;
        if (own) f(rank(), static_cast<uint32_t>(__popc(those & ((1u << rank()) - 1))));
        sync();
        return static_cast<uint32_t>(__popc(those));
    }
#else
    void sync() const {}

    template <class F>
    MILLRACE_DEVICE void for_each(uint32_t n, F&& f) const {
        // Lane by lane, as no order between the lanes may be relied upon.
        for (uint32_t lane = 0; lane < Count; ++lane)
            for (uint32_t i = lane; i < n; i += Count) f(i);
    }
    template <class F>
    MILLRACE_DEVICE void once(F&& f) const {
        f();
    }
    template <class F>
    MILLRACE_DEVICE uint32_t minimum(uint32_t n, F&& f) const {
        uint32_t best = 0xffffffffu;
        for (uint32_t i = 0; i < n; ++i) best = smaller(best, static_cast<uint32_t>(f(i)));
        return best;
    }
    template <class F>
    MILLRACE_DEVICE uint32_t sum(uint32_t n, F&& f) const {
        uint32_t total = 0;
        for (uint32_t i = 0; i < n; ++i) total += static_cast<uint32_t>(f(i));
        return total;
    }
    template <class F>
    MILLRACE_DEVICE bool any(uint32_t n, F&& f) const {
        for (uint32_t i = 0; i < n; ++i)
            if (f(i)) return true;
        return false;
    }
    template <class Holds, class F>
    MILLRACE_DEVICE uint32_t number(Holds&& holds, F&& f) const {
        uint32_t place = 0;
        for (uint32_t lane = 0; lane < Count; ++lane)
            if (holds(lane)) f(lane, place++);
        return place;
    }
#endif
};

/// One `T` for each lane, kept from one call to the next: `values.of(i)` inside
/// `lanes.for_each(Lanes::count, [&](uint32_t i) {…})`, where each lane gets its own `i` and no other.
/// On a GPU it is the lane's own registers; on the host an array.
template <class T, class Lanes>
class PerLane {
public:
    MILLRACE_DEVICE T& of([[maybe_unused]] uint32_t lane) {
#if MILLRACE_GPU
        return value_;
#else
        return values_[lane];
#endif
    }

private:
#if MILLRACE_GPU
    T value_{};
#else
    T values_[Lanes::count]{};
#endif
};

}  // namespace millrace
