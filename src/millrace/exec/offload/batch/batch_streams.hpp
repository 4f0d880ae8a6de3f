// The streams of an engine's batches.
#pragma once

#include <memory>
#include <vector>

#include "millrace/device/device.hpp"

namespace millrace::exec {

/// Each batch in flight has a stream of its own, on the multiprocessors of its chain. Streams stay where they were
/// last, as chains come again, until another partition needs one. On the worker's thread.
class BatchStreams {
public:
    /// `depth`: batches in flight, at most; `timed`: for a timeline. Throws device::DeviceError.
    BatchStreams(std::shared_ptr<device::Device> device, unsigned depth, bool timed);
    /// One that nobody has.
    device::StreamId take(schedule::SmRange sms);
    void give(device::StreamId stream);
    /// One that nobody has, for what is done before the next batch begins; there must be one.
    device::StreamId idle() const;

private:
    /// Streams for each batch, at most: so many partitions have theirs at hand.
    static constexpr size_t kPartitions = 4;
    struct Own {
        device::StreamId id;
        schedule::SmRange sms;
        bool taken;
    };
    const std::shared_ptr<device::Device> device_;
    const bool timed_;
    const size_t most_;
    std::vector<Own> streams_;
};

}  // namespace millrace::exec
