#include "millrace/exec/worker/control_gate.hpp"

#include <algorithm>
#include <optional>

#include "millrace/exec/engine.hpp"

namespace millrace::exec {

void ControlGate::follow(const chain::Configuration& configuration, const std::vector<bool>& taps) {
    taps_ = taps;
    followers_.clear();
    for (const auto& program : configuration.chains)
        for (const chain::Node& node : program->nodes)
            if (const auto* const follower = dynamic_cast<const nf::FollowsControl*>(node.nf.get()))
                followers_.push_back(follower);
    held_.resize(taps.size());
    // A burst may come on top.
    const size_t room = followers_.empty() ? 0 : 2 * kMaxHeld;
    for (size_t port = 0; port < taps.size(); ++port)
        if (taps[port]) held_[port].reserve(room);
    going_.reserve(room);
}

bool ControlGate::is_control(rte_mbuf* mbuf) const {
    Packet packet;
    attach_mbuf(packet, mbuf);
    packet.parse();
    return std::ranges::any_of(followers_, [&](const auto* follower) { return follower->is_control(packet); });
}

bool ControlGate::has_news() const {
    return std::ranges::any_of(followers_, [](const auto* follower) { return follower->has_news(); });
}

uint16_t ControlGate::keep(uint16_t port, std::span<rte_mbuf*> mbufs, bool all_at_work) {
    uint16_t go_on = 0;
    // Looked at behind the packets: what they speak of was told before they were sent.
    std::optional<bool> waits = held_[port].empty() ? std::nullopt : std::optional(true);
    for (rte_mbuf* const mbuf : mbufs) {
        const bool control = is_control(mbuf);
        if (control && !waits) waits = !all_at_work || has_news();
        if (!control || !*waits) {
            mbufs[go_on++] = mbuf;
            continue;
        }
        if (count_++ == 0) since_ = Clock::now();
        held_[port].push_back(mbuf);
    }
    return go_on;
}

bool ControlGate::opens(bool all_at_work, Clock::time_point now) const {
    return now - since_ >= kMaxWait || (all_at_work && !has_news());
}

}  // namespace millrace::exec
