// State per key, as device code sees it: a hash table whose buckets are each one packet's at a time, in order of
// arrival.
//
// A key's bucket is its order key (nf/nf.hpp). So whoever has a packet has its bucket to itself: finding, creating,
// ageing and evicting need no atomics, on a GPU neither. Different buckets are worked on at the same time.
#pragma once

#include "millrace/packet/bytes.hpp"
#include "millrace/packet/counter.hpp"
#include "millrace/packet/decision.hpp"
#include "millrace/packet/packet.hpp"
#include "millrace/packet/view.hpp"

#if !MILLRACE_GPU  // which those say
#include <concepts>
#endif

namespace millrace::nf {

/// What a packet asks of the state.
enum class Lookup : uint32_t {
    none,    ///< it has no key
    find,    ///< the entry of its key, if there is one
    create,  ///< a new one where there is none
};

/// What becomes of a new key whose bucket is full.
enum class WhenFull : uint32_t {
    refuse,  ///< it gets no entry
    evict,   ///< it takes the place of the entry that would have timed out first
};

/// How an entry came to its end.
enum class Ended : uint32_t {
    expired,  ///< it has timed out
    evicted,  ///< another key takes its place
    swept,    ///< it has timed out; nothing comes in its place, so it may stay for the next sweep
};

/// What is counted of a table; `cursor` is where the next sweep goes on.
enum class KeyedCount : uint32_t { created, expired, removed, evicted, refused, cursor, count };

/// The state of a packet's key, while the packet is decided on.
template <class T>
class KeyedEntry {
public:
    KeyedEntry() = default;
    /// `before`: the deadline that it had before this packet.
    MILLRACE_DEVICE KeyedEntry(T* value, uint64_t* deadline, uint64_t before, uint64_t now, bool is_new, bool refused)
        : value_(value), deadline_(deadline), before_(before), now_(now), is_new_(is_new), refused_(refused) {}

    /// Whether there is an entry.
    MILLRACE_DEVICE explicit operator bool() const { return value_ != nullptr; }
    MILLRACE_DEVICE T& operator*() const { return *value_; }
    MILLRACE_DEVICE T* operator->() const { return value_; }
    /// This packet is the first one: the value is `T{}`.
    MILLRACE_DEVICE bool is_new() const { return is_new_; }
    /// There is none because the table is full.
    MILLRACE_DEVICE bool refused() const { return refused_; }
    /// Lets it time out that long after this packet, in place of the table's time-out.
    MILLRACE_DEVICE void expire_after(uint64_t ns) const { *deadline_ = later(now_, ns); }
    /// Lets it time out when it would have without this packet.
    MILLRACE_DEVICE void do_not_count() const { *deadline_ = before_; }
    /// Lets it end with this packet.
    MILLRACE_DEVICE void remove() const { *deadline_ = kRemoved; }

    static constexpr uint64_t kRemoved = 0;  ///< a deadline
    MILLRACE_DEVICE static uint64_t later(uint64_t now, uint64_t ns) {
        const uint64_t end = now + ns;
        return end < now ? ~uint64_t{0} : larger<uint64_t>(end, 1);
    }

private:
    T* value_ = nullptr;
    uint64_t* deadline_ = nullptr;
    uint64_t before_ = 0, now_ = 0;
    bool is_new_ = false, refused_ = false;
};

/// A member `state` of an NF's Tables. `K` and `T` are plain: device code copies them. A key has no padding, and a
/// multiple of four bytes.
template <class K, class T>
struct KeyedState {
    using Key = K;
    using Value = T;
    static_assert(sizeof(K) % 4 == 0 && alignof(K) >= 4 && sizeof(T) % 4 == 0,
                  "keys and values are made of words of four bytes");
    static constexpr uint32_t kWays = 16;  ///< entries of a bucket

    // By bucket and way.
    MutableView<uint32_t> tags;       ///< bits of the key's hash, never 0; 0: the place is free
    MutableView<uint64_t> deadlines;  ///< of entries: they have timed out when a packet is later
    MutableView<K> keys;
    MutableView<T> values;
    MutableView<uint64_t> counts;  ///< by KeyedCount
    uint64_t timeout_ns = 0;       ///< from the last packet with the key
    uint64_t seed = 0;             ///< of the hash, so that nobody else can tell which keys share a bucket
    uint32_t buckets = 0;          ///< a power of two
    WhenFull when_full = WhenFull::refuse;

    MILLRACE_DEVICE uint64_t hash(const K& key) const {
        uint64_t h = seed ^ sizeof(K);
        for (uint32_t i = 0; i < kKeyWords; ++i) {
            h = (h ^ word(key, i)) * 0xff51afd7ed558ccdull;
            h ^= h >> 32;
        }
        h *= 0xc4ceb9fe1a85ec53ull;
        return h ^ h >> 29;
    }
    MILLRACE_DEVICE static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash) | 1; }
    MILLRACE_DEVICE uint32_t bucket(const K& key) const {
        const uint32_t at = static_cast<uint32_t>(hash(key) >> 32) & (buckets - 1);
#if !MILLRACE_GPU
        __builtin_prefetch(tags.data() + uint64_t{at} * kWays);
#endif
        return at;
    }

    /// The entry of `key` for a packet that came at `now`, which has the bucket to itself. `ended(key, value, how)` is
    /// called before another entry's end, or that of the same key's before.
    template <class OnEnd>
    MILLRACE_DEVICE KeyedEntry<T> find(const K& key, uint64_t now, Lookup lookup, OnEnd&& ended) const {
        const uint64_t h = hash(key);
        const uint64_t first = uint64_t{static_cast<uint32_t>(h >> 32) & (buckets - 1)} * kWays;
        const uint32_t tag = tag_of(h);
        const uint32_t way = way_of(first, tag, key);
        const uint64_t at = first + way;
        if (way != kWays && deadlines[at] >= now) {
            const uint64_t before = deadlines[at];
            deadlines[at] = KeyedEntry<T>::later(now, timeout_ns);
            return {&values[at], &deadlines[at], before, now, false, false};
        }
        if (way != kWays) {
            ended(keys[at], values[at], Ended::expired);
            tags[at] = 0;
            count(KeyedCount::expired);
        }
        if (lookup != Lookup::create) return {};
        return create(first, tag, key, now, ended);
    }

    /// The next `n` buckets that are to be swept: from this one on, round and round.
    MILLRACE_DEVICE uint32_t claim(uint32_t n) const {
        return static_cast<uint32_t>(add(KeyedCount::cursor, n)) & (buckets - 1);
    }
    /// How long an entry that has timed out is left alone: packets may be late.
    static constexpr uint64_t kGraceNs = 1'000'000'000;
    /// Frees the bucket's entries that have been timed out for kGraceNs at `now`, where `ended` lets it.
    template <class OnEnd>
    MILLRACE_DEVICE void sweep(uint32_t bucket, uint64_t now, OnEnd&& ended) const {
        for (uint64_t at = uint64_t{bucket & (buckets - 1)} * kWays, end = at + kWays; at < end; ++at) {
            if (tags[at] == 0 || deadlines[at] >= now || now - deadlines[at] < kGraceNs) continue;
            if (!ended(keys[at], values[at], Ended::swept)) continue;
            tags[at] = 0;
            count(KeyedCount::expired);
        }
    }

    /// Behind the packet: frees the entry if it was to end.
    MILLRACE_DEVICE void settle(const KeyedEntry<T>& entry) const {
        if (!entry) return;
        const auto at = static_cast<uint64_t>(&*entry - values.data());
        if (deadlines[at] != KeyedEntry<T>::kRemoved) return;
        tags[at] = 0;
        count(KeyedCount::removed);
    }

    /// How much it was before.
    MILLRACE_DEVICE uint64_t add(KeyedCount what, uint32_t n) const {
        return add_atomically(counts[static_cast<uint32_t>(what)], n);
    }
    MILLRACE_DEVICE void count(KeyedCount what) const { add(what, 1); }

    // --- what the framework calls ---
    /// The order key of a packet of `Nf`, which has this state: its bucket.
    template <class Nf>
    MILLRACE_DEVICE static uint32_t bucket_of(const Packet& packet, const typename Nf::Tables& tables) {
        K key{};
        return Nf::key(packet, tables, key) == Lookup::none ? kNoOrderKey : tables.state.bucket(key);
    }
    /// Decides on a packet of `Nf` that has its bucket to itself.
    template <class Nf>
    MILLRACE_DEVICE static Decision decide(Packet& packet, const typename Nf::Tables& tables) {
        K key{};
        const Lookup lookup = Nf::key(packet, tables, key);
        if (lookup == Lookup::none) return Nf::process(packet, tables, KeyedEntry<T>{});
        const KeyedEntry<T> entry = tables.state.find(key, packet.time_ns(), lookup, OnEndOf<Nf>{packet, tables});
        const Decision decision = Nf::process(packet, tables, entry);
        tables.state.settle(entry);
        return decision;
    }
    /// Ends a packet of `Nf`, which decides in `commit`, where it has its bucket to itself.
    template <class Nf>
    MILLRACE_DEVICE static Decision commit(Packet& packet, const typename Nf::Tables& tables, Decision decision) {
        K key{};
        const Lookup lookup = Nf::key(packet, tables, key);
        if (lookup == Lookup::none) return Nf::commit(packet, tables, decision, KeyedEntry<T>{});
        const KeyedEntry<T> entry = tables.state.find(key, packet.time_ns(), lookup, OnEndOf<Nf>{packet, tables});
        decision = Nf::commit(packet, tables, decision, entry);
        tables.state.settle(entry);
        return decision;
    }
    /// `sweep` for an `Nf` that has this state. `teller` takes what is told of entries that end.
    template <class Nf>
    MILLRACE_DEVICE static void sweep_of(Packet& teller, const typename Nf::Tables& tables, uint32_t bucket,
                                         uint64_t now) {
        tables.state.sweep(bucket, now, OnEndOf<Nf>{teller, tables});
    }

private:
    /// Calls `Nf::ended`, where there is one.
    template <class Nf>
    struct OnEndOf {
        Packet& teller;
        const typename Nf::Tables& tables;
        MILLRACE_DEVICE bool operator()(const K& key, const T& value, Ended how) const {
            if constexpr (requires { Nf::ended(teller, tables, key, value, how); })
                return Nf::ended(teller, tables, key, value, how);
            return true;
        }
    };
    MILLRACE_DEVICE uint32_t way_of(uint64_t first, uint32_t tag, const K& key) const {
        for (uint32_t way = 0; way < kWays; ++way)
            if (tags[first + way] == tag && same(keys[first + way], key)) return way;
        return kWays;
    }
    static constexpr uint32_t kKeyWords = sizeof(K) / 4;
    MILLRACE_DEVICE static uint32_t word(const K& key, uint32_t i) {
#if MILLRACE_GPU
        return reinterpret_cast<const uint32_t*>(&key)[i];
#else
        return load_raw<uint32_t>(reinterpret_cast<const uint8_t*>(&key) + 4 * i);
#endif
    }
    MILLRACE_DEVICE static bool same(const K& a, const K& b) {
        uint32_t differs = 0;
        for (uint32_t i = 0; i < kKeyWords; ++i) differs |= word(a, i) ^ word(b, i);
        return differs == 0;
    }
    /// Where a new entry goes: a free place, else that of the entry which would have timed out first, if it has or may
    /// be evicted.
    template <class OnEnd>
    MILLRACE_DEVICE KeyedEntry<T> create(uint64_t first, uint32_t tag, const K& key, uint64_t now,
                                         OnEnd&& ended) const {
        uint64_t at = first;
        bool free = false;
        for (uint64_t way = first; way < first + kWays && !free; ++way) {
            free = tags[way] == 0;
            if (free || deadlines[way] < deadlines[at]) at = way;
        }
        if (!free && deadlines[at] >= now && when_full == WhenFull::refuse) {
            count(KeyedCount::refused);
            return {nullptr, nullptr, 0, now, false, true};
        }
        if (!free) {
            const bool expired = deadlines[at] < now;
            ended(keys[at], values[at], expired ? Ended::expired : Ended::evicted);
            count(expired ? KeyedCount::expired : KeyedCount::evicted);
        }
        tags[at] = tag;
        keys[at] = key;
        values[at] = T{};
        deadlines[at] = KeyedEntry<T>::later(now, timeout_ns);
        count(KeyedCount::created);
        return {&values[at], &deadlines[at], deadlines[at], now, true, false};
    }
};

#if !MILLRACE_GPU
namespace detail {
template <class Device>
concept HasKeyedState = requires { typename decltype(Device::Tables::state)::Key; };
template <class Device>
concept HasKeyedCommit = HasKeyedState<Device> &&
                         requires(Packet& packet, const typename Device::Tables& tables, Decision decision,
                                  KeyedEntry<typename decltype(Device::Tables::state)::Value> entry) {
                             { Device::commit(packet, tables, decision, entry) } -> std::same_as<Decision>;
                         };
}  // namespace detail
#endif

}  // namespace millrace::nf
