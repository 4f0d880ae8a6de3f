// State per key, as device code sees it: a hash table whose buckets are each one packet's at a time, in order of
// arrival.
//
// A key's bucket is its order key (nf/nf.hpp). So whoever has a packet has its bucket to itself: finding, creating,
// ageing and evicting need no atomics, on a GPU neither. Different buckets are worked on at the same time.
#pragma once

#include "millrace/nf/state/key_words.hpp"
#include "millrace/nf/state/keyed_entry.hpp"
#include "millrace/nf/state/keyed_function.hpp"
#include "millrace/packet/counter.hpp"
#include "millrace/packet/decision.hpp"
#include "millrace/packet/packet.hpp"
#include "millrace/packet/prefetch.hpp"
#include "millrace/packet/view.hpp"

#if !MILLRACE_GPU  // which those say
#include <concepts>
#endif

namespace millrace::nf {

#if !MILLRACE_GPU
namespace detail {
/// Where a worker counts, by KeyedCount, while it runs a burst; null: at the table (keyed_burst.hpp).
inline thread_local uint64_t* counts_of_burst = nullptr;
}  // namespace detail
#endif

/// Entries of a bucket.
inline constexpr uint32_t kKeyedWays = 16;
/// A member `state` of an NF's Tables. `K` and `T` are plain: device code copies them. A key has no padding, and a
/// multiple of four bytes.
template <class K, class T>
struct KeyedState {
    using Key = K;
    using Value = T;
    static_assert(sizeof(K) % 4 == 0 && alignof(K) >= 4 && sizeof(T) % 4 == 0,
                  "keys and values are made of words of four bytes");
    static constexpr uint32_t kWays = kKeyedWays;

    // By bucket and way.
    MutableView<uint32_t> tags;       ///< bits of the key's hash, never 0; 0: the place is free
    MutableView<uint64_t> deadlines;  ///< of entries: they have timed out when a packet is later
    /// An entry. What is read together lies together.
    struct alignas(16) Entry {
        K key;
        uint32_t changed;  ///< by which batch last, where packets are decided on ahead of sequence (ahead.hpp)
        T value;
    };
    static constexpr uint64_t kNoPlace = ~uint64_t{0};
    MutableView<Entry> entries;
    MutableView<uint64_t> counts;  ///< by KeyedCount
    uint64_t timeout_ns = 0;       ///< from the last packet with the key
    uint64_t seed = 0;             ///< of the hash, so that nobody else can tell which keys share a bucket
    uint32_t buckets = 0;          ///< a power of two
    WhenFull when_full = WhenFull::refuse;
    uint32_t journaled = 0;  ///< devices write down what must outlive them (journal.hpp)

    MILLRACE_DEVICE uint64_t hash(const K& key) const { return KeyWords<K>::hash(key, seed); }
    MILLRACE_DEVICE static uint32_t tag_of(uint64_t hash) { return static_cast<uint32_t>(hash) | 1; }
    /// Of a key's hash.
    MILLRACE_DEVICE uint32_t bucket_of(uint64_t hash) const {
        return static_cast<uint32_t>(hash >> 32) & (buckets - 1);
    }

    MILLRACE_DEVICE void prefetch_bucket(uint32_t bucket) const {
        prefetch(&tags[uint64_t{bucket} * kWays], kWays * sizeof(uint32_t));
    }
    /// Asks for what `find` will read of the key with this hash, as far as that can be told without having the bucket.
    MILLRACE_DEVICE void approach(uint64_t hash) const {
        const uint64_t first = uint64_t{bucket_of(hash)} * kWays;
        uint32_t ways = ways_with(first, tag_of(hash));
        if (ways == 0) ways = ways_with(first, 0);  // a new key's place
        if (ways == 0) return prefetch(&deadlines[first], kWays * sizeof(uint64_t));
        const uint64_t at = first + lowest(ways);
        prefetch(&deadlines[at], sizeof(uint64_t));
        prefetch(&entries[at], smaller<uint32_t>(sizeof(Entry), kAskedBytes));
    }

    /// The entry of `key` for a packet that came at `now`, which has the bucket to itself. `ended(key, value, how)` is
    /// called before another entry's end, or that of the same key's before.
    template <class OnEnd>
    MILLRACE_DEVICE KeyedEntry<T> find(const K& key, uint64_t hash, uint64_t now, Lookup lookup, OnEnd&& ended,
                                       const InBatch& in = {}) const {
        if (const uint64_t at = place_of(key, hash); at != kNoPlace) {
            const uint64_t before = deadlines[at];
            if (before >= now) {
                deadlines[at] = KeyedEntry<T>::later(now, timeout_ns);
                return {&entries[at].value, &deadlines[at], before, now, false, false};
            }
            ended(entries[at].key, entries[at].value, Ended::expired);
            count(KeyedCount::expired);
            if (lookup == Lookup::create) {
                count(KeyedCount::created);
                return begin(at, now);
            }
            free(at, in);
        }
        if (lookup != Lookup::create) return {};
        return create(key, hash, now, ended);
    }
    /// Where the entry of `key` stands, which may have timed out; or kNoPlace.
    MILLRACE_DEVICE uint64_t place_of(const K& key, uint64_t hash) const {
        const uint64_t first = uint64_t{bucket_of(hash)} * kWays;
        for (uint32_t ways = ways_with(first, tag_of(hash)); ways != 0; ways &= ways - 1) {
            const uint64_t at = first + lowest(ways);
#if MILLRACE_GPU
            // On their way while the keys are compared.
            prefetch_near(&deadlines[at], sizeof(uint64_t));
            prefetch_near(&entries[at], smaller<uint32_t>(sizeof(Entry), kAskedBytes));
#endif
            if (KeyWords<K>::same(entries[at].key, key)) return at;
        }
        return kNoPlace;
    }

    /// Where a new entry goes: a free place, else that of the entry which would have timed out first, if it has or may
    /// be evicted; or kNoPlace.
    MILLRACE_DEVICE uint64_t room_for(uint64_t hash, uint64_t now) const {
        const uint64_t first = uint64_t{bucket_of(hash)} * kWays;
        const uint32_t ways = ways_with(first, 0);
        if (ways != 0) return first + lowest(ways);
        uint64_t at = first;
        for (uint64_t way = first + 1; way < first + kWays; ++way)
            if (deadlines[way] < deadlines[at]) at = way;
        return deadlines[at] < now || when_full == WhenFull::evict ? at : kNoPlace;
    }
    /// Gives the place to `key`; what was there ends.
    template <class OnEnd>
    MILLRACE_DEVICE void take(uint64_t at, const K& key, uint64_t hash, uint64_t now, OnEnd&& ended) const {
        if (tags[at] != 0) {
            const bool expired = deadlines[at] < now;
            ended(entries[at].key, entries[at].value, expired ? Ended::expired : Ended::evicted);
            count(expired ? KeyedCount::expired : KeyedCount::evicted);
        }
        tags[at] = tag_of(hash);
        entries[at].key = key;
        count(KeyedCount::created);
    }

    /// The next `n` buckets that are to be swept, or as many as there are: from this one on, round and round.
    MILLRACE_DEVICE uint32_t claim(uint32_t& n) const {
        n = smaller(n, buckets);
        return static_cast<uint32_t>(add(KeyedCount::cursor, n)) & (buckets - 1);
    }
    /// The `k`th bucket that `claim` would give; or kNoBucket, there are fewer.
    static constexpr uint32_t kNoBucket = 0xfffffffe;
    MILLRACE_DEVICE uint32_t claimable(uint32_t k) const {
        const auto cursor = static_cast<uint32_t>(counts[static_cast<uint32_t>(KeyedCount::cursor)]);
        return k < buckets ? (cursor + k) & (buckets - 1) : kNoBucket;
    }
    /// How long an entry that has timed out is left alone: packets may be late.
    static constexpr uint64_t kGraceNs = 1'000'000'000;
    /// Frees the bucket's entries that have been timed out for kGraceNs at `now`, where `ended` lets it.
    template <class OnEnd>
    MILLRACE_DEVICE void sweep(uint32_t bucket, uint64_t now, OnEnd&& ended, const InBatch& in = {}) const {
        const uint64_t first = uint64_t{bucket & (buckets - 1)} * kWays;
        uint32_t over = 0;
#if MILLRACE_GPU
#pragma unroll
#endif
        for (uint32_t way = 0; way < kWays; ++way) {
            const uint64_t deadline = deadlines[first + way];
            over |= static_cast<uint32_t>(deadline < now && now - deadline >= kGraceNs) << way;
        }
        for (over &= ~ways_with(first, 0); over != 0; over &= over - 1) {
            const uint64_t at = first + lowest(over);
            if (!ended(entries[at].key, entries[at].value, Ended::swept)) continue;
            free(at, in);
            count(KeyedCount::expired);
        }
    }

    /// Where an entry stands among all that there can be.
    MILLRACE_DEVICE uint64_t place_of(const KeyedEntry<T>& entry) const {
        return static_cast<uint64_t>(entry.deadline() - deadlines.data());
    }
    /// Behind the packet: frees the entry if it was to end. `lasts`: `what_lasts` of it must outlive the device.
    MILLRACE_DEVICE void settle(const KeyedEntry<T>& entry, const InBatch& in, bool lasts, uint32_t what_lasts) const {
        if (!entry) return;
        const uint64_t at = place_of(entry);
        if (deadlines[at] != KeyedEntry<T>::kRemoved) {
            if (lasts) write_down(at, what_lasts, in);
            return;
        }
        free(at, in);
        count(KeyedCount::removed);
    }
    /// Writes down what of an entry must outlive the device. `in` has a journal.
    MILLRACE_DEVICE_CALL void write_down(uint64_t at, uint32_t what_lasts, const InBatch& in) const {
        in.write(JournalRecord::lasting, at, what_lasts, &entries[at].key, sizeof(K));
    }
    /// `in` as `Nf` has it, which has this state: with a journal if it keeps one.
    template <class Nf>
    MILLRACE_DEVICE InBatch journaled_by(InBatch in) const {
        if (!HasJournal<Nf> || journaled == 0) in.journal = nullptr;
        return in;
    }
    /// What of a value must outlive a device, as a number: another one is a change that must.
    template <class Nf>
    MILLRACE_DEVICE static uint32_t lasting(const T& value) {
        if constexpr (HasLasting<Nf>) return Nf::lasting(value);
        return 0;
    }

    /// How much it was before.
    MILLRACE_DEVICE uint64_t add(KeyedCount what, uint32_t n) const {
        return add_atomically(counts[static_cast<uint32_t>(what)], n);
    }
    MILLRACE_DEVICE void count(KeyedCount what) const {
#if !MILLRACE_GPU
        if (detail::counts_of_burst != nullptr) {
            ++detail::counts_of_burst[static_cast<uint32_t>(what)];
            return;
        }
#endif
        add(what, 1);
    }

    // --- what the framework calls ---
    /// What a packet of `Nf` wants, but for the hash.
    template <class Nf>
    MILLRACE_DEVICE static void ask(const Packet& packet, const typename Nf::Tables& tables, Wanted<Nf>& wanted) {
        wanted.key = {};
        if constexpr (HasNoted<Nf>) {
            wanted.noted = {};
            wanted.lookup = Nf::key(packet, tables, wanted.key, wanted.noted);
        } else {
            wanted.lookup = Nf::key(packet, tables, wanted.key);
        }
    }
    /// The order key of a packet of `Nf`, which has this state: its bucket; and what it wants.
    template <class Nf>
    MILLRACE_DEVICE static uint32_t order_key(const Packet& packet, const typename Nf::Tables& tables,
                                              Wanted<Nf>& wanted) {
        ask(packet, tables, wanted);
        if (wanted.lookup == Lookup::none) return kNoOrderKey;
        wanted.hash = tables.state.hash(wanted.key);
#if MILLRACE_GPU
        // All other batches wait where the state is changed: what can be brought before is.
        if constexpr (!DecidesAhead<Nf>) tables.state.approach(wanted.hash);
#endif
        return tables.state.bucket_of(wanted.hash);
    }
    /// Decides on a packet of `Nf` that has its bucket to itself; with `decision`, which `Nf` has made before, ends it.
    template <class Nf, class... Before>
    MILLRACE_DEVICE static Decision decide_on(const Wanted<Nf>& wanted, Packet& packet,
                                              const typename Nf::Tables& tables, const InBatch& in_batch,
                                              Before... decision) {
        const InBatch in = tables.state.template journaled_by<Nf>(in_batch);
        KeyedEntry<T> entry = entry_for<Nf>(wanted, packet, tables, in);
        const uint32_t before = entry ? lasting<Nf>(*entry) : 0;
        if constexpr (KeepsParts<Nf>)
            if (entry && in.journal != nullptr) tables.state.keep_parts(entry, in);
        Decision own;
        if constexpr (sizeof...(Before) != 0) own = Nf::commit(packet, tables, decision..., entry);
        else own = process<Nf>(wanted, packet, tables, entry);
        const uint32_t behind = entry ? lasting<Nf>(*entry) : 0;
        const bool lasts = HasLasting<Nf> && in.journal != nullptr && entry && (entry.is_new() || behind != before);
        tables.state.settle(entry, in, lasts, behind);
        return own;
    }
    template <class Nf>
    MILLRACE_DEVICE static KeyedEntry<T> entry_for(const Wanted<Nf>& wanted, Packet& packet,
                                                   const typename Nf::Tables& tables, const InBatch& in) {
        if (wanted.lookup == Lookup::none) return {};
        return tables.state.find(wanted.key, wanted.hash, packet.time_ns(), wanted.lookup, OnEndOf<Nf>{packet, tables},
                                 in);
    }
    template <class Nf>
    MILLRACE_DEVICE static Decision process(const Wanted<Nf>& wanted, Packet& packet, const typename Nf::Tables& tables,
                                            const KeyedEntry<T>& entry) {
        if constexpr (HasNoted<Nf>) return Nf::process(packet, tables, entry, wanted.key, wanted.noted);
        else return Nf::process(packet, tables, entry);
    }
#if !MILLRACE_GPU
    template <class Nf, class... Before>
    static Decision decide(Packet& packet, const typename Nf::Tables& tables, Before... decision) {
        Wanted<Nf> wanted;
        ask(packet, tables, wanted);
        wanted.hash = tables.state.hash(wanted.key);
        return decide_on(wanted, packet, tables, detail::in_batch, decision...);
    }
#endif
    /// `sweep` for an `Nf` that has this state. `teller` takes what is told of entries that end.
    template <class Nf>
    MILLRACE_DEVICE static void sweep_of(Packet& teller, const typename Nf::Tables& tables, uint32_t bucket,
                                         uint64_t now, const InBatch& in) {
        tables.state.sweep(bucket, now, OnEndOf<Nf>{teller, tables}, tables.state.template journaled_by<Nf>(in));
    }

#if !MILLRACE_GPU
    template <class Nf>
    static void sweep_of(Packet& teller, const typename Nf::Tables& tables, uint32_t bucket, uint64_t now) {
        sweep_of<Nf>(teller, tables, bucket, now, detail::in_batch);
    }
#endif
    /// What a packet of `Nf` writes down in the journal, at most: an end, and what becomes of its own entry.
    template <class Nf>
    static constexpr uint32_t journal_bytes() {
        if constexpr (KeepsParts<Nf>)
            return JournalRecord::bytes_with(0) + JournalRecord::bytes_with(sizeof(K)) + Nf::journal_bytes;
        return HasLasting<Nf> ? JournalRecord::bytes_with(0) + JournalRecord::bytes_with(sizeof(K)) : 0;
    }

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

private:
    /// A bit for each way of the bucket from `first` on that has this tag.
    MILLRACE_DEVICE uint32_t ways_with(uint64_t first, uint32_t tag) const {
        const uint32_t* const own = tags.data() + first;
        uint32_t ways = 0;
#if MILLRACE_GPU
        uint4 four[kWays / 4];
#pragma unroll
        for (uint32_t k = 0; k < kWays / 4; ++k) four[k] = reinterpret_cast<const uint4*>(own)[k];
#pragma unroll
        for (uint32_t k = 0; k < kWays / 4; ++k)
            ways |= (four[k].x == tag ? 1u : 0u) << (4 * k) | (four[k].y == tag ? 2u : 0u) << (4 * k) |
                    (four[k].z == tag ? 4u : 0u) << (4 * k) | (four[k].w == tag ? 8u : 0u) << (4 * k);
#else
        // The compiler's own words: what <emmintrin.h> has takes plugins long to read.
        using Four = uint32_t __attribute__((vector_size(16)));
        using Floats = float __attribute__((vector_size(16)));
        const Four wanted = {tag, tag, tag, tag};
#pragma GCC unroll 4
        for (uint32_t k = 0; k < kWays / 4; ++k) {
            Four four;
            __builtin_memcpy(&four, own + 4 * k, sizeof four);
            ways |= static_cast<uint32_t>(__builtin_ia32_movmskps(reinterpret_cast<Floats>(four == wanted))) << (4 * k);
        }
#endif
        return ways;
    }
    /// Nobody finds it any more: neither by its tag, nor who has found it before (ahead.hpp).
    MILLRACE_DEVICE void free(uint64_t at, const InBatch& in) const {
        tags[at] = 0;
        deadlines[at] = KeyedEntry<T>::kRemoved;
        if (in.journal != nullptr) in.write(JournalRecord::freed, at, 0, nullptr, 0);
    }
    /// From here on `entry` writes its parts down; a new one begins with its key.
    MILLRACE_DEVICE void keep_parts(KeyedEntry<T>& entry, const InBatch& in) const {
        const uint64_t at = place_of(entry);
        if (entry.is_new()) in.write(JournalRecord::fresh, at, 0, &entries[at].key, sizeof(K));
        entry.set_journal(in, at);
    }
    static constexpr uint32_t kAskedBytes = 192;  ///< of an entry: longer ones are not all looked at
    /// The number of the lowest bit.
    MILLRACE_DEVICE static uint32_t lowest(uint32_t bits) {
#if MILLRACE_GPU
        return static_cast<uint32_t>(__ffs(static_cast<int>(bits))) - 1;
#else
        return static_cast<uint32_t>(__builtin_ctz(bits));
#endif
    }
    /// A new entry of `key`, which has none.
    template <class OnEnd>
    MILLRACE_DEVICE KeyedEntry<T> create(const K& key, uint64_t hash, uint64_t now, OnEnd&& ended) const {
        const uint64_t at = room_for(hash, now);
        if (at == kNoPlace) {
            count(KeyedCount::refused);
            return {nullptr, nullptr, 0, now, false, true};
        }
        take(at, key, hash, now, ended);
        return begin(at, now);
    }
    /// The place has its key: its entry is a new one.
    MILLRACE_DEVICE KeyedEntry<T> begin(uint64_t at, uint64_t now) const {
        entries[at].value = T{};
        deadlines[at] = KeyedEntry<T>::later(now, timeout_ns);
        return {&entries[at].value, &deadlines[at], deadlines[at], now, true, false};
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
