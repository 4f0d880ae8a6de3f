// The search of a payload without a walk: a filter finds the few places at which a pattern may begin, and the patterns
// themselves are held against the text there.
//
// The automaton takes a look-up for each byte, each waiting for the one before, in tables that no first-level cache
// holds. Here each place is asked alone, in a table of 16 KiB that the block keeps in its fast memory: whether any
// pattern begins with a hash of the four bytes there. A filter before an exact check is the idea of Choi et al., "DFC:
// Accelerating String Pattern Matching for Network Applications", NSDI 2016; a check that begins anew at each place and
// ends with the first byte that no pattern has, that of Lin et al., "Accelerating String Matching Using Multi-Threaded
// Algorithm on GPU", GLOBECOM 2010.
//
// The check goes down a tree of the patterns, four to twelve bytes at a time: byte by byte, the lane of a warp that has
// most to compare, for which all others wait, took as many steps with HTTP text as a walk.
//
// Lanes look for places each in its own share of the text, and check those of all shares in turn, as some shares have
// many. A text may be made so that all of it looks like patterns. A lane therefore has a number of tries, in proportion
// to its share; when these are spent, or more than a quarter of the places pass, the lanes give up, and walk.
#pragma once

#include "millrace/nf/nids/pattern/lane_ids.hpp"
#include "millrace/nf/nids/pattern/text.hpp"
#include "millrace/packet/lanes.hpp"

namespace millrace::nf::nids::pattern {

/// Words of the filter's bits: 16 KiB.
inline constexpr uint32_t kFilterWords = 4096;
/// Places that passed the filter, and are kept until they are checked, for each lane.
inline constexpr uint32_t kPlacesOfLane = 16;
/// Bytes of a block's memory: the filter's bits, how many places each packet has, and these.
inline constexpr uint32_t kFilterBlockBytes = 4 * kFilterWords + (4 + 2 * kPlacesOfLane) * kMaxBlockThreads;

namespace detail {

inline constexpr uint32_t kFactor = 2654435761u;  // 2^32 by the golden ratio

/// Four bytes, folded, have two bits in one word of the filter: its number is of a product's upper half, which all four
/// bytes go into, and the bits' are the lowest five of the first byte and of the second. So a GPU takes a
/// multiplication and a mask; its shifts count modulo 32 without one, and the second byte is the next place's first.
/// Two bits, as with 10,000 patterns one lets seven places of a hundred pass for nothing (Bloom, "Space/Time Trade-offs
/// in Hash Coding with Allowable Errors", CACM 1970).
MILLRACE_DEVICE uint32_t filter_offset(uint32_t window) {
#if MILLRACE_GPU
    const uint32_t high = __umulhi(window, kFactor);
#else
    const uint32_t high = static_cast<uint32_t>(static_cast<uint64_t>(window) * kFactor >> 32);
#endif
    return high & 4 * (kFilterWords - 1);  // where the word begins, in bytes
}
inline constexpr uint32_t kFilterBit = 31;  ///< mask of a bit's number in a byte

/// Four bytes with upper case made lower case, and some others that differ in bit 5 alone made equal, such as '@' and
/// '`', for the filter's hash. Zeros and blanks, of which there are many in traffic and in patterns, stay apart.
MILLRACE_DEVICE constexpr uint32_t roughly_folded(uint32_t bytes) { return bytes | (bytes >> 1 & 0x20202020u); }

/// Four bytes with ASCII upper case made lower case, all others as they are.
MILLRACE_DEVICE constexpr uint32_t exactly_folded(uint32_t bytes) {
    constexpr uint32_t kEach = 0x01010101u, kHigh = 0x80 * kEach;
    const uint32_t low = bytes & ~kHigh;
    const uint32_t from_a = low + (0x80 - 'A') * kEach, behind_z = low + (0x80 - 'Z' - 1) * kEach;
    return bytes | (from_a & ~behind_z & ~bytes & kHigh) >> 2;
}

/// What branches of a node with keys of so many bytes, 1 to 4, have as `from`. The root is node 0.
MILLRACE_DEVICE constexpr uint32_t branch_from(uint32_t node, uint32_t key_bytes) {
    return node << 2 | (key_bytes - 1);
}
/// The first place to look for a branch at.
MILLRACE_DEVICE constexpr uint32_t branch_place(uint32_t from, uint32_t key, uint32_t shift) {
    return ((from * 2246822519u + key) * kFactor) >> shift;
}

/// The filter's bits as a lane reaches them.
MILLRACE_DEVICE const uint8_t* filter_bits([[maybe_unused]] const FilterTables& filter) {
#if MILLRACE_GPU
    return reinterpret_cast<const uint8_t*>(block_memory());
#else
    return reinterpret_cast<const uint8_t*>(filter.bits.data());
#endif
}

/// Words whose places are the bits of a number.
inline constexpr uint32_t kWordsAtOnce = 8;

/// Of the words [from, to), one to eight: the places where a pattern may begin; bit 0 is the first.
MILLRACE_DEVICE uint64_t places_passing(const Text& text, uint32_t from, uint32_t to, const uint8_t* bits) {
    const uint32_t last = text.words() - 1;
    uint32_t older = 0, passing = 0;
    const uint64_t first = text.word(from);
    uint32_t low = roughly_folded(static_cast<uint32_t>(first)),
             high = roughly_folded(static_cast<uint32_t>(first >> 32));
    // The word behind is asked for before this one is worked on. Behind the last word comes anything.
    uint64_t next = text.word(smaller(from + 1, last));
#if MILLRACE_GPU
#pragma unroll 1
#endif
    for (uint32_t w = from; w < to; ++w) {
        const uint64_t ahead = text.word(smaller(w + 2, last));
        const uint32_t behind = roughly_folded(static_cast<uint32_t>(next));
        older = funnel_right(older, passing, 8);
        uint32_t window = low;
#if MILLRACE_GPU
#pragma unroll
#endif
        for (uint32_t k = 0; k < 8; ++k) {
            const uint32_t following = k < 3   ? funnel_right(low, high, 8 * (k + 1))
                                       : k < 7 ? funnel_right(high, behind, 8 * (k - 3))
                                               : behind;
            const uint32_t word = *reinterpret_cast<const uint32_t*>(bits + filter_offset(window));
            const uint32_t both = funnel_right(word, word, window) & funnel_right(word, word, following);
            passing = funnel_right(passing, both, 1);
            window = following;
        }
        low = behind;
        high = roughly_folded(static_cast<uint32_t>(next >> 32));
        next = ahead;
    }
    return (static_cast<uint64_t>(passing) << 32 | older) >> 8 * (kWordsAtOnce - (to - from));
}

/// Those of 64 places from `base` on that are at least `first` and before `behind`.
MILLRACE_DEVICE uint64_t places_within(int32_t base, int32_t first, int32_t behind) {
    const int32_t low = larger(first - base, 0), high = smaller(behind - base, 64);
    return low >= high ? 0 : ~uint64_t{0} << low & ~uint64_t{0} >> (64 - high);
}

/// Of four bytes, a bit for each that equals the one before it; `before`: the four before them.
MILLRACE_DEVICE uint32_t equal_to_those_before(uint32_t before, uint32_t own) {
    const uint32_t differs = own ^ funnel_right(before, own, 24);
    const uint32_t high_bits = ((differs & 0x7f7f7f7fu) + 0x7f7f7f7fu) | differs;
    return (~high_bits >> 7 & 0x01010101u) * 0x10204080u >> 28;
}
/// Of the words [from, to), one to eight: places in a run of one byte, upper and lower case alike, behind its first
/// place and at least four before its end. Bit 0 is the first place.
MILLRACE_DEVICE_CALL uint64_t places_within_runs(const Text& text, uint32_t from, uint32_t to) {
    uint64_t equal = 0;
    uint32_t before = from > 0 ? exactly_folded(text.half(2 * from - 1)) : 0;
#if MILLRACE_GPU
#pragma unroll 1
#endif
    for (uint32_t h = 2 * from; h < 2 * to; ++h) {
        const uint32_t own = exactly_folded(text.half(h));
        equal |= uint64_t{equal_to_those_before(before, own)} << 4 * (h - 2 * from);
        before = own;
    }
    const uint64_t behind = equal_to_those_before(before, exactly_folded(text.half(2 * to)));
    const uint32_t places = 8 * (to - from);
    uint64_t within = equal;
    for (uint32_t k = 1; k < 4; ++k) within &= equal >> k | behind << (places - k);
    // Nothing is before the first byte.
    return within & places_within(static_cast<int32_t>(8 * from), static_cast<int32_t>(text.first()) + 1,
                                  static_cast<int32_t>(text.behind()));
}
/// So many of the places in some words pass the filter that they may be those of a run.
MILLRACE_DEVICE bool are_many(uint32_t passing, uint32_t words) { return passing > smaller(16u, 4 * words); }

MILLRACE_DEVICE uint32_t bit_count(uint64_t bits) {
#if MILLRACE_GPU
    return static_cast<uint32_t>(__popcll(bits));
#else
    return static_cast<uint32_t>(__builtin_popcountll(bits));
#endif
}

/// Places of a text that passed the filter, for the packet's lanes to share out: where one lane has none in its share,
/// another has many.
template <class Lanes>
class PlaceList {
public:
    /// A quarter of the places that the lanes look at at once.
    static constexpr uint32_t kRoom = kPlacesOfLane * Lanes::count;

#if MILLRACE_GPU
    MILLRACE_DEVICE PlaceList()
        : count_(block_memory()[kFilterWords + threadIdx.x / Lanes::count]),
          places_(reinterpret_cast<uint16_t*>(block_memory() + kFilterWords + kMaxBlockThreads) +
                  kPlacesOfLane * (threadIdx.x / Lanes::count * Lanes::count)) {}
#endif
    /// How many there are; more than kRoom when some were left out.
    MILLRACE_DEVICE uint32_t count() const { return count_; }
    MILLRACE_DEVICE void clear() { count_ = 0; }
    /// Adds those of 64 places from `base` on that a lane found. All lanes may at once.
    MILLRACE_DEVICE void add(uint32_t base, uint64_t passing) {
        if (passing == 0) return;
        const uint32_t more = bit_count(passing);
        uint32_t at = take(more);
        if (at + more > kRoom) return;
        for (; passing != 0; passing &= passing - 1) places_[at++] = static_cast<uint16_t>(base + lowest_bit(passing));
    }
    MILLRACE_DEVICE uint32_t operator[](uint32_t i) const { return places_[i]; }

private:
#if MILLRACE_GPU
    MILLRACE_DEVICE uint32_t take(uint32_t places) { return atomicAdd(&count_, places); }
    uint32_t& count_;
    uint16_t* places_;
#else
    uint32_t take(uint32_t places) { return (count_ += places) - places; }
    uint32_t count_ = 0;
    uint16_t places_[kRoom];
#endif
};

/// The branch of `from` with that key; its `from` is another where there is none.
MILLRACE_DEVICE Branch find_branch(const FilterTables& filter, uint32_t from, uint32_t key) {
    const uint32_t last = static_cast<uint32_t>(filter.branches.size()) - 1;
    for (uint32_t place = branch_place(from, key, filter.shift);; place = (place + 1) & last) {
        const Branch branch = filter.branches[place];
        if ((branch.from == from && branch.key == key) || branch.from == kNoBranch) return branch;
    }
}

/// Keys of four bytes, among the sizes of a branch.
inline constexpr uint32_t kWhole = 1u << 3;
/// Whether a pattern that is shorter than the filter's window may begin with these bytes.
MILLRACE_DEVICE bool begins_short(const FilterTables& filter, uint32_t bytes) {
    const uint32_t first = exactly_folded(bytes) & 0xff;
    return (filter.sizes & ~kWhole) != 0 && (filter.short_begins[first / 32] >> first % 32 & 1);
}

/// Whether bytes of the text that follow a branch's key are those that must; `words` begin with the key.
MILLRACE_DEVICE bool goes_on(const Branch& branch, const uint32_t (&words)[3]) {
    const uint64_t bytes = exactly_folded(words[1]) | static_cast<uint64_t>(exactly_folded(words[2])) << 32;
    const uint64_t wanted = branch.more[0] | static_cast<uint64_t>(branch.more[1]) << 32;
    return branch.more_bytes == 0 || (bytes ^ wanted) << (64 - 8 * branch.more_bytes) == 0;
}

/// Passes the patterns that begin at every `Lanes::count`th of the first `count` places of a list, from `lane` on; or
/// stops when `tries` are spent.
///
/// One loop for the places and the way down from each, so that no lane waits for others between two places.
template <class Lanes>
MILLRACE_DEVICE void check_places(const Text& text, const PlaceList<Lanes>& list, uint32_t lane, uint32_t count,
                                  const PatternTables& tables, uint32_t& tries, LaneIds& found) {
    uint32_t at = 0, node = 0, sizes = 0;
#if MILLRACE_GPU
#pragma unroll 1
#endif
    for (uint32_t next = lane; tries != 0 && (sizes != 0 || next < count); --tries) {
        if (sizes == 0) {
            at = list[next];
            next += Lanes::count;
            node = 0;
            sizes = tables.filter.sizes;
        }
        uint32_t words[3];
        text.twelve(at, words);
        if (node == 0 && !begins_short(tables.filter, words[0])) sizes &= kWhole;
        if (sizes == 0) continue;
        // The shorter keys first: they end patterns, and four bytes lead on.
        const uint32_t size = lowest_bit(sizes) + 1;
        sizes &= sizes - 1;
        const uint32_t from = branch_from(node, size);
        const Branch branch = find_branch(tables.filter, from,
                                          exactly_folded(words[0]) & 0xffffffffu >> (32 - 8 * size));
        const uint32_t behind = at + size + branch.more_bytes;
        if (branch.from != from || behind > text.behind() || !goes_on(branch, words)) continue;
        if (branch.match != kNoPattern) found.pass(tables, branch.match);
        if (branch.sizes == 0) continue;
        at = behind;
        node = branch.node;
        sizes = branch.sizes;
    }
}

/// Whether the set has a filter, and the text no place that a list can't hold: no packet has.
MILLRACE_DEVICE bool filters(const PatternTables& tables, const Text& text) {
    return !tables.filter.bits.empty() && text.behind() <= 0x10000;
}

/// Finds what begins in a text; false when the lanes have given up.
template <class Lanes>
MILLRACE_DEVICE bool filter_text(const Text& text, const PatternTables& tables, Lanes lanes,
                                 PerLane<LaneIds, Lanes>& found) {
    const uint8_t* const bits = filter_bits(tables.filter);
    const uint32_t share = Share::words(text, Lanes::count);
    const int32_t first = static_cast<int32_t>(text.first()),
                  behind = static_cast<int32_t>(text.behind() - lowest_bit(tables.filter.sizes));
    PlaceList<Lanes> list;
    PerLane<uint32_t, Lanes> tries;
    lanes.for_each(Lanes::count, [&](uint32_t lane) {
        // A try costs a little more than a step of the walk, which takes one for each byte: so all of them cost less
        // than a walk.
        tries.of(lane) = 16 + 4 * share;
        if (lane == 0) list.clear();
    });
#if MILLRACE_GPU
#pragma unroll 1
#endif
    for (uint32_t done = 0; done < share; done += kWordsAtOnce) {
        lanes.for_each(Lanes::count, [&](uint32_t lane) {
            const uint32_t from = lane * share + done,
                           to = smaller(lane * share + smaller(done + kWordsAtOnce, share), text.words());
            if (from >= to) return;
            uint64_t passing = places_passing(text, from, to, bits) &
                               places_within(static_cast<int32_t>(8 * from), first, behind);
            // Padding is runs of zeros: what is found in a run is found at its beginning.
            if (are_many(bit_count(passing), to - from) && tables.filter.skips_runs)
                passing &= ~places_within_runs(text, from, to);
            list.add(8 * from, passing);
        });
        const uint32_t count = list.count();
        if (count == 0) continue;
        if (count > list.kRoom) return false;
        lanes.for_each(Lanes::count, [&](uint32_t lane) {
            if (lane == 0) list.clear();
            check_places<Lanes>(text, list, lane, count, tables, tries.of(lane), found.of(lane));
            found.of(lane).settle(tables);
        });
        if (lanes.any(Lanes::count, [&](uint32_t lane) { return tries.of(lane) == 0; })) return false;
    }
    return true;
}

}  // namespace detail

#if MILLRACE_GPU
/// Brings the filter's bits into the block's memory.
MILLRACE_DEVICE void stage_filter(const PatternTables& tables, uint32_t* block) {
    if (tables.filter.bits.empty()) return;
    const auto* from = reinterpret_cast<const uint4*>(tables.filter.bits.data());
    for (uint32_t i = threadIdx.x; i < 4 * kFilterWords / sizeof(uint4); i += blockDim.x)
        reinterpret_cast<uint4*>(block)[i] = from[i];
}
#endif

}  // namespace millrace::nf::nids::pattern
