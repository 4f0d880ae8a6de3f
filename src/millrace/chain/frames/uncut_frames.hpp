// Frames that are yet to be cut into those of the wire: which chains take them as they are.
#pragma once

#include "millrace/chain/configuration.hpp"

namespace millrace::chain {

/// The first function of the chain that does not take such frames (nf::NetworkFunction::takes_uncut); null: all do.
const Node* first_to_want_segments(const Program& program);

/// Whether all functions that packets of a port may come to take them, in whatever chains.
bool takes_uncut(const Configuration& configuration, uint16_t port);

}  // namespace millrace::chain
