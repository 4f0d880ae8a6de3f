// NFs that share no packet buffer: between two of them the frames go to the host and come back, which is what G-NET and
// Gaviss compare their shared buffers with.
#pragma once

#include <map>
#include <mutex>

#include "lab/compared/forwarding_device.hpp"

namespace millrace::lab {

/// For programs of a kernel for each NF (Mode::pipelined), whose frames lie in the packet buffer: those that kernels
/// read from the host's memory (TransferIn::zero_copy) are not moved.
class UnsharedDevice : public ForwardingDevice {
public:
    using ForwardingDevice::ForwardingDevice;
    ~UnsharedDevice() override;

    Status copy_to_device(StreamId stream, Address to, const void* from, size_t bytes) override;
    using ForwardingDevice::launch;
    Status launch(StreamId stream, const device::LoadedProgram& program, size_t step,
                  const device::BatchView& batch) override;

private:
    /// What the host has written, and where it has gone.
    struct Written {
        Address to;
        const uint8_t* from;
        size_t bytes;
    };
    /// What is known of a stream's batch.
    struct Batch {
        std::vector<Written> written;  ///< the descriptors of its frames among it
        size_t next = 0;               ///< the stage that no step has begun yet
        uint8_t* home = nullptr;       ///< pinned memory of the host, where frames go between two NFs
        size_t home_bytes = 0;
    };
    Batch& batch_of(StreamId stream);
    Status cross(StreamId stream, Batch& batch, const device::BatchView& view);

    std::mutex mutex_;
    std::map<StreamId, Batch> batches_;
};

}  // namespace millrace::lab
