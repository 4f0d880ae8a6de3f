#include "lab/compared/selective_device.hpp"

#include "millrace/exec/offload/batch/batch_results.hpp"

namespace millrace::lab {

/// References stay: one thread at a time works on a stream.
SelectiveDevice::Batch& SelectiveDevice::batch_of(StreamId stream) {
    const std::lock_guard lock(mutex_);
    return batches_[stream];
}

device::Status SelectiveDevice::launch(StreamId stream, const device::LoadedProgram& program, size_t step,
                                       const device::BatchView& view) {
    Batch& batch = batch_of(stream);
    batch = {.program = &program.program(),
             .frames = reinterpret_cast<Address>(view.frames),
             .results = reinterpret_cast<Address>(view.results),
             .count = view.count};
    return ForwardingDevice::launch(stream, program, step, view);
}

/// The frames lie before the results where they come back whole, and both in one copy.
device::Status SelectiveDevice::copy_to_host(StreamId stream, void* to, Address from, size_t bytes) {
    Batch& batch = batch_of(stream);
    const bool both = batch.count > 0 && batch.frames >= from && batch.frames < batch.results &&
                      batch.results < from + bytes;
    if (!both) return ForwardingDevice::copy_to_host(stream, to, from, bytes);
    auto* const host = static_cast<uint8_t*>(to);
    batch.host = host + (batch.frames - from);
    count_to_host(-static_cast<int64_t>(batch.results - batch.frames));
    const Status status = ForwardingDevice::copy_to_host(stream, host, from, batch.frames - from);
    if (status != Status::ok) return status;
    return ForwardingDevice::copy_to_host(stream, host + (batch.results - from), batch.results,
                                          from + bytes - batch.results);
}

device::Status SelectiveDevice::announce(StreamId stream, EventId& event) {
    const Status status = ForwardingDevice::announce(stream, event);
    Batch& batch = batch_of(stream);
    if (status != Status::ok || batch.host == nullptr || batch.told) return status;
    batch.told = true;
    const std::lock_guard lock(mutex_);
    left_out_[event] = stream;
    return status;
}

device::Status SelectiveDevice::query(EventId event) {
    StreamId stream = 0;
    {
        const std::lock_guard lock(mutex_);
        const auto found = left_out_.find(event);
        if (found == left_out_.end()) return ForwardingDevice::query(event);
        stream = found->second;
    }
    Batch& batch = batch_of(stream);
    if (batch.frames_here == 0) {
        const Status status = ForwardingDevice::query(event);
        if (status != Status::ok) return status;
        const Status asked = fetch(stream, batch);
        return asked == Status::ok ? Status::pending : asked;
    }
    const Status status = ForwardingDevice::query(batch.frames_here);
    if (status == Status::pending) return status;
    const std::lock_guard lock(mutex_);
    left_out_.erase(event);
    return status;
}

/// Asks for the frames of the packets that go on.
device::Status SelectiveDevice::fetch(StreamId stream, Batch& batch) {
    const size_t room = batch.results - batch.frames;
    const auto* const results = reinterpret_cast<const device::PacketResult*>(batch.host + room);
    for (uint32_t i = 0; i < batch.count; ++i) {
        const device::PacketResult& result = results[i];
        if (result.node() == device::kHostDecides || exec::target_of(*batch.program, result).kind == Target::Kind::drop)
            continue;
        if (size_t{result.offset} + result.length > room) return Status::failed;
        const Status status = ForwardingDevice::copy_to_host(stream, batch.host + result.offset,
                                                             batch.frames + result.offset, result.length);
        if (status != Status::ok) return status;
        count_to_host(result.length);
    }
    return ForwardingDevice::announce(stream, batch.frames_here);
}

}  // namespace millrace::lab
