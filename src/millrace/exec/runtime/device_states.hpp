// State per key that devices have, read beside the workers.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "millrace/device/owned_memory.hpp"
#include "millrace/exec/hybrid/placement.hpp"
#include "millrace/nf/state/state_reader.hpp"

namespace millrace::exec {

/// Any thread, one after the other. Its copies have a stream and memory of their own, set aside when a device gets the
/// first program with such state: workers do not wait for it.
class DeviceStates : public nf::StateReader {
public:
    /// `placement`: of chains that the CPU shares with the devices, or null.
    explicit DeviceStates(std::shared_ptr<Placement> placement) : placement_(std::move(placement)) {}

    /// A program that a device has, from now on until it is dropped. Throws device::DeviceError.
    void add(const std::shared_ptr<device::Device>& device, const std::shared_ptr<device::LoadedProgram>& program);

    bool on_device(const void* host) const override;
    bool read(std::span<const Piece> pieces) override;

private:
    struct Way {
        Way(std::shared_ptr<device::Device> to, device::StreamId its_stream, device::HostArray<uint8_t> its_memory)
            : device(std::move(to)), stream(its_stream), memory(std::move(its_memory)) {}
        const std::shared_ptr<device::Device> device;
        const device::StreamId stream;
        const device::HostArray<uint8_t> memory;
    };
    /// A state that a device has, and what keeps it there.
    struct Found {
        const Way* way = nullptr;
        device::Address address = 0;
        std::shared_ptr<device::LoadedProgram> program;
    };
    Found find(const void* host) const;
    static bool was_handed_over(const device::Device& device, const void* host);
    static bool arrive(device::Device& device, device::StreamId stream);

    const std::shared_ptr<Placement> placement_;
    std::mutex reading_;
    mutable std::mutex mutex_;
    std::vector<std::unique_ptr<Way>> ways_;
    std::vector<std::pair<size_t, std::weak_ptr<device::LoadedProgram>>> programs_;  // by number of their way
};

}  // namespace millrace::exec
