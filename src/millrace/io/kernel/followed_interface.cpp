#include "millrace/io/kernel/followed_interface.hpp"

#include <algorithm>
#include <exception>

namespace millrace::io {

void FollowedInterface::follow(std::function<void(const Interface&)> changed) {
    changed_ = std::move(changed);
    watch_ = std::make_unique<InterfaceWatch>([this] { update(); });
}

void FollowedInterface::leave() {
    watch_.reset();
    is_up_.store(false, std::memory_order_relaxed);
}

std::string FollowedInterface::trouble() const {
    const std::lock_guard lock(control_);
    return trouble_;
}

/// Only the watch calls it.
void FollowedInterface::update() {
    const Interface now = find_interface(name_);
    if (now.index == 0 || !now.is_up) is_up_.store(false, std::memory_order_relaxed);
    const std::lock_guard lock(control_);
    trouble_.clear();
    try {
        changed_(now);
    } catch (const std::exception& e) {
        is_up_.store(false, std::memory_order_relaxed);
        // It may have gone meanwhile, which the next call is about.
        if (find_interface(name_).index == now.index) trouble_ = name_ + ": " + e.what();
        return;
    }
    if (now.index == 0) return;
    mtu_.store(std::min(now.mtu, most_mtu_), std::memory_order_relaxed);
    speed_mbps_.store(now.speed_mbps, std::memory_order_relaxed);
    is_up_.store(now.is_up, std::memory_order_relaxed);
}

}  // namespace millrace::io
