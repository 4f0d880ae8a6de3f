#include "millrace/tenancy/manager/seat.hpp"

namespace millrace::tenancy {

void Past::add(const Attachment& attachment) {
    unasked += attachment.unasked();
    for (const auto& lane : attachment.lanes()) {
        const LaneCounters& counters = lane->counters();
        batches += counters.asked.get();
        on_device += counters.on_device.get();
        in_chain += counters.in_chain.get();
        late += counters.late.get();
        wrong += counters.wrong.get();
        counters.answer_ns.add_to(answer_ns);
        counters.stages.before_ns.add_to(before_ns);
        counters.stages.device_ns.add_to(device_ns);
        counters.stages.after_ns.add_to(after_ns);
        beside += counters.stages.beside.get();
    }
}

std::shared_ptr<Attachment> Seat::current() const {
    const std::lock_guard lock(mutex_);
    return state_.current;
}

std::shared_ptr<QueueCounters> Seat::new_counters() {
    const std::lock_guard lock(mutex_);
    return state_.counters.emplace_back(std::make_shared<QueueCounters>());
}

void Seat::seat(std::shared_ptr<Attachment> attachment) {
    const std::lock_guard lock(mutex_);
    state_.current = std::move(attachment);
    ++state_.attached;
    version_.fetch_add(1, std::memory_order_release);
}

void Seat::clear() {
    const std::lock_guard lock(mutex_);
    if (state_.current == nullptr) return;
    state_.last = state_.current->parting();
    ++state_.partings[static_cast<size_t>(state_.last)];
    state_.past.add(*state_.current);
    state_.current.reset();
    version_.fetch_add(1, std::memory_order_release);
}

Seat::State Seat::state() const {
    const std::lock_guard lock(mutex_);
    return state_;
}

}  // namespace millrace::tenancy
