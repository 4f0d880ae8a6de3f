#include "millrace/io/memory/frame_log.hpp"

#include <sys/mman.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace millrace::io {

FrameLog::FrameLog(uint32_t frames, size_t bytes) : spots_(frames) {
    constexpr size_t kHugePage = size_t{2} << 20;
    bytes_ = (bytes + kHugePage - 1) / kHugePage * kHugePage;
    if (bytes_ > UINT32_MAX) throw std::runtime_error("contiguous frames would take more than 4 GiB");
    void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw std::runtime_error("no memory for " + std::to_string(bytes_ >> 20) + " MiB of frames");
    madvise(memory, bytes_, MADV_HUGEPAGE);
    memory_ = static_cast<uint8_t*>(memory);
}

FrameLog::~FrameLog() { munmap(memory_, bytes_); }

uint8_t* FrameLog::add(uint16_t bytes, uint16_t segment_bytes) {
    const size_t room = (size_t{bytes} + kFrameSpacing - 1) / kFrameSpacing * kFrameSpacing;
    if (added_ - freed_ == spots_.size()) return nullptr;
    const bool runs_on = added_ != taken_;
    if (runs_on && added_ % spots_.size() == 0) return nullptr;         // spots begin anew
    const size_t first = added_ == freed_ ? at_ : spot(freed_).offset;  // the oldest that is in use
    const bool is_wrapped = added_ != freed_ && at_ <= first;
    if (is_wrapped ? room > first - at_ : room > bytes_ - at_) {
        // Behind the end memory goes on at its beginning, up to the oldest frame.
        if (is_wrapped || runs_on || room > (added_ == freed_ ? bytes_ : first)) return nullptr;
        at_ = 0;
    }
    uint8_t* const place = memory_ + at_;
    spot(added_++) = {static_cast<uint32_t>(at_), bytes, segment_bytes};
    has_uncut_ |= segment_bytes != 0;
    at_ += room;
    return place;
}

ReceiveBlock FrameLog::take() {
    ReceiveBlock block;
    block.memory = memory_;
    block.spots = &spot(taken_);
    block.count = static_cast<uint32_t>(added_ - taken_);
    block.has_uncut = std::exchange(has_uncut_, false);
    taken_ = added_;
    return block;
}

}  // namespace millrace::io
