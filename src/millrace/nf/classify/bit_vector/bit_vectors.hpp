// Bit vectors over rules, and the first bit that several of them share.
//
// A vector has a bit for every rule, in chunks of 1,024. Each chunk is a summary (a bit for each of
// its 32 words that is not zero; Baboescu and Varghese, SIGCOMM 2001, aggregate bit vectors) and the
// number of its block of 32 words. Equal blocks are stored once, so that vectors which differ in few
// rules, as those of nested prefixes do, cost little more than their summaries.
#pragma once

#include "millrace/nf/classify/bit_vector/bits.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::classify {

inline constexpr uint32_t kNoPosition = 0xffffffffu;

struct BitVectors {
    static constexpr uint32_t kChunkWords = 32;
    static constexpr uint32_t kChunkBits = 32 * kChunkWords;

    struct Chunk {
        uint32_t summary;
        uint32_t block;
    };
    struct Tables {
        View<Chunk> rows;      ///< vectors × chunks
        View<uint32_t> words;  ///< blocks × 32
        uint32_t chunks = 0;   ///< of each vector
    };

    /// The lowest bit that is set in all of the `Count` vectors, or kNoPosition. The lanes take a chunk each.
    template <unsigned Count, class Lanes>
    MILLRACE_DEVICE static uint32_t first_common(const Tables& tables, const uint32_t (&vectors)[Count], Lanes lanes) {
        for (uint32_t base = 0; base < tables.chunks; base += Lanes::count) {
            const uint32_t best = lanes.minimum(smaller<uint32_t>(Lanes::count, tables.chunks - base),
                                                [&](uint32_t i) { return first_in_chunk(tables, vectors, base + i); });
            if (best != kNoPosition) return best;
        }
        return kNoPosition;
    }

private:
    template <unsigned Count>
    MILLRACE_DEVICE static uint32_t first_in_chunk(const Tables& tables, const uint32_t (&vectors)[Count],
                                                   uint32_t chunk) {
        uint32_t summary = 0xffffffffu;
        uint64_t blocks[Count];
        for (unsigned i = 0; i < Count; ++i) {
            const Chunk part = tables.rows[static_cast<uint64_t>(vectors[i]) * tables.chunks + chunk];
            summary &= part.summary;
            blocks[i] = static_cast<uint64_t>(part.block) * kChunkWords;
        }
        for (; summary != 0; summary &= summary - 1) {
            const uint32_t at = lowest_bit(summary);
            uint32_t word = 0xffffffffu;
            for (unsigned i = 0; i < Count; ++i) word &= tables.words[blocks[i] + at];
            if (word != 0) return chunk * kChunkBits + at * 32 + lowest_bit(word);
        }
        return kNoPosition;
    }
};

}  // namespace millrace::nf::classify
