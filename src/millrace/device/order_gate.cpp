#include "millrace/device/order_gate.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "millrace/device/turns.hpp"

namespace millrace::device {

Device::Device() : Device(std::make_shared<OrderGate>()) {}
Device::Device(std::shared_ptr<OrderGate> gate) : order_gate_(std::move(gate)), turns_(std::make_unique<Turns>()) {}
Device::~Device() = default;

SharedState::SharedState(std::shared_ptr<Device> device, const StateArray& state)
    : device_(std::move(device)), owner_(state.owner), memory_(device_->allocate_host(state.whole_bytes)) {
    std::memcpy(memory_, state.host, state.whole_bytes);
}

SharedState::~SharedState() { device_->free_host(memory_); }

uint32_t* OrderGate::share(const std::shared_ptr<Device>& device, const StateArray& state) {
    const std::lock_guard lock(mutex);
    // Another state may have come to lie where one was before.
    std::erase_if(shared_, [](const auto& entry) { return entry.second->owner_.expired(); });
    auto& shared = shared_[state.host];
    if (shared == nullptr) shared = std::make_unique<SharedState>(device, state);
    return shared->words();
}

std::shared_ptr<StateSequence> OrderGate::sequence_of(const nf::Image& image) {
    const std::lock_guard lock(mutex);
    // Batches keep what they go by: where nobody has it, all are through.
    std::erase_if(sequences_, [](const auto& entry) { return entry.second.gone(); });
    std::shared_ptr<StateSequence> sequence;
    for (const nf::Image::Array& array : image.arrays()) {
        const auto known = sequences_.find(array.data);
        const auto its = known != sequences_.end() ? known->second.sequence.lock() : nullptr;
        if (its == nullptr || its == sequence) continue;
        if (sequence != nullptr) throw DeviceError("state of two network functions has come together in one");
        sequence = its;
    }
    if (sequence == nullptr) {
        auto place = std::ranges::find_if(taken_, [](const auto& one) { return one.expired(); });
        if (place == taken_.end() && taken_.size() == Sequencer::kPlaces)
            throw DeviceError("more than " + std::to_string(Sequencer::kPlaces) + " network functions have an order");
        if (place == taken_.end()) place = taken_.emplace(place);
        sequence = std::make_shared<StateSequence>(static_cast<uint32_t>(place - taken_.begin()));
        *place = sequence;
    }
    for (const nf::Image::Array& array : image.arrays())
        if (array.is_state()) sequences_[array.data] = {array.owner, sequence};
    return sequence;
}

std::shared_ptr<uint64_t> OrderGate::sequence_word(const std::shared_ptr<Device>& device) {
    const std::lock_guard lock(mutex);
    auto word = sequence_word_.lock();
    if (word == nullptr) {
        auto* const memory = static_cast<uint64_t*>(device->allocate_host(sizeof(uint64_t)));
        *memory = resident_sequences;
        // What frees it stays for as long as somebody looks whether the word is still there, as this gate does, which
        // is the device's: so it must not keep the device.
        word = {memory, [own = device](uint64_t* one) mutable { std::exchange(own, nullptr)->free_host(one); }};
        sequence_word_ = word;
    }
    return word;
}

}  // namespace millrace::device
