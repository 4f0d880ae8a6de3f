// Several chains as one program that classifies its packets first: so a device finds each packet's chain, and chains
// that share a port share batches, too.
#pragma once

#include <memory>

#include "millrace/chain/configuration.hpp"

namespace millrace::chain {

/// Arrays of state that a program on a device may have (device::kMaxStates).
inline constexpr size_t kMaxStates = 8;

/// The program of all chains that headers decide between, with their functions by reference: tables and state are the
/// chains' own. Its nodes are those of the chains, one chain behind the other; its field plan is what any of them
/// needs. Null where ports alone decide, or where the chains have more than `most_nodes` functions or kMaxStates
/// arrays of state together: then whoever receives packets classifies them.
std::shared_ptr<const Program> make_classified(const Configuration& configuration, size_t most_nodes);

/// The programs that packets go through on a device: the classified one, and each chain that packets come to by
/// themselves: from a port, from another chain, from a controller.
std::vector<std::shared_ptr<const Program>> programs_of(const Configuration& configuration);

/// What such a program is called among chains. No chain's name begins so.
inline constexpr const char* kClassifiedName = "(classify)";

}  // namespace millrace::chain
