#include "millrace/nf/router/kernel/kernel_watch.hpp"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace millrace::nf::router {
namespace {

using namespace std::chrono_literals;

constexpr auto kTurn = 1s;  ///< between questions about neighbours
constexpr size_t kMaxQuestions = 100;

// Kernels before 5.3 have no objects for next hops.
netlink::Follower::Options followed() {
    return {.protocol = NETLINK_ROUTE,
            .groups = {RTNLGRP_LINK, RTNLGRP_NEIGH, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_IFADDR,
                       RTNLGRP_IPV6_ROUTE},
            .optional = {RTNLGRP_NEXTHOP},
            .what = "routes",
            .thread = "kernel-routes"};
}

}  // namespace

KernelWatch::KernelWatch(KernelOptions options, Location where, Reporter warn)
    : options_(std::move(options)),
      table_(options_, [this](const std::string& message, const std::string& hint) { follower_.warn(message, hint); }),
      follower_(followed(), *this, std::move(where), std::move(warn)) {
    follower_.start();
}

std::vector<netlink::Copy::Request> KernelWatch::requests() const {
    return {{dump_request(RTM_GETLINK, AF_UNSPEC, 0)},
            {dump_request(RTM_GETNEXTHOP, AF_UNSPEC, 0), EOPNOTSUPP},  // of routes that are told next; since Linux 5.3
            {dump_request(RTM_GETROUTE, AF_INET, 0)},
            {dump_request(RTM_GETROUTE, AF_INET6, 0)},
            {dump_request(RTM_GETNEIGH, AF_UNSPEC, 0)}};
}

void KernelWatch::take(netlink::Bytes message, Source source) {
    (source == Source::events ? event_parser_ : answer_parser_).parse(message);
}

void KernelWatch::on_answered(uint32_t sequence, int error, bool inconsistent) {
    follower_.on_answered(sequence, error);
    if (inconsistent) table_.on_hidden_change();
}

void KernelWatch::on_refused(int error) {
    if (error == EPERM && std::exchange(can_ask_, false))
        follower_.warn(
            "the kernel does not let neighbours be asked for: gateways are found only as packets are punted "
            "for them",
            "it takes the right CAP_NET_ADMIN");
}

/// Asks about neighbours. A question that is lost is asked again.
netlink::Copy::Clock::time_point KernelWatch::work(Clock::time_point now) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count();
    std::vector<NeighbourKey> questions;
    if (can_ask_) {
        const auto lock = follower_.lock();
        questions = table_.questions(static_cast<uint64_t>(seconds), kMaxQuestions);
    }
    for (const NeighbourKey& key : questions) follower_.post(use_neighbour_request(key.interface, key.address, 0));
    return now + kTurn;
}

KernelSnapshot KernelWatch::snapshot() {
    const auto lock = follower_.lock();
    if (forwarding_ == nullptr || forwarding_version_ != table_.forwarding_version()) {
        forwarding_ = std::make_shared<const KernelTable::Forwarding>(table_.forwarding());
        forwarding_version_ = table_.forwarding_version();
    }
    follower_.on_taken();
    return {copies4_.of(table_.lpm4()), copies6_.of(table_.lpm6()), forwarding_,
            table_.version(),           table_.lpm4().rib().size(), table_.lpm6().rib().size()};
}

std::optional<ShownTable> KernelWatch::show(std::string_view topic, size_t most) const {
    const auto lock = follower_.lock();
    if (topic == "routes") return table_.show_routes(most);
    if (topic == "neighbours") return table_.show_neighbours(most);
    return {};
}

KernelWatch::Counts KernelWatch::counts() const {
    const auto lock = follower_.lock();
    return {table_.routes(), table_.resolved_neighbours(), follower_.counts().resyncs, follower_.counts().malformed};
}

}  // namespace millrace::nf::router
