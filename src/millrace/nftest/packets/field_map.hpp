// Which field each byte of a frame belongs to.
#pragma once

#include <vector>

#include "millrace/nftest/packets/packet_builder.hpp"
#include "millrace/packet/fields.hpp"
#include "millrace/packet/layers.hpp"

namespace millrace::nftest {

/// One set for each byte of `frame`, whose layers these are. A byte that two fields share has both. What stands behind
/// the last header that was parsed is payload, and so is the padding. ARP's header counts as IP's.
std::vector<Fields> fields_of_bytes(const Frame& frame, const Layers& layers);

}  // namespace millrace::nftest
