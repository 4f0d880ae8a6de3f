// A batch that runs again and again on a device, one step of a chain at a time: what its kernels take.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/chain/configuration.hpp"
#include "millrace/device/device.hpp"

namespace millrace::lab {

/// Batches of equal UDP frames, in host buffers as a NIC leaves them, one on each of a few streams.
class BatchProbe {
public:
    static constexpr size_t kPitch = 2368;  ///< from one buffer to the next, as packet pools lay them out
    static constexpr unsigned kDepth = 4;

    /// `nfs`: the chain, as in a configuration. Throws device::DeviceError.
    BatchProbe(std::shared_ptr<device::Device> device, const std::string& nfs, size_t packets, uint32_t frame_bytes);
    ~BatchProbe();
    BatchProbe(const BatchProbe&) = delete;
    BatchProbe& operator=(const BatchProbe&) = delete;

    /// What is put on a stream for each shape.
    struct Shape {
        size_t packets = 0;       ///< of the batch, that take part
        uint32_t present = 0;     ///< bytes of each frame that the device gets or reads
        bool gather = false;      ///< a kernel fetches them
        bool nodes = false;       ///< the chain runs, on the frames in the device's memory
        bool in_place = false;    ///< or in the host's
        uint32_t heads = 0;       ///< bytes of each frame that a kernel packs: in the device's memory,
        bool heads_home = false;  ///< or in the host's
        size_t copy_back = 0;     ///< bytes that are copied back at last
    };
    /// How long a shape takes when many follow on each other, in ns.
    double measure(const Shape& shape, double seconds);
    /// How long the calling thread takes to launch a kernel, in ns.
    double launch_ns(double seconds);

    uint8_t* frame(unsigned slot, size_t i) const { return slots_[slot].frames + i * kPitch; }
    uint8_t* back(unsigned slot) const { return slots_[slot].back; }
    size_t packets() const { return packets_; }

private:
    struct Slot {
        device::StreamId stream = 0;
        uint8_t *frames = nullptr, *descriptors = nullptr, *back = nullptr;
        device::Address memory = 0;
    };
    device::BatchView view(const Slot& slot, const Shape& shape) const;
    void put(Slot& slot, const Shape& shape);
    void prepare(const Shape& shape);
    void wait(Slot& slot);

    const std::shared_ptr<device::Device> device_;
    const size_t packets_;
    const uint32_t frame_bytes_, room_;
    std::shared_ptr<const chain::Program> program_;
    std::shared_ptr<device::LoadedProgram> loaded_;
    std::vector<Slot> slots_;
    size_t results_at_ = 0, packets_at_ = 0, decisions_at_ = 0, kept_at_ = 0, keys_at_ = 0, at_at_ = 0, counts_at_ = 0,
           events_at_ = 0, heads_at_ = 0, frames_at_ = 0, bytes_ = 0;
};

}  // namespace millrace::lab
