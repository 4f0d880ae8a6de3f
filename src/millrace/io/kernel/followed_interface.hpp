// The interface that a port is at.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "millrace/io/kernel/interface.hpp"
#include "millrace/io/port.hpp"

namespace millrace::io {

/// It may go down, change its MTU, or vanish and come back while the port is at work.
class FollowedInterface {
public:
    /// Down until it is followed. `mtu`: what it has; `most_mtu`: the longest that the port sends.
    FollowedInterface(std::string name, uint32_t mtu, uint32_t most_mtu = std::numeric_limits<uint32_t>::max())
        : name_(std::move(name)), most_mtu_(most_mtu), mtu_(mtu) {}

    /// Has `changed` told what the interface is, at once and whenever that changes, by a thread of its own that holds
    /// `control` then. While it throws the port is down, and what it says is the port's trouble.
    void follow(std::function<void(const Interface&)> changed);
    /// From now on it is down. Nobody may hold `control`.
    void leave();

    /// Has `told` called behind each change that `changed` was told of; an empty one ends that. Any thread.
    void on_change(std::function<void()> told);

    // Any thread.
    bool is_up() const { return is_up_.load(std::memory_order_relaxed); }
    uint32_t mtu() const { return mtu_.load(std::memory_order_relaxed); }
    LinkState link() const { return {.up = is_up(), .speed_mbps = speed_mbps_.load(std::memory_order_relaxed)}; }
    std::array<uint8_t, 6> mac() const;
    /// "link-changes" and "mtu-changes" since it is followed, those that there were. Several in a row may look like
    /// one.
    void count_changes(std::map<std::string, uint64_t>& details) const;
    std::string trouble() const;
    /// Of what `changed` changes; never of a worker.
    std::mutex& control() const { return control_; }

private:
    void update();
    void take(const Interface& now);
    void set_up(bool is_up);

    const std::string name_;
    const uint32_t most_mtu_;
    std::atomic<bool> is_up_{false};
    std::atomic<uint32_t> mtu_, speed_mbps_{0};
    std::atomic<uint64_t> mac_{0};  // its bytes, the first one lowest
    std::atomic<uint64_t> link_changes_{0}, mtu_changes_{0};
    bool is_first_ = true;        // of the watch
    mutable std::mutex control_;  // what is below, but for the watch
    std::function<void(const Interface&)> changed_;
    std::string trouble_;
    std::mutex telling_;  // what is below, but for the watch
    std::function<void()> told_;
    std::unique_ptr<InterfaceWatch> watch_;
};

/// A port at an interface, which a derived one follows, and leaves when it is closed.
class InterfacePort : public Port {
public:
    bool exhausted() const override { return closed_; }
    LinkState link() const override { return followed_.link(); }
    uint32_t mtu() const override { return followed_.mtu(); }
    std::array<uint8_t, 6> mac() const override { return followed_.mac(); }
    std::string trouble() const override { return followed_.trouble(); }
    bool on_change(const std::function<void()>& told) override {
        followed_.on_change(told);
        return true;
    }

protected:
    /// `mtu` and `most_mtu` are FollowedInterface's.
    InterfacePort(PortInfo info, const std::string& interface, uint32_t mtu,
                  uint32_t most_mtu = std::numeric_limits<uint32_t>::max())
        : Port(std::move(info)), followed_(interface, mtu, most_mtu) {}

    std::atomic<bool> closed_{false};
    PortCounters last_;  // of a port that is closed
    FollowedInterface followed_;
};

}  // namespace millrace::io
