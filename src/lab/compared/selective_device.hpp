// Frames that come back one by one: a copy for each packet that is not dropped, once the host knows which those are
// (Gaviss, section 4.2, compares the whole packet buffer with it).
#pragma once

#include <map>
#include <mutex>

#include "lab/compared/forwarding_device.hpp"

namespace millrace::lab {

/// Leaves the frames out of the copy that brings a batch back, and fetches those of packets that go on before it says
/// that the batch is there. Where only heads of frames come back, they do so as ever.
class SelectiveDevice : public ForwardingDevice {
public:
    using ForwardingDevice::ForwardingDevice;

    using ForwardingDevice::launch;
    Status launch(StreamId stream, const device::LoadedProgram& program, size_t step,
                  const device::BatchView& batch) override;
    Status copy_to_host(StreamId stream, void* to, Address from, size_t bytes) override;
    Status announce(StreamId stream, EventId& event) override;
    Status query(EventId event) override;

private:
    /// A stream's batch.
    struct Batch {
        const chain::Program* program = nullptr;  ///< of the engine, which keeps it as long as the batch
        Address frames = 0, results = 0;
        uint32_t count = 0;
        uint8_t* host = nullptr;  ///< where what lies at `frames` comes to; null: it has not been left out
        bool told = false;        ///< its end has been announced
        EventId frames_here = 0;  ///< tells that the frames are; 0: they have not been asked for
    };
    Batch& batch_of(StreamId stream);
    Status fetch(StreamId stream, Batch& batch);

    std::mutex mutex_;
    std::map<StreamId, Batch> batches_;
    std::map<EventId, StreamId> left_out_;  // events of batches whose frames are still to come
};

}  // namespace millrace::lab
