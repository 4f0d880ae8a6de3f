#include "millrace/exec/runtime/device_states.hpp"

#include <chrono>
#include <cstring>
#include <thread>

#include "millrace/device/order_gate.hpp"

namespace millrace::exec {

using device::Status;

void DeviceStates::add(const std::shared_ptr<device::Device>& device,
                       const std::shared_ptr<device::LoadedProgram>& program) {
    if (program->residents().empty()) return;
    const std::lock_guard lock(mutex_);
    std::erase_if(programs_, [](const auto& entry) { return entry.second.expired(); });
    size_t way = 0;
    while (way < ways_.size() && ways_[way]->device != device) ++way;
    if (way == ways_.size())
        ways_.push_back(
            std::make_unique<Way>(device, device->create_stream(), device::host_array<uint8_t>(*device, kMax)));
    programs_.emplace_back(way, program);
}

DeviceStates::Found DeviceStates::find(const void* host) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [way, weak] : programs_) {
        const std::shared_ptr<device::LoadedProgram> program = weak.lock();
        if (program == nullptr) continue;
        for (const device::StateArray& state : program->residents())
            if (state.host == host) return {ways_[way].get(), state.address, program};
    }
    return {};
}

bool DeviceStates::on_device(const void* host) const {
    const Found found = find(host);
    if (found.way == nullptr || found.way->device->state() != Status::ok) return false;
    return placement_ == nullptr || was_handed_over(*found.way->device, host);
}

/// Where the CPU has chains, too: whether the device was given the state, and has not given it back.
bool DeviceStates::was_handed_over(const device::Device& device, const void* host) {
    device::OrderGate& gate = *device.order_gate();
    const std::lock_guard lock(gate.mutex);
    const auto brought = gate.brought.find({&device, host});
    return brought != gate.brought.end() && !brought->second.has_returned;
}

bool DeviceStates::arrive(device::Device& device, device::StreamId stream) {
    constexpr std::chrono::microseconds kPatience{5'000'000}, kBetween{20};
    device::EventId arrived = 0;
    Status status = device.record(stream, arrived);
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (status == Status::ok && (status = device.query(arrived)) == Status::pending) {
        if (std::chrono::steady_clock::now() > until) return false;
        std::this_thread::sleep_for(kBetween);
        status = Status::ok;
    }
    return status == Status::ok;
}

bool DeviceStates::read(std::span<const Piece> pieces) {
    const std::lock_guard lock(reading_);
    if (pieces.empty()) return true;
    const Found found = find(pieces.front().host);
    if (found.way == nullptr) return false;
    const Way& way = *found.way;
    size_t at = 0;
    for (const Piece& piece : pieces) {
        const Found of = find(piece.host);
        if (of.way != found.way || at + piece.bytes > kMax) return false;
        if (way.device->copy_to_host(way.stream, way.memory.get() + at, of.address + piece.offset, piece.bytes) !=
            Status::ok)
            return false;
        at += piece.bytes;
    }
    if (!arrive(*way.device, way.stream)) return false;
    at = 0;
    for (const Piece& piece : pieces) {
        std::memcpy(piece.to, way.memory.get() + at, piece.bytes);
        at += piece.bytes;
    }
    return true;
}

}  // namespace millrace::exec
