// DPDK's forwarding tables for the CPU half.
#pragma once

#include <memory>
#include <span>

#include "millrace/nf/router/routes.hpp"

struct rte_fib;
struct rte_fib6;

namespace millrace::nf::router {

/// rte_fib (DIR-24-8, two-byte entries) and rte_fib6 (trie) with the targets of some routes. Constant
/// once made, so that all workers share one.
class Fibs {
public:
    /// Starts DPDK if need be. Throws std::runtime_error when there is not enough of DPDK's memory.
    Fibs(const Ipv4Lpm& ipv4, const Ipv6Lpm& ipv6);

    /// Targets for addresses in host order.
    void lookup_ipv4(std::span<const uint32_t> addresses, uint64_t* targets) const;
    /// Targets for addresses in network order.
    void lookup_ipv6(std::span<const std::array<uint8_t, 16>> addresses, uint64_t* targets) const;

private:
    struct Free {
        void operator()(rte_fib* fib) const;
        void operator()(rte_fib6* fib) const;
    };
    std::unique_ptr<rte_fib, Free> ipv4_;  // null without routes
    std::unique_ptr<rte_fib6, Free> ipv6_;
};

}  // namespace millrace::nf::router
