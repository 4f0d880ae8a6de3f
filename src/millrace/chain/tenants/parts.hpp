// Chains that are cut into parts: what runs here, and what runs in tenants' processes.
#pragma once

#include <set>
#include <string>

#include "millrace/chain/configuration.hpp"

namespace millrace::chain {

/// Makes several programs of each chain that has a function of a tenant: such a function is one by itself, and what
/// stands before and behind it are others. Outcomes that led to a node of another part lead to that part as to a chain;
/// a part begins at each node that another one leads to. The first keeps the chain's name and number, the others are
/// called "chain/node", after their first node. Throws ConfigError where another chain has that name.
///
/// The first part has the chain in one piece, too (Program::undivided), where that can go through a device: nothing is
/// promised to the chain or its tenants, who may all run there; no function has state that batches change; and no
/// headers decide between chains.
void cut_at_tenants(Configuration& configuration);

/// Most packets of a batch of a chain in one piece: what each tenant's window has room for, for each worker.
inline constexpr uint32_t kMaxUndividedBatch = 4096;
/// Bytes at the front of a frame in which its headers have to lie there. Longer headers are rare, and to decide on them
/// is not worth the memory.
inline constexpr uint32_t kUndividedHead = 256;
/// Most batches of one worker's that may be in flight.
inline constexpr unsigned kMaxUndividedDepth = 4;

/// Makes each chain that is in one piece one of the functions that its parts have now, with what these have else. Of
/// multiprocessors it has those of the part that has most.
void renew_undivided(Configuration& configuration);

/// The same as if each function were a tenant's that runs here: every one is a part by itself. For comparison.
void cut_apart(Configuration& configuration);

/// The chains that have tenants' functions, by name.
std::set<std::string> chains_with_tenants(const Configuration& configuration);

/// Derives the field plan of a program that runs on the cpu, or on a device.
void plan_program(Program& program, bool on_cpu);

}  // namespace millrace::chain
