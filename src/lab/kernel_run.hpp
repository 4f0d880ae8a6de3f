// What the kernels of a chain take, without workers and ports around them: alone, with the bus, and by network
// function.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/device/order_gate.hpp"
#include "millrace/io/source/traffic.hpp"

namespace millrace::lab {

struct KernelOptions {
    device::Mode mode = device::Mode::fused;
    uint32_t batch = 8192;       ///< packets
    double seconds = 0.05;       ///< for each figure
    unsigned most_rounds = 200;  ///< over which times of a batch are averaged
};

/// What was measured of batches whose whole frames are packed, and come back as the offload engine brings them.
struct KernelTimes {
    uint32_t batch = 0;
    double frame_bytes = 0;  ///< on average
    double batch_us = 0;     ///< all kernels of a batch that has the device to itself
    double kernel_rate = 0;  ///< packets a second through the kernels, with several batches there already
    double bus_rate = 0;     ///< the same with the way there and back
    struct Part {
        std::string name;  ///< an NF, or what else the kernels do
        double ns_per_packet = 0;
    };
    std::vector<Part> parts;  ///< of `batch_us`; kernels with several NFs are divided as their timed twins say
};

class KernelRun {
public:
    /// Makes streams, which a device keeps: one such object for a device.
    explicit KernelRun(device::Device& device);
    /// The first frames of `frames` through `program`. Throws device::DeviceError.
    KernelTimes measure(const std::shared_ptr<const chain::Program>& program, const io::TrafficFrames& frames,
                        const KernelOptions& options);

private:
    class Batch;
    using Batches = std::vector<std::unique_ptr<Batch>>;
    void number(device::BatchView& view);
    void launch(Batch& batch, const device::LoadedProgram& loaded);
    /// How long each step takes, in ns: `timed` says what of it each part takes, [step][part].
    std::vector<double> step_times(Batch& batch, const device::LoadedProgram& loaded, const KernelOptions& options,
                                   std::vector<std::vector<double>>* parts);
    double kernel_rate(const Batches& batches, const device::LoadedProgram& loaded, const KernelOptions& options);
    double bus_rate(const Batches& batches, const device::LoadedProgram& loaded, const KernelOptions& options);

    device::Device& device_;
    std::vector<device::StreamId> streams_;
    std::vector<std::shared_ptr<device::StateSequence>> sequences_;  // of the program that is measured
};

}  // namespace millrace::lab
