// What the watch leaves out.
#pragma once

#include <memory>

#include "exec/contract/watch.hpp"
#include "millrace/device/sim/sim_device.hpp"

namespace millrace::test {

using device::Status;
using device::sim::SimDevice;

/// The one exception. A simulated GPU does the work of a driver, a bus and a GPU within the calls that a worker makes:
/// its queues of operations allocate, its mutex keeps streams apart, and its kernels run there. On a machine with a GPU
/// none of this is the worker's. Only the inside of these calls is left out; what the executor does around them counts.
class PlayedGpu : public SimDevice {
public:
    using SimDevice::SimDevice;

    Status copy_to_device(device::StreamId stream, device::Address to, const void* from, size_t bytes) override {
        const Exempt inside;
        return SimDevice::copy_to_device(stream, to, from, bytes);
    }
    Status copy_to_host(device::StreamId stream, void* to, device::Address from, size_t bytes) override {
        const Exempt inside;
        return SimDevice::copy_to_host(stream, to, from, bytes);
    }
    Status copy_rows_to_device(device::StreamId stream, device::Address to, size_t to_pitch, const void* from,
                               size_t from_pitch, size_t width, size_t rows) override {
        const Exempt inside;
        return SimDevice::copy_rows_to_device(stream, to, to_pitch, from, from_pitch, width, rows);
    }
    Status launch(device::StreamId stream, const device::LoadedProgram& program, size_t step,
                  const device::BatchView& batch) override {
        const Exempt inside;
        return SimDevice::launch(stream, program, step, batch);
    }
    Status record(device::StreamId stream, device::EventId& event) override {
        const Exempt inside;
        return SimDevice::record(stream, event);
    }
    Status wait(device::StreamId stream, Device& of, device::EventId event) override {
        const Exempt inside;
        return SimDevice::wait(stream, of, event);
    }
    Status query(device::EventId event) override {
        const Exempt inside;
        return SimDevice::query(event);
    }
    uint64_t time_ns(device::EventId event) override {
        const Exempt inside;
        return SimDevice::time_ns(event);
    }
    std::shared_ptr<device::Resident> start_resident(std::shared_ptr<device::LoadedProgram> program,
                                                     unsigned depth) override {
        return std::make_shared<Played>(SimDevice::start_resident(std::move(program), depth));
    }

private:
    class Played : public device::Resident {
    public:
        explicit Played(std::shared_ptr<device::Resident> resident) : resident_(std::move(resident)) {}
        Status submit(const device::ResidentBatch& batch, uint64_t& number) override {
            const Exempt inside;
            return resident_->submit(batch, number);
        }
        Status query(uint64_t number) override {
            const Exempt inside;
            return resident_->query(number);
        }
        void stop() override { resident_->stop(); }

    private:
        const std::shared_ptr<device::Resident> resident_;
    };
};

}  // namespace millrace::test
