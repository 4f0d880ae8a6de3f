#include "millrace/exec/offload/memory/frame_layout.hpp"

#include "millrace/exec/offload/memory/piece_layout.hpp"

namespace millrace::exec {

void StagedRanges::add(const uint8_t* from, size_t bytes, size_t first) {
    if (all_.empty()) {
        all_.push_back({from, bytes, 0, first});
        return;
    }
    StagedRange& last = all_.back();
    const auto gap = from - (last.from + last.bytes);
    if (gap >= 0 && gap < io::kFrameSpacing) last.bytes = static_cast<size_t>(from - last.from) + bytes;
    else all_.push_back({from, bytes, PieceLayout::aligned(this->bytes()), first});
}

}  // namespace millrace::exec
