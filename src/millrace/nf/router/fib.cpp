#include "millrace/nf/router/fib.hpp"

#include <rte_errno.h>
#include <rte_fib.h>
#include <rte_fib6.h>

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "millrace/base/eal.hpp"

namespace millrace::nf::router {
namespace {

std::string unique_name(const char* kind) {
    static std::atomic<unsigned> count = 0;
    return std::string("millrace-") + kind + "-" + std::to_string(count++);
}

[[noreturn]] void fail(const char* what, int error) {
    throw std::runtime_error(std::string("the router's ") + what + " table does not fit into DPDK's memory: " +
                             rte_strerror(error) + "; give DPDK more memory");
}

/// Short prefixes first: then no add has to walk the longer ones below it.
template <unsigned Bytes>
std::vector<typename Rib<Bytes>::Route> by_length(const Rib<Bytes>& rib) {
    std::vector<typename Rib<Bytes>::Route> routes;
    routes.reserve(rib.size());
    rib.for_each([&](const auto& route) { routes.push_back(route); });
    std::sort(routes.begin(), routes.end(), [](const auto& a, const auto& b) {
        return a.length != b.length ? a.length < b.length : a.address < b.address;
    });
    return routes;
}

/// The groups that rte_fib6 sets aside for `routes`, in this order: for each, one for every 8 bits by
/// which it is longer than the longest before it that covers it, whether or not others share them.
uint32_t reserved_ipv6_groups(const std::vector<Ipv6Lpm::Route>& routes, const Rib<16>& rib) {
    uint32_t groups = 0;
    for (const Ipv6Lpm::Route& route : routes) {
        if (route.length <= 24) continue;
        const auto parent = rib.covering(route.address, route.length);
        const uint32_t from = std::max<uint32_t>(parent ? parent->length : 0, 24);
        groups += (route.length + 7u) / 8 - (from + 7) / 8;
    }
    return groups;
}

rte_fib* make_ipv4(const Ipv4Lpm& table) {
    rte_fib_conf conf{};
    conf.type = RTE_FIB_DIR24_8;
    conf.default_nh = kTargetNone;
    conf.max_routes = static_cast<int>(table.rib().size() + 16);
    conf.dir24_8.nh_sz = RTE_FIB_DIR24_8_2B;
    conf.dir24_8.num_tbl8 = std::min<uint32_t>(static_cast<uint32_t>(table.groups_in_use()) + 16, 0x7fff);
    rte_fib* fib = rte_fib_create(unique_name("fib").c_str(), -1, &conf);
    if (fib == nullptr) fail("IPv4", rte_errno);
    for (const Ipv4Lpm::Route& route : by_length(table.rib())) {
        const int error = rte_fib_add(fib, load_be32(route.address.data()), route.length, route.value);
        if (error == 0) continue;
        rte_fib_free(fib);
        fail("IPv4", -error);
    }
    // Refused where the CPU lacks AVX-512: then the scalar lookup stays.
    rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512);
    return fib;
}

rte_fib6* make_ipv6(const Ipv6Lpm& table) {
    rte_fib6_conf conf{};
    conf.type = RTE_FIB6_TRIE;
    conf.default_nh = kTargetNone;
    conf.max_routes = static_cast<int>(table.rib().size() + 16);
    const std::vector<Ipv6Lpm::Route> routes = by_length(table.rib());
    const uint32_t groups = reserved_ipv6_groups(routes, table.rib()) + 16;
    conf.trie.nh_sz = groups < 0x7fff ? RTE_FIB6_TRIE_2B : RTE_FIB6_TRIE_4B;
    conf.trie.num_tbl8 = groups;
    rte_fib6* fib = rte_fib6_create(unique_name("fib6").c_str(), -1, &conf);
    if (fib == nullptr) fail("IPv6", rte_errno);
    for (const Ipv6Lpm::Route& route : routes) {
        const int error = rte_fib6_add(fib, route.address.data(), route.length, route.value);
        if (error == 0) continue;
        rte_fib6_free(fib);
        fail("IPv6", -error);
    }
    rte_fib6_select_lookup(fib, RTE_FIB6_LOOKUP_TRIE_VECTOR_AVX512);
    return fib;
}

}  // namespace

void Fibs::Free::operator()(rte_fib* fib) const { rte_fib_free(fib); }
void Fibs::Free::operator()(rte_fib6* fib) const { rte_fib6_free(fib); }

Fibs::Fibs(const Ipv4Lpm& ipv4, const Ipv6Lpm& ipv6) {
    start_eal();
    if (ipv4.rib().size() > 0) ipv4_.reset(make_ipv4(ipv4));
    if (ipv6.rib().size() > 0) ipv6_.reset(make_ipv6(ipv6));
}

void Fibs::lookup_ipv4(std::span<const uint32_t> addresses, uint64_t* targets) const {
    if (ipv4_ == nullptr) {
        std::fill_n(targets, addresses.size(), kTargetNone);
        return;
    }
    // The parameter is not const in DPDK's C interface, but only read.
    rte_fib_lookup_bulk(ipv4_.get(), const_cast<uint32_t*>(addresses.data()), targets,
                        static_cast<int>(addresses.size()));
}

void Fibs::lookup_ipv6(std::span<const std::array<uint8_t, 16>> addresses, uint64_t* targets) const {
    if (ipv6_ == nullptr) {
        std::fill_n(targets, addresses.size(), kTargetNone);
        return;
    }
    using Rows = uint8_t(*)[RTE_FIB6_IPV6_ADDR_SIZE];
    rte_fib6_lookup_bulk(ipv6_.get(), reinterpret_cast<Rows>(const_cast<std::array<uint8_t, 16>*>(addresses.data())),
                         targets, static_cast<int>(addresses.size()));
}

}  // namespace millrace::nf::router
