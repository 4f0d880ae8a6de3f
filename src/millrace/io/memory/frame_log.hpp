// Memory for contiguous frames of any length, in the order in which they come.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "millrace/io/receive_block.hpp"

namespace millrace::io {

/// Frames are written one behind the other, are taken out in receive blocks, and come back in order; then their memory
/// is used again. One thread at a time.
class FrameLog {
public:
    /// Room for `frames` at a time and `bytes` of them. Throws std::runtime_error when memory is short or 4 GiB are not
    /// enough.
    FrameLog(uint32_t frames, size_t bytes);
    ~FrameLog();
    FrameLog(const FrameLog&) = delete;
    FrameLog& operator=(const FrameLog&) = delete;

    /// Where a frame of so many bytes is to be written, which is part of the next block then. Null when there is no
    /// room, or when the block cannot go on as memory begins anew: take the block, and ask again.
    uint8_t* add(uint16_t bytes, uint16_t segment_bytes = 0);
    /// The frame that was added last is none.
    void take_out() { at_ = spot(--added_).offset; }
    /// The frames that were added since the last call. Only `memory`, `spots`, `count` and `has_uncut` of the block are
    /// set.
    ReceiveBlock take();
    /// The oldest `count` of those that were taken.
    void give_back(uint32_t count) { freed_ += count; }
    /// How many are out.
    uint32_t out() const { return static_cast<uint32_t>(taken_ - freed_); }
    /// What a device has to pin.
    std::span<uint8_t> memory() const { return {memory_, bytes_}; }

private:
    FrameSpot& spot(uint64_t number) { return spots_[number % spots_.size()]; }

    uint8_t* memory_ = nullptr;
    size_t bytes_;
    std::vector<FrameSpot> spots_;
    uint64_t added_ = 0, taken_ = 0, freed_ = 0;  // frames, since the beginning
    size_t at_ = 0;                               // where the next one goes
    bool has_uncut_ = false;                      // of those since the last block
};

}  // namespace millrace::io
