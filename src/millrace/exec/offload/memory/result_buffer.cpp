#include "millrace/exec/offload/memory/result_buffer.hpp"

namespace millrace::exec {

ResultBuffers::ResultBuffers(std::shared_ptr<device::Device> device, unsigned count, size_t bytes_each)
    : device_(std::move(device)) {
    for (unsigned i = 0; i < count; ++i) {
        auto buffer = std::make_unique<ResultBuffer>();
        buffer->data_ = device::host_array<uint8_t>(*device_, bytes_each);
        buffer->bytes_ = bytes_each;
        buffer->buffers_ = this;
        buffer->shared_.free_cb = ResultBuffer::freed;
        buffer->shared_.fcb_opaque = buffer.get();
        buffers_.push_back(std::move(buffer));
    }
}

ResultBuffer* ResultBuffers::take() {
    // Always the first that is free: few buffers that are used again and again stay in the last-level cache.
    for (const auto& buffer : buffers_) {
        if (!buffer->free_.load(std::memory_order_acquire)) continue;
        buffer->free_.store(false, std::memory_order_relaxed);
        return buffer.get();
    }
    return nullptr;
}

void ResultBuffer::lend(uint16_t packets) {
    owner_ = buffers_->shared_from_this();
    rte_mbuf_ext_refcnt_set(&shared_, packets);
}

void ResultBuffer::freed(void*, void* opaque) {
    auto& buffer = *static_cast<ResultBuffer*>(opaque);
    // The buffers may end with this one.
    const std::shared_ptr<ResultBuffers> owner = std::move(buffer.owner_);
    owner->give_back(buffer);
}

}  // namespace millrace::exec
