#include "millrace/exec/offload/frame_layout.hpp"

#include "millrace/exec/offload/piece_layout.hpp"
#include "millrace/exec/offload/place_avx512.hpp"

namespace millrace::exec {

namespace {
/// All that *_avx512.cpp files are compiled for.
const bool kHasAvx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                        __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
                        __builtin_cpu_supports("bmi2");
}  // namespace

uint32_t FramePlacer::add(const MbufFrames& frames) {
    const uint32_t n = kHasAvx512 && prefix_ == chain::kWholeFrame ? add_sixteens(frames) : 0;
    return n + add(frames.count - n, [&](uint32_t i) {
               return Frame{frames.frame(n + i), frames.shapes[n + i].length, frames.shapes[n + i].port};
           });
}

/// As many of them, in sixteens, as there is room for.
uint32_t FramePlacer::add_sixteens(const MbufFrames& frames) {
    static_assert(std::endian::native == std::endian::little && offsetof(MbufShape, port) == 2 &&
                  sizeof(MbufShape) == sizeof(uint32_t));
    const size_t count = std::min(frames.count, most_ - count_);
    if (count == 0) return 0;
    const uint32_t usual = count_ != 0 ? room_ : share_of(frames.shapes[0].length).room;
    avx512::Placing placing{.addresses = reinterpret_cast<const uint64_t*>(frames.mbufs),
                            .shapes = reinterpret_cast<const uint32_t*>(frames.shapes),
                            .count = static_cast<uint32_t>(count),
                            .around = headroom_ + tailroom_,
                            .most_bytes = most_bytes_,
                            .pitch = static_cast<uint64_t>(pitch_),
                            .expected = reinterpret_cast<uint64_t>(expected_) - static_cast<uint64_t>(frames.data),
                            .usual = usual,
                            .bytes = bytes_,
                            .widest = widest_};
    const uint32_t n = avx512::place(placing, reinterpret_cast<uint8_t*>(descriptors_ + count_));
    if (n == 0) return 0;
    bytes_ = placing.bytes;
    widest_ = placing.widest;
    crossing_ += placing.crossing;
    runs_ += placing.breaks;
    room_ = usual;
    even_ &= placing.differ == 0;
    expected_ = frames.frame(n - 1) + pitch_;
    count_ += n;
    return n;
}

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
