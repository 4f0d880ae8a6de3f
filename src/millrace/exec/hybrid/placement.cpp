#include "millrace/exec/hybrid/placement.hpp"

#include <rte_cycles.h>

#include <algorithm>

namespace millrace::exec {
namespace {

// A packet costs that much until one has been seen.
constexpr double kFirstCostSeconds = 1e-6;
// So long with as many packets at once as may be, and the CPU does not keep up: a batch would be back from a device by
// then.
constexpr double kBehindSeconds = 100e-6;
constexpr double kWindowSeconds = 1e-3;
// Windows with less than so much of a core's work before it is the CPU's turn again. A load that swings goes to and fro
// no faster than this, and meets a few hundred microseconds of waiting when it does.
constexpr unsigned kLightWindows = 10;
constexpr double kLightShare = 0.6;
// What interrupts a worker is no work: packets count for so many times of what is usual at most.
constexpr double kMaxOfUsual = 4;

double hertz() { return static_cast<double>(rte_get_tsc_hz()); }

}  // namespace

Placement::Member::Member(std::shared_ptr<Placement> placement)
    : placement_(std::move(placement)), cost_(kFirstCostSeconds * hertz()) {
    placement_->members_.fetch_add(1);
    placement_->light_.fetch_add(1);
}

Placement::Member::~Member() {
    set_light(false);
    placement_->members_.fetch_sub(1);
}

void Placement::Member::set_light(bool light) {
    if (light == light_) return;
    light_ = light;
    if (light) placement_->light_.fetch_add(1);
    else placement_->light_.fetch_sub(1);
}

void Placement::Member::update(uint64_t now) {
    if (const double passed = static_cast<double>(now - window_); passed >= kWindowSeconds * hertz()) {
        light_windows_ = static_cast<double>(received_) * cost_ < kLightShare * passed ? light_windows_ + 1 : 0;
        received_ = 0;
        window_ = now;
    }
    uint64_t epoch = placement_->epoch_.load();
    const Place place = place_of(epoch);
    if (place != seen_ && place == Place::cpu) behind_ = 0;
    seen_ = place;
    bool over = false;
    switch (place) {
        case Place::cpu:
            over = behind_ > kBehindSeconds * hertz();
            if (!over) break;
            set_light(false);
            light_windows_ = 0;
            break;
        case Place::to_device: over = placement_->on_cpu_.load() == 0; break;
        case Place::device:
            set_light(light_windows_ >= kLightWindows);
            over = placement_->light_.load() == placement_->members_.load();
            break;
        case Place::to_cpu: over = placement_->batches_.load() == 0; break;
    }
    if (over) placement_->epoch_.compare_exchange_strong(epoch, epoch + 1);
}

bool Placement::Member::begin_on_cpu() {
    placement_->on_cpu_.fetch_add(1);
    if (placement_->place() == Place::cpu) return true;
    placement_->on_cpu_.fetch_sub(1);
    return false;
}

void Placement::Member::end_on_cpu(size_t packets, uint64_t cycles) {
    placement_->on_cpu_.fetch_sub(1);
    // Few packets cost more each, and get cheaper as they get more: that the CPU is busy with them says nothing.
    if (packets < kMaxAtOnce / 2) {
        behind_ = 0;
        return;
    }
    const double spent = std::min(static_cast<double>(cycles), kMaxOfUsual * cost_ * static_cast<double>(packets));
    behind_ = packets < kMaxAtOnce ? 0 : behind_ + spent;
    constexpr double kSmooth = 16;
    cost_ += (spent / static_cast<double>(packets) - cost_) / kSmooth;
}

bool Placement::Member::begin_batch() {
    placement_->batches_.fetch_add(1);
    if (placement_->place() == Place::device) return true;
    placement_->batches_.fetch_sub(1);
    return false;
}

}  // namespace millrace::exec
