// A worker's batches of a function whose process has a part in each: CPU stages around a device half.
#pragma once

#include <array>
#include <chrono>
#include <span>
#include <vector>

#include "millrace/base/histogram.hpp"
#include "millrace/tenancy/gpu/confined.hpp"

namespace millrace::tenancy {

/// One writer, any number of readers.
struct RotationCounters {
    Histogram before_ns, device_ns, after_ns;  ///< from a stage's question to its answer, by batches
    Counter beside;                            ///< CPU stages that ended while the device had another batch
};

/// Each batch goes from the process to the device and back to the process (G-NET, section 6). There are kSlots of them
/// at a time, so that all three have something to do. Batches keep their order. One thread; asked and answered as
/// ConfinedLane is.
class Rotation {
public:
    using Clock = std::chrono::steady_clock;
    using Reply = ConfinedLane::Reply;

    Rotation(Exchange& exchange, RotationCounters& counters) : exchange_(exchange), counters_(counters) {}

    /// From now on batches go to this lane of a function that has such stages. Nothing waits.
    void use(ConfinedLane& device, const nf::CpuStages& stages);
    bool has_room(const schedule::GpuShare& share);
    bool ask(std::span<const Shown> packets, uint64_t id, Clock::time_point now);
    /// Moves on whatever is done with its stage, and takes the oldest batch, if that was its last one.
    Reply take(Exchange::Taken& taken, Clock::time_point now);
    /// Gives the oldest batch up, wherever it is.
    uint64_t give_up();
    /// Batches by where they are; those that the device has found wrong wait for those before them.
    size_t in_before() const { return device_ == nullptr ? 0 : device_->waiting() - device_->started(); }
    size_t on_device() const { return device_ == nullptr ? 0 : device_->started(); }
    size_t in_after() const { return in_after_; }
    size_t waiting() const { return in_before() + on_device() + in_after_ + (wrong_ ? 1 : 0); }

private:
    /// What is needed of a batch for the stage after the device.
    struct Batch {
        struct OfPacket {
            About about;
            uint16_t bytes, back_bytes;
        };
        uint64_t id = 0;
        Clock::time_point since;  ///< of its stage
        std::vector<OfPacket> packets;
    };
    Batch& batch(uint64_t number) { return batches_[number % kSlots]; }
    void start(std::span<const uint32_t> arguments, Clock::time_point now);
    Reply take_from_process(Exchange::Taken& taken, Clock::time_point now);
    Reply take_from_device(Exchange::Taken& taken, Clock::time_point now);
    void ask_after(Batch& own, Clock::time_point now);
    static uint64_t passed(const Batch& own, Clock::time_point now);

    Exchange& exchange_;
    RotationCounters& counters_;
    ConfinedLane* device_ = nullptr;
    nf::CpuStages stages_;
    std::array<Batch, kSlots> batches_;
    uint64_t oldest_ = 0;  // the number of the oldest batch
    size_t in_after_ = 0;
    bool wrong_ = false;  // the batch behind those is
    Exchange::Taken between_;
    std::vector<Decision> decisions_;
    std::vector<Shown> shown_;
};

}  // namespace millrace::tenancy
