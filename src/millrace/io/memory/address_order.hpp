// A mempool whose elements come out at rising addresses, in whatever order they went in.
#pragma once

#include <rte_mempool.h>

namespace millrace::io {

/// Name of the mempool driver, for rte_mempool_set_ops_byname; registers it at the first call.
///
/// Free elements are bits of a map. Words of the map that are free as a whole are used up first, from the lowest
/// address on (or, with a pool_config other than null, from where the last ones were), so a burst lies at rising
/// addresses, one element behind the other, even where single packets of a burst come back early because they are
/// dropped; and what was in use a moment ago, in the CPU's caches still, comes into use again first. A ring would mix
/// the elements up, and walk through all memory. Any thread may put and get; a failed get takes nothing. Elements lie
/// at one distance from each other, in one piece of memory.
const char* address_order_ops();

}  // namespace millrace::io
