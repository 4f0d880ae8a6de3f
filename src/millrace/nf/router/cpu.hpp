// The router on a vector of packets: one bulk lookup for each address family.
#pragma once

#include "millrace/nf/nf.hpp"
#include "millrace/nf/router/fib.hpp"

namespace millrace::nf::router {

/// Without `fibs` it looks into `tables`. `tables` stays where it is, and what it points to alive, as long as the half.
std::unique_ptr<CpuHalf> make_cpu_router(const RouterTables& tables, std::shared_ptr<const Fibs> fibs);

}  // namespace millrace::nf::router
