// The border between the vector engine and its part that is compiled for AVX-512: plain C types only, so
// that no inline function of a library is compiled for AVX-512 and then used by everyone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "millrace/nf/nids/pattern/cpu/payload.hpp"

namespace millrace::nf::nids::pattern::avx512 {

/// Most payloads interleaved. More hide more of the memory's latency, as long as their own state stays
/// in the first-level cache.
inline constexpr unsigned kLaneCount = 128;

/// The automaton's arrays; see PatternTables.
struct Table {
    const uint8_t* class_of;
    const uint16_t* narrow;  ///< null when `wide` is used
    const uint32_t* wide;
    uint32_t stride;
    uint32_t first_match;
};

/// Who is told what was found. Functions by address: they are compiled elsewhere. A payload keeps its
/// slot, below kLaneCount, until it is finished.
struct Sink {
    void* context;
    const uint64_t* const* known;  ///< by slot: a bit for each match (state less first_match) already told
    void (*match)(void* context, unsigned slot, uint32_t state);   ///< its payload led to a new match state
    void (*finish)(void* context, unsigned slot, size_t payload);  ///< nothing more will be told of it
};

/// Walks all payloads; enter only when `has_avx512()`.
void walk(const Table& table, const Payload* payloads, size_t count, const Sink& sink);

}  // namespace millrace::nf::nids::pattern::avx512
