// Packets of a control plane that wait until what it told before them is at work (nf::FollowsControl).
#pragma once

#include <rte_mbuf.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "millrace/chain/configuration.hpp"
#include "millrace/nf/follows_control.hpp"

namespace millrace::exec {

/// A worker's. What comes in by a tap passes, but for packets of a control plane while there is news of it; those
/// behind them wait as well, so that they stay in order.
class ControlGate {
public:
    using Clock = std::chrono::steady_clock;
    /// No packet waits for longer, whatever has become of the news.
    static constexpr std::chrono::milliseconds kMaxWait{500};
    /// That wait at once of a port: then no more are taken from it.
    static constexpr size_t kMaxHeld = 256;

    /// The network functions of a new generation; what waits goes on waiting. `taps`: by port, whether it is one.
    void follow(const chain::Configuration& configuration, const std::vector<bool>& taps);

    /// Whether what this port receives is to be shown to `keep`.
    bool watches(uint16_t port) const { return !followers_.empty() && taps_[port]; }
    bool is_full(uint16_t port) const { return held_[port].size() >= kMaxHeld; }
    size_t held() const { return count_; }

    /// Keeps those of a port's packets that have to wait, and returns how many go on: the first of `mbufs`.
    /// `all_at_work`: every worker has this generation.
    uint16_t keep(uint16_t port, std::span<rte_mbuf*> mbufs, bool all_at_work);
    /// Whether what waits may go on.
    bool opens(bool all_at_work, Clock::time_point now) const;
    /// Calls `go_on(port, mbufs)` for all that waits.
    template <class GoOn>
    void open(GoOn&& go_on) {
        count_ = 0;
        for (size_t port = 0; port < held_.size(); ++port) {
            if (held_[port].empty()) continue;
            going_.swap(held_[port]);
            go_on(static_cast<uint16_t>(port), std::span(going_));
            going_.clear();
        }
    }

private:
    bool is_control(rte_mbuf* mbuf) const;
    bool has_news() const;

    std::vector<const nf::FollowsControl*> followers_;  // of the generation that the worker has
    std::vector<bool> taps_;
    std::vector<std::vector<rte_mbuf*>> held_;  // by port
    std::vector<rte_mbuf*> going_;
    size_t count_ = 0;
    Clock::time_point since_{};  // of the first that waits
};

}  // namespace millrace::exec
