// What NAT knows, as a device sees it.
#pragma once

#include "millrace/nf/mappings/plan.hpp"

namespace millrace::nf::nat {

using mappings::End;

struct Network {
    uint32_t address, mask;  ///< as they lie in memory
};

struct OwnTables {
    View<Network> inside;
};
using NatTables = mappings::PortTables<uint32_t, OwnTables>;

MILLRACE_DEVICE bool is_inside(const NatTables& tables, uint32_t address) {
    for (const Network& network : tables.own.inside)
        if ((address & network.mask) == network.address) return true;
    return false;
}

}  // namespace millrace::nf::nat
