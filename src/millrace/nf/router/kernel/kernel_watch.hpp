// Follows the kernel's routes, neighbours and links over netlink, in a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "millrace/base/netlink.hpp"
#include "millrace/base/reporter.hpp"
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
class KernelWatch : private MessageListener {
public:
    /// Returns when the kernel has told all that there is. Throws std::runtime_error when it does not tell.
    KernelWatch(KernelOptions options, Location where, Reporter warn);
    ~KernelWatch() override;

    const KernelOptions& options() const { return options_; }
    /// Whether there is something newer than a snapshot; cheap.
    bool is_newer_than(const KernelSnapshot& snapshot) const { return version_.load() != snapshot.version; }
    KernelSnapshot snapshot();
    /// Has `told` called once when there is something newer than the last snapshot; an empty one ends that.
    void on_change(std::function<void()> told);

    struct Counts {
        uint64_t routes = 0, neighbours = 0, resyncs = 0, malformed = 0;
    };
    Counts counts() const;
    /// "routes" or "neighbours" as the kernel has told of them. Any thread.
    std::optional<ShownTable> show(std::string_view topic, size_t most) const;

private:
    using Clock = std::chrono::steady_clock;
    static int open_socket(const std::vector<unsigned>& groups);

    void on_route(const RouteMessage& message) override { table_.on_route(message); }
    void on_nexthop(const NexthopMessage& message) override { table_.on_nexthop(message); }
    void on_neighbour(const NeighbourMessage& message) override { table_.on_neighbour(message); }
    void on_link(const LinkMessage& message) override { table_.on_link(message); }
    void on_hidden_change() override { table_.on_hidden_change(); }
    void on_answered(uint32_t sequence, int error, bool inconsistent) override;
    void on_malformed() override;

    void run();
    void look_once();
    bool receive(const netlink::Descriptor& socket, MessageParser& parser);
    void tell_of_change();
    void dump(uint16_t type, uint8_t family, int may_fail_by = 0);
    void dump_all();
    void resync();
    void ask_about_neighbours(Clock::time_point now);
    void tell(const std::string& message, const std::string& hint) const;

    const KernelOptions options_;
    const Location where_;
    const Reporter warn_;
    const netlink::Descriptor events_, requests_, questions_, stop_;
    MessageParser event_parser_{*this}, answer_parser_{*this}, question_parser_{*this};
    std::vector<uint8_t> buffer_;
    uint32_t sequence_ = 0, answered_ = 0;  // questions are number 0
    int answer_error_ = 0;
    bool can_ask_ = true;
    Clock::time_point asked_{};            // about neighbours
    Clock::time_point resync_wanted_{};    // since when; the epoch: not
    Clock::time_point resync_possible_{};  // from when on

    mutable std::mutex mutex_;  // what is below
    KernelTable table_;
    LpmCopies<Ipv4Lpm> copies4_;
    LpmCopies<Ipv6Lpm> copies6_;
    std::shared_ptr<const KernelTable::Forwarding> forwarding_;
    uint64_t forwarding_version_ = 0;
    Counts counts_;
    uint64_t snapshot_version_ = 0;     // of the last one
    bool has_told_ = false;             // since then
    std::atomic<uint64_t> version_{0};  // of the table
    std::atomic<bool> stopping_{false};
    std::mutex telling_;  // what is below; no other lock is held then
    std::function<void()> told_;
    std::thread thread_;
};

}  // namespace millrace::nf::router
