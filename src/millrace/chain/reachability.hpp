// Where packets can get to in a configuration, and where they can't.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "millrace/base/text/diagnostic.hpp"
#include "millrace/chain/configuration.hpp"

namespace millrace::chain {

/// Where an outcome's target is written under `on:`, by chain, node and outcome.
using TargetPlaces = std::map<std::tuple<uint16_t, size_t, size_t>, Location>;

/// Network functions and chains that no packet can reach: such is a slip.
std::vector<Diagnostic> unreached(const Configuration& configuration);
/// Chains that lead to each other in a circle, and could keep a packet for ever.
std::vector<Diagnostic> circles(const Configuration& configuration, const TargetPlaces& places);
/// Network functions that decide by connections which nothing before them in their chain tracks.
std::vector<Diagnostic> untracked(const Configuration& configuration);
/// Warnings: packets that are punted and have nowhere to go are dropped, which not everybody expects.
std::vector<Diagnostic> lost_punts(const Configuration& configuration);

}  // namespace millrace::chain
