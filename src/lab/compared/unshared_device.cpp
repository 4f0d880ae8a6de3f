#include "lab/compared/unshared_device.hpp"

#include <algorithm>

namespace millrace::lab {

UnsharedDevice::~UnsharedDevice() {
    for (const auto& [stream, batch] : batches_)
        if (batch.home != nullptr) behind().free_host(batch.home);
}

/// References stay: one thread at a time works on a stream.
UnsharedDevice::Batch& UnsharedDevice::batch_of(StreamId stream) {
    const std::lock_guard lock(mutex_);
    return batches_[stream];
}

device::Status UnsharedDevice::copy_to_device(StreamId stream, Address to, const void* from, size_t bytes) {
    batch_of(stream).written.push_back({to, static_cast<const uint8_t*>(from), bytes});
    return ForwardingDevice::copy_to_device(stream, to, from, bytes);
}

device::Status UnsharedDevice::launch(StreamId stream, const device::LoadedProgram& program, size_t step,
                                      const device::BatchView& view) {
    using Kind = device::Step::Kind;
    Batch& batch = batch_of(stream);
    const device::Step& own = program.steps()[step];
    const bool works = (own.kind == Kind::nodes && own.last > own.first) || own.kind == Kind::tickets;
    Status status = Status::ok;
    if (works && own.first >= batch.next) {
        if (own.first > 0) status = cross(stream, batch, view);
        batch.next = own.first + size_t{1};
    }
    if (status == Status::ok) status = ForwardingDevice::launch(stream, program, step, view);
    if (step + 1 == program.steps().size()) {  // what comes next is of another batch
        batch.written.clear();
        batch.next = 0;
    }
    return status;
}

/// The frames, with the room around them that NFs may have used.
device::Status UnsharedDevice::cross(StreamId stream, Batch& batch, const device::BatchView& view) {
    if (view.in_place || view.count == 0) return Status::ok;
    const auto at = reinterpret_cast<Address>(view.descriptors);
    const auto has_them = [&](const Written& one) {
        return at >= one.to && at + view.count * sizeof(device::FrameDescriptor) <= one.to + one.bytes;
    };
    const auto written = std::find_if(batch.written.begin(), batch.written.end(), has_them);
    if (written == batch.written.end()) return Status::failed;
    const auto* const descriptors = reinterpret_cast<const device::FrameDescriptor*>(written->from +
                                                                                     (at - written->to));
    size_t from = SIZE_MAX, to = 0;
    for (uint32_t i = 0; i < view.count; ++i) {
        const device::FrameDescriptor& frame = descriptors[i];
        from = std::min<size_t>(from, frame.offset - std::min<uint32_t>(frame.offset, view.headroom));
        to = std::max<size_t>(to, size_t{frame.offset} + frame.present + view.tailroom);
    }
    const size_t bytes = to - from;
    if (batch.home_bytes < bytes) {
        if (batch.home != nullptr) behind().free_host(batch.home);
        batch.home = static_cast<uint8_t*>(behind().allocate_host(bytes));
        batch.home_bytes = bytes;
    }
    const Address frames = reinterpret_cast<Address>(view.frames) + from;
    Status status = ForwardingDevice::copy_to_host(stream, batch.home, frames, bytes);
    if (status == Status::ok) status = ForwardingDevice::copy_to_device(stream, frames, batch.home, bytes);
    count_to_host(static_cast<int64_t>(bytes));
    count_to_device(static_cast<int64_t>(bytes));
    return status;
}

}  // namespace millrace::lab
