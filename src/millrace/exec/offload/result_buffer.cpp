#include "millrace/exec/offload/result_buffer.hpp"

namespace millrace::exec {

ResultBuffers::ResultBuffers(std::shared_ptr<device::Device> device, unsigned count, size_t bytes_each)
    : device_(std::move(device)) {
    for (unsigned i = 0; i < count; ++i) {
        auto region = std::make_unique<ResultBuffer>();
        region->data_ = device::host_array<uint8_t>(*device_, bytes_each);
        region->bytes_ = bytes_each;
        region->regions_ = this;
        region->shared_.free_cb = ResultBuffer::freed;
        region->shared_.fcb_opaque = region.get();
        regions_.push_back(std::move(region));
    }
}

ResultBuffer* ResultBuffers::take() {
    // Always the first that is free: few regions that are used again and again stay in the last-level cache.
    for (const auto& region : regions_) {
        if (!region->free_.load(std::memory_order_acquire)) continue;
        region->free_.store(false, std::memory_order_relaxed);
        return region.get();
    }
    return nullptr;
}

void ResultBuffer::lend(uint16_t packets) {
    owner_ = regions_->shared_from_this();
    rte_mbuf_ext_refcnt_set(&shared_, packets);
}

void ResultBuffer::freed(void*, void* opaque) {
    auto& region = *static_cast<ResultBuffer*>(opaque);
    // The regions may end with this one.
    const std::shared_ptr<ResultBuffers> owner = std::move(region.owner_);
    owner->give_back(region);
}

}  // namespace millrace::exec
