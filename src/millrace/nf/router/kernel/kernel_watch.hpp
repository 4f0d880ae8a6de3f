// Follows the kernel's routes, neighbours and links over netlink, in a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>

#include "millrace/base/netlink_follower.hpp"
#include "millrace/nf/router/kernel/kernel_table.hpp"
#include "millrace/nf/router/kernel/lpm_copies.hpp"

namespace millrace::nf::router {

/// The router's tables at one moment. What it points to does not change any more.
struct KernelSnapshot {
    std::shared_ptr<const Ipv4Lpm::Copy> ipv4;
    std::shared_ptr<const Ipv6Lpm::Copy> ipv6;
    std::shared_ptr<const KernelTable::Forwarding> forwarding;
    uint64_t version = 0;
    size_t prefixes4 = 0, prefixes6 = 0;  ///< neighbours included
};

/// The kernel's tables, as of the network namespace in which it was made.
class KernelWatch final : private MessageListener, private netlink::Copy {
public:
    /// Returns when the kernel has told all that there is. Throws std::runtime_error when it does not tell.
    KernelWatch(KernelOptions options, Location where, Reporter warn);

    const KernelOptions& options() const { return options_; }
    /// Whether there is something newer than a snapshot; cheap.
    bool is_newer_than(const KernelSnapshot& snapshot) const { return follower_.version() != snapshot.version; }
    KernelSnapshot snapshot();
    /// Has `told` called once when there is something newer than the last snapshot; an empty one ends that.
    void on_change(std::function<void()> told) { follower_.on_change(std::move(told)); }

    struct Counts {
        uint64_t routes = 0, neighbours = 0, resyncs = 0, malformed = 0;
    };
    Counts counts() const;
    /// "routes" or "neighbours" as the kernel has told of them. Any thread.
    std::optional<ShownTable> show(std::string_view topic, size_t most) const;

private:
    void on_route(const RouteMessage& message) override { table_.on_route(message); }
    void on_nexthop(const NexthopMessage& message) override { table_.on_nexthop(message); }
    void on_neighbour(const NeighbourMessage& message) override { table_.on_neighbour(message); }
    void on_link(const LinkMessage& message) override { table_.on_link(message); }
    void on_answered(uint32_t sequence, int error, bool inconsistent) override;
    void on_malformed() override { follower_.on_malformed(); }

    void take(netlink::Bytes message, Source source) override;
    uint64_t version() const override { return table_.version(); }
    std::vector<Request> requests() const override;
    void begin_resync() override { table_.begin_resync(); }
    void end_resync() override { table_.end_resync(); }
    void on_hidden_change() override { table_.on_hidden_change(); }  // of both
    bool take_resync_wanted() override { return table_.take_resync_wanted(); }
    void on_refused(int error) override;
    Clock::time_point work(Clock::time_point now) override;

    const KernelOptions options_;
    MessageParser event_parser_{*this}, answer_parser_{*this};
    bool can_ask_ = true;  // about neighbours

    // By the follower's lock.
    KernelTable table_;
    LpmCopies<Ipv4Lpm> copies4_;
    LpmCopies<Ipv6Lpm> copies6_;
    std::shared_ptr<const KernelTable::Forwarding> forwarding_;
    uint64_t forwarding_version_ = 0;

    netlink::Follower follower_;  // goes first: its thread has all of the above
};

}  // namespace millrace::nf::router
