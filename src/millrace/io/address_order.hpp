// A mempool whose elements come out in the order of their addresses, in whatever order they went in.
#pragma once

#include <rte_mempool.h>

namespace millrace::io {

/// Name of the mempool driver, for rte_mempool_set_ops_byname; registers it at the first call.
///
/// Free elements are bits of a map that is walked round and round, so a burst lies at rising addresses, one
/// element behind the other but for those that are still out. With a ring, every packet that is dropped comes back
/// before its neighbours, and soon nothing lies beside what follows it. Any thread may put and get; a failed get takes
/// nothing. Elements lie at one distance from each other, in one piece of memory.
const char* address_order_ops();

}  // namespace millrace::io
