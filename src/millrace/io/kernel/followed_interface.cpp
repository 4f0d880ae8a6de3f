#include "millrace/io/kernel/followed_interface.hpp"

#include <algorithm>
#include <cstring>
#include <exception>

namespace millrace::io {

void FollowedInterface::follow(std::function<void(const Interface&)> changed) {
    changed_ = std::move(changed);
    watch_ = std::make_unique<InterfaceWatch>(name_, [this] { update(); });
}

void FollowedInterface::leave() {
    watch_.reset();
    is_up_.store(false, std::memory_order_relaxed);
}

void FollowedInterface::on_change(std::function<void()> told) {
    const std::lock_guard lock(telling_);
    told_ = std::move(told);
}

std::array<uint8_t, 6> FollowedInterface::mac() const {
    const uint64_t bytes = mac_.load(std::memory_order_relaxed);
    std::array<uint8_t, 6> mac;
    std::memcpy(mac.data(), &bytes, mac.size());
    return mac;
}

void FollowedInterface::count_changes(std::map<std::string, uint64_t>& details) const {
    for (const auto& [name, count] : {std::pair{"link-changes", &link_changes_}, {"mtu-changes", &mtu_changes_}})
        if (*count != 0) details[name] += *count;
}

std::string FollowedInterface::trouble() const {
    const std::lock_guard lock(control_);
    return trouble_;
}

void FollowedInterface::set_up(bool is_up) {
    const bool was_up = is_up_.exchange(is_up, std::memory_order_relaxed);
    if (was_up != is_up && !is_first_) increase(link_changes_, 1);
}

/// Only the watch calls it.
void FollowedInterface::update() {
    const Interface now = find_interface(name_);
    take(now);
    is_first_ = false;
    const std::lock_guard lock(telling_);
    if (told_) told_();
}

void FollowedInterface::take(const Interface& now) {
    if (now.index == 0 || !now.is_up) set_up(false);
    const std::lock_guard lock(control_);
    trouble_.clear();
    try {
        changed_(now);
    } catch (const std::exception& e) {
        set_up(false);
        // It may have gone meanwhile, which the next call is about.
        if (find_interface(name_).index == now.index) trouble_ = name_ + ": " + e.what();
        return;
    }
    if (now.index == 0) return;
    const uint32_t mtu = std::min(now.mtu, most_mtu_);
    if (mtu_.exchange(mtu, std::memory_order_relaxed) != mtu && !is_first_) increase(mtu_changes_, 1);
    uint64_t mac = 0;
    std::memcpy(&mac, now.mac.data(), now.mac.size());
    mac_.store(mac, std::memory_order_relaxed);
    speed_mbps_.store(now.speed_mbps, std::memory_order_relaxed);
    set_up(now.is_up);
}

}  // namespace millrace::io
