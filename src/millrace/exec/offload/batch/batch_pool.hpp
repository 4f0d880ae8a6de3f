// All batches of an engine, and the device memory that they share.
#pragma once

#include <memory>
#include <vector>

#include "millrace/exec/offload/batch/batch.hpp"
#include "millrace/exec/offload/batch/batch_streams.hpp"
#include "millrace/exec/offload/memory/packet_ring.hpp"

namespace millrace::exec {

class BatchPool {
public:
    /// As many batches as may be in flight. Throws device::DeviceError when the device lacks memory.
    BatchPool(std::shared_ptr<device::Device> device, const OffloadOptions& options, uint32_t most_packets,
              bool wants_visits);
    /// None may be in flight, unless the device is gone.
    ~BatchPool();
    BatchPool(const BatchPool&) = delete;
    BatchPool& operator=(const BatchPool&) = delete;

    bool fits(const RingNeeds& needs) const { return has_.covers(needs); }
    /// Makes room for chains with such needs, too. No batch may be in flight.
    void fit(const RingNeeds& needs);

    /// Batches that are not in flight, and the next of them; there must be one.
    size_t idle() const { return idle_.size(); }
    Batch& next() const { return *idle_.back(); }
    /// A stream for what is done before `next()` begins.
    device::StreamId idle_stream() const { return streams_.idle(); }
    /// Puts `next()` in flight, with a piece of the packet ring for its layout; false while there is no room for that.
    bool begin();
    /// In order of launch.
    const std::vector<Batch*>& in_flight() const { return in_flight_; }
    /// Gives back the piece of the oldest batch in flight, whose packets are not delivered yet.
    void retire();
    /// Makes it idle, once they are.
    void end(Batch& batch);
    /// None is in flight any more; those that were.
    std::vector<Batch*> abandon();
    /// Lets all kernels that stay end, whatever they are at.
    void stop_residents() const;

private:
    void allocate(const RingNeeds& needs);

    const std::shared_ptr<device::Device> device_;
    const OffloadOptions& options_;
    const uint32_t most_packets_;
    PacketRing ring_{0};
    device::DeviceMemory ring_memory_;
    RingNeeds has_;  // room for these
    BatchStreams streams_;
    std::vector<std::unique_ptr<Batch>> batches_;
    std::vector<Batch*> idle_;
    std::vector<Batch*> in_flight_;  // a few, the oldest first
};

}  // namespace millrace::exec
