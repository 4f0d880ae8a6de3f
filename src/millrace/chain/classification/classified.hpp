// Several chains as one program that classifies its packets first: so a device finds each packet's chain, and chains
// that share a port share batches, too.
#pragma once

#include <memory>

#include "millrace/chain/configuration.hpp"

namespace millrace::chain {

/// Arrays of state that a program on a device may have (device::kMaxStateArrays).
inline constexpr size_t kMaxStateArrays = 8;

/// The program of all chains that headers decide between, with their functions by reference: tables and state are the
/// chains' own. Its nodes are those of the chains. Chains that have the same functions, and lead to the same places,
/// share stages: a device then runs the same code for all of them. A function that keeps state stands apart, unless it
/// has that where its siblings have theirs (nf::Siblings). Its field plan is what any chain needs. Null where ports
/// alone decide, or where the chains have more than kMaxNodes functions, kMaxStages stages or kMaxStateArrays arrays of
/// state together: then whoever receives packets classifies them.
std::shared_ptr<const Program> make_classified(const Configuration& configuration);

/// The programs that packets go through on a device: the classified one, and each chain that packets come to by
/// themselves: from a port, from another chain, from a controller.
std::vector<std::shared_ptr<const Program>> programs_of(const Configuration& configuration);

/// What such a program is called among chains. No chain's name begins so.
inline constexpr const char* kClassifiedName = "(classify)";

}  // namespace millrace::chain
