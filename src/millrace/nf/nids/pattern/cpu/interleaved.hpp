// The automaton without vector instructions, for all engines that walk it: pieces of payloads interleaved, as the
// table look-ups of one piece wait for each other and those of different pieces do not.
#pragma once

#include <span>

#include "millrace/nf/nids/pattern/cpu/engines.hpp"

namespace millrace::nf::nids::pattern {

/// Pieces interleaved. More would no longer find room in registers.
inline constexpr unsigned kInterleaved = 12;

/// Searches payloads, cut into pieces where they are too few or one is too long to keep all lanes busy. The first
/// kInterleaved slots of `found` must be free, and are again afterwards.
void walk_interleaved(const Automaton& automaton, std::span<const Payload> payloads, MatchCollector& found,
                      PatternHits& hits);

}  // namespace millrace::nf::nids::pattern
