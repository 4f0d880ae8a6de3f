// Memory for contiguous frames.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "millrace/io/receive_block.hpp"

namespace millrace::io {

/// Room for frames of given lengths, one behind the other in one piece of memory, and what of it is out. Runs are taken
/// from any place and given back in the order in which they were taken. One thread at a time.
class FrameRing {
public:
    /// Throws std::runtime_error when memory is short, or the frames take more than 4 GiB.
    explicit FrameRing(std::span<const uint16_t> lengths);
    ~FrameRing();
    FrameRing(const FrameRing&) = delete;
    FrameRing& operator=(const FrameRing&) = delete;

    uint32_t frames() const { return static_cast<uint32_t>(spots_.size()); }
    uint8_t* frame(uint32_t i) { return memory_ + spots_[i].offset; }
    const uint8_t* frame(uint32_t i) const { return memory_ + spots_[i].offset; }
    /// What a device has to pin.
    std::span<uint8_t> memory() const { return {memory_, bytes_}; }

    /// At most `most` frames from place `at` on, fewer at the ring's end and where others are still out. Only `memory`,
    /// `spots` and `count` of the block are set.
    ReceiveBlock take(uint32_t at, uint32_t most);
    /// The oldest `count` that are out.
    void give_back(uint32_t count) { out_ -= count; }
    uint32_t out() const { return out_; }

private:
    uint8_t* memory_ = nullptr;
    size_t bytes_ = 0;
    std::vector<FrameSpot> spots_;
    uint32_t out_ = 0;
};

}  // namespace millrace::io
