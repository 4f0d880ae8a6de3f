// A pool of decoders for all flows of a function (inflate.hpp): who needs one takes it while there is one.
#pragma once

#include "millrace/nf/nids/http/inflate.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::nids::http {

/// A decoder and whose it is. Packets of different flows may be looked at at once: whoever uses one has marked it so.
struct PooledDecoder {
    uint64_t owner;    ///< kBusy while it is used; 0: nobody's
    uint64_t used_ns;  ///< by the time of packets
    Inflate inflate;
};

/// The decoders, of which each is found by its number. A member of MessageMemory.
class DecoderPool {
public:
    static constexpr uint64_t kBusy = uint64_t{1} << 63;
    static constexpr uint32_t kNone = 0xffffffffu;
    static constexpr uint32_t kTries = 16;               ///< places that are looked at for a free one
    static constexpr uint64_t kIdleNs = 30'000'000'000;  ///< behind which it is another's for the taking

    MutableView<uint64_t> words;  ///< words_of(n)
    uint32_t count = 0;
    uint32_t reserved = 0;

    MILLRACE_DEVICE static constexpr uint64_t words_of(uint64_t decoders) {
        return decoders * (sizeof(PooledDecoder) / 8);
    }
    MILLRACE_DEVICE PooledDecoder& of(uint32_t i) const { return reinterpret_cast<PooledDecoder*>(words.data())[i]; }

    /// A decoder that is `owner`'s from now on, in use; kNone where there is none.
    MILLRACE_DEVICE_CALL uint32_t acquire(uint64_t owner, uint64_t now) const {
        const auto first = static_cast<uint32_t>((owner * 0x9e3779b97f4a7c15ull) >> 32);
        for (uint32_t i = 0; i < smaller(kTries, count); ++i) {
            const uint32_t at = (first + i) % count;
            PooledDecoder& decoder = of(at);
            const uint64_t had = load(&decoder.owner);
            const uint64_t used = load(&decoder.used_ns);
            if (had != 0 && ((had & kBusy) || now < used || now - used < kIdleNs)) continue;
            if (!exchange(&decoder.owner, had, owner | kBusy)) continue;
            decoder.inflate.begin();
            return at;
        }
        return kNone;
    }
    /// Begins to use decoder `i`: false where it has become another's.
    MILLRACE_DEVICE bool enter(uint32_t i, uint64_t owner) const {
        return exchange(&of(i).owner, owner, owner | kBusy);
    }
    /// Leaves it until the next packet.
    MILLRACE_DEVICE void leave(uint32_t i, uint64_t owner, uint64_t now) const {
        store(&of(i).used_ns, now);
        store(&of(i).owner, owner);
    }
    /// Gives it back, if it still is `owner`'s.
    MILLRACE_DEVICE void release(uint32_t i, uint64_t owner) const { exchange(&of(i).owner, owner, 0); }

private:
#if MILLRACE_GPU
    MILLRACE_DEVICE static uint64_t load(const uint64_t* at) { return *reinterpret_cast<const volatile uint64_t*>(at); }
    MILLRACE_DEVICE static void store(uint64_t* at, uint64_t value) {
        __threadfence();
        *reinterpret_cast<volatile uint64_t*>(at) = value;
    }
    MILLRACE_DEVICE static bool exchange(uint64_t* at, uint64_t had, uint64_t has) {
        const bool done = atomicCAS(reinterpret_cast<unsigned long long*>(at), had, has) == had;
        __threadfence();
        return done;
    }
#else
    static uint64_t load(const uint64_t* at) { return __atomic_load_n(at, __ATOMIC_ACQUIRE); }
    static void store(uint64_t* at, uint64_t value) { __atomic_store_n(at, value, __ATOMIC_RELEASE); }
    static bool exchange(uint64_t* at, uint64_t had, uint64_t has) {
        return __atomic_compare_exchange_n(at, &had, has, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
#endif
};
static_assert(sizeof(PooledDecoder) % 8 == 0);

}  // namespace millrace::nf::nids::http
