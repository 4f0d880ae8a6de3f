// What could be promised to a tenant for which a plan has no room.
#pragma once

#include "millrace/schedule/plan.hpp"

namespace millrace::schedule {

/// Numbers that people can write into a file: rounded to two digits, to the side that has room. 0: there is none.
struct Room {
    double rate = 0;        ///< most packets a second, with the latency that was asked for
    double latency_ns = 0;  ///< the least latency, with the rate that was asked for
};

/// For the last of `tenants`, beside all others, which must have room without it. Both are found by halving, each step
/// by a plan of its own.
Room room_for_last(std::vector<Tenant> tenants, const Gpu& gpu, Sharing sharing);

/// Whether all that were promised something have room.
bool keeps_promises(const std::vector<Tenant>& tenants, const Plan& plan);

}  // namespace millrace::schedule
