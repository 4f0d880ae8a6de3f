#include "millrace/io/memory/frame_ring.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace millrace::io {

FrameRing::FrameRing(std::span<const uint16_t> lengths) {
    constexpr size_t kHugePage = size_t{2} << 20;
    spots_.reserve(lengths.size());
    for (const uint16_t length : lengths) {
        if (bytes_ > UINT32_MAX - UINT16_MAX) throw std::runtime_error("contiguous frames would take more than 4 GiB");
        spots_.push_back({static_cast<uint32_t>(bytes_), length});
        bytes_ += (size_t{length} + kFrameSpacing - 1) / kFrameSpacing * kFrameSpacing;
    }
    bytes_ = (std::max<size_t>(bytes_, 1) + kHugePage - 1) / kHugePage * kHugePage;
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw std::runtime_error("no memory for " + std::to_string(bytes_ >> 20) + " MiB of frames");
    madvise(memory, bytes_, MADV_HUGEPAGE);
    memory_ = static_cast<uint8_t*>(memory);
}

FrameRing::~FrameRing() { munmap(memory_, bytes_); }

ReceiveBlock FrameRing::take(uint32_t at, uint32_t most) {
    ReceiveBlock block;
    block.memory = memory_;
    block.spots = spots_.data() + at;
    block.count = std::min({most, frames() - at, frames() - out_});
    out_ += block.count;
    return block;
}

}  // namespace millrace::io
