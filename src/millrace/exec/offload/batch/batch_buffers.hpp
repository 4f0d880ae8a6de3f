// The memory of one batch, on both sides.
#pragma once

#include <memory>

#include "millrace/device/batch_work.hpp"
#include "millrace/device/owned_memory.hpp"
#include "millrace/exec/offload/memory/result_buffer.hpp"
#include "millrace/exec/offload/memory/piece_layout.hpp"

namespace millrace::exec {

/// Set aside once; none of it goes astray when there is not enough of it.
class BatchBuffers {
public:
    /// Room for `max_packets` and as many bytes of frames. Throws device::DeviceError.
    BatchBuffers(std::shared_ptr<device::Device> device, uint32_t max_packets, size_t max_bytes, bool wants_visits);
    ~BatchBuffers() { give_back_buffer(); }
    BatchBuffers(const BatchBuffers&) = delete;
    BatchBuffers& operator=(const BatchBuffers&) = delete;

    /// Makes room for what comes back of chains with such needs, in one of these.
    void fit(const RingNeeds& needs, std::shared_ptr<ResultBuffers> from);
    void give_back_buffer();

    /// All that the host writes before the frames: descriptors, sources, head.
    uint8_t* input() const { return input_.get(); }
    device::FrameDescriptor* descriptors() const { return reinterpret_cast<device::FrameDescriptor*>(input()); }
    /// Frames that the host packs.
    uint8_t* frames_in() const { return frames_in_.get(); }
    /// Where it comes back to, on the host, what lies at `at` in the piece: at its head, or behind.
    uint8_t* back(const PieceLayout& piece, size_t at) const { return result_buffer_->data() + (at - piece.head_at); }
    /// Where there are more events than come back at once.
    Event* more_events() const { return more_events_.get(); }
    /// Where more were emitted than there was room for, and their frames, if those received are others.
    LeftEvents* left() const { return left_.get(); }
    uint8_t* kept() const { return kept_.get(); }
    /// Where the device writes the journal of state per key; null: no chain keeps one.
    uint8_t* journal() const { return journal_.get(); }
    /// What every NF decided, on either side; null, and 0, unless asked for.
    Decision* visits() const { return visits_.get(); }
    device::Address device_visits() const { return device_visits_.address(); }
    /// A BatchWork of such needs.
    device::Address device_work() const { return device_work_.address(); }
    const device::WorkNeeds& work() const { return work_; }

    ResultBuffer& result_buffer() { return *result_buffer_; }
    /// Another buffer, if one is free, so that this one can be lent to packets; renew_buffer() follows then.
    ResultBuffer* spare_buffer() { return buffers_->take(); }
    void renew_buffer(ResultBuffer& fresh) { result_buffer_ = &fresh; }

private:
    const std::shared_ptr<device::Device> device_;
    const uint32_t max_packets_;
    const size_t max_bytes_;
    device::HostArray<uint8_t> frames_in_, input_, kept_, journal_;
    device::HostArray<Event> more_events_;
    device::HostArray<LeftEvents> left_;
    device::HostArray<Decision> visits_;
    device::WorkNeeds work_;
    device::DeviceMemory device_work_, device_visits_;
    std::shared_ptr<ResultBuffers> buffers_;
    ResultBuffer* result_buffer_ = nullptr;
};

}  // namespace millrace::exec
