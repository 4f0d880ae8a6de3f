// Where the frames of a batch lie: in the packet buffer, and where they were received.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <vector>

#include <rte_mbuf.h>

#include "millrace/exec/transfer/transfer.hpp"
#include "millrace/io/receive_block.hpp"

namespace millrace::exec {

/// What each frame takes in the packet buffer.
struct FrameRoom {
    uint32_t prefix = chain::kWholeFrame;  ///< bytes of it that cross the bus
    uint32_t headroom = 0, tailroom = 0;   ///< bytes free before and behind it
};

struct FrameLayout {
    FrameRoom room;
    size_t count = 0;
    size_t bytes = 0;      ///< of the packet buffer
    size_t crossing = 0;   ///< bytes of frames that are to be brought
    uint32_t widest = 0;   ///< the most of them that one frame has
    uint32_t spacing = 0;  ///< from one frame to the next in the packet buffer; 0: uneven
    size_t runs = 0;       ///< of frames that were received at one distance from each other
    ptrdiff_t pitch = 0;   ///< that distance
};

/// What a batch has to know of a packet besides its mbuf, taken down while that is in the CPU's caches.
struct MbufShape {
    uint16_t length, port;
};

/// Frames of mbufs, at one distance from these.
struct MbufFrames {
    rte_mbuf* const* mbufs;
    const MbufShape* shapes;
    size_t count;
    ptrdiff_t data;  ///< the distance

    const uint8_t* frame(size_t i) const { return reinterpret_cast<const uint8_t*>(mbufs[i]) + data; }
};

/// Places frames in the packet buffer, one behind the other. Offsets count from where the batch's frames begin.
class FramePlacer {
public:
    /// Writes to `descriptors`, which has room for `most_packets`. `scatter`: by a kernel (first_frame).
    FramePlacer(device::FrameDescriptor* descriptors, const FrameRoom& room, size_t most_packets, size_t most_bytes,
                bool scatter)
        : descriptors_(descriptors), most_(most_packets), most_bytes_(most_bytes), prefix_(room.prefix),
          headroom_(room.headroom), tailroom_(room.tailroom), bytes_(first_frame(room.headroom, scatter)) {}
    size_t most() const { return most_; }
    size_t count() const { return count_; }
    /// From one frame to the next, where they lie even.
    void expect(ptrdiff_t pitch) { pitch_ = pitch; }

    /// Places the next frames, of any lengths: frame(i) has the `data`, `length` and `port` of the i-th. How many of
    /// `wanted` there was room for.
    template <class FrameAt>
    uint32_t add(size_t wanted, const FrameAt& frame) {
        return prefix_ == chain::kWholeFrame ? add_each<true>(wanted, frame) : add_each<false>(wanted, frame);
    }
    /// The same of all of these.
    uint32_t add(const MbufFrames& frames);
    /// Places the next frames of a receive block; how many there was room for.
    uint32_t add(const io::ReceiveBlock& block) {
        constexpr uint32_t kFew = 8, kAtOnce = 64;
        const auto most = static_cast<uint32_t>(std::min<size_t>(block.count, most_ - count_));  // of a backlog
        uint32_t n = 0;
        for (uint32_t wanted = 0, placed = 0; n < most && placed == wanted; n += placed) {
            const uint32_t alike = io::frames_alike(block.spots + n, most - n);
            wanted = alike >= kFew ? alike : std::min(most - n, kAtOnce);
            placed = alike >= kFew ? add_alike(block, n, alike) : add(wanted, [&](uint32_t i) {
                return Frame{block.data(n + i), block.spots[n + i].length, block.port};
            });
        }
        return n;
    }
    FrameLayout layout() const {
        return {.room = {prefix_, headroom_, tailroom_},
                .count = count_,
                .bytes = bytes_,
                .crossing = crossing_,
                .widest = widest_,
                .spacing = even_ ? room_ : 0,
                .runs = runs_,
                .pitch = pitch_};
    }

    struct Frame {
        const uint8_t* data;
        uint16_t length, port;
    };

private:
    uint32_t add_sixteens(const MbufFrames& frames);
    /// What a frame takes: bytes of it that cross, and of the packet buffer.
    struct Share {
        uint32_t present, room;
    };
    Share share_of(uint32_t length) const {
        if (prefix_ == chain::kWholeFrame) return {length, frame_room(length, headroom_, tailroom_)};
        return {std::min(length, prefix_), frame_aligned(prefix_)};
    }
    /// By two stores, where the compiler would take five.
    static void write(device::FrameDescriptor& to, uint32_t offset, uint32_t length, uint32_t present, uint16_t port) {
        using Descriptor = device::FrameDescriptor;
        static_assert(std::endian::native == std::endian::little && offsetof(Descriptor, length) == 4 &&
                      offsetof(Descriptor, present) == 6 && offsetof(Descriptor, in_port) == 8 && sizeof to == 12);
        const uint64_t front = offset | uint64_t{length} << 32 | uint64_t{present} << 48;
        const uint32_t rest = port;
        auto* const bytes = reinterpret_cast<uint8_t*>(&to);
        std::memcpy(bytes, &front, sizeof front);
        std::memcpy(bytes + sizeof front, &rest, sizeof rest);
    }
    /// Frames [first, first + wanted) of the block, of one length and at one distance.
    uint32_t add_alike(const io::ReceiveBlock& block, uint32_t first, uint32_t wanted) {
        const uint32_t length = block.spots[first].length;
        const Share share = share_of(length);
        const size_t bytes_left = most_bytes_ - std::min<size_t>(bytes_, most_bytes_),
                     places = share.room == 0 ? SIZE_MAX : bytes_left / share.room;
        const auto n = static_cast<uint32_t>(std::min<size_t>({wanted, most_ - count_, places}));
        if (n == 0) return 0;
        device::FrameDescriptor* const to = descriptors_ + count_;
        for (uint32_t i = 0; i < n; ++i) write(to[i], bytes_ + i * share.room, length, share.present, block.port);
        const uint8_t* const data = block.data(first);
        const ptrdiff_t distance = n > 1 ? block.data(first + 1) - data : pitch_;
        runs_ += (data != expected_) + (distance != pitch_ ? n - 1 : 0);
        expected_ = block.data(first + n - 1) + pitch_;
        if (count_ == 0) room_ = share.room;
        even_ &= share.room == room_;
        crossing_ += size_t{n} * share.present;
        widest_ = std::max(widest_, share.present);
        bytes_ += n * share.room;
        count_ += n;
        return n;
    }
    /// What it counts is in registers meanwhile.
    template <bool whole, class FrameAt>
    uint32_t add_each(size_t wanted, const FrameAt& frame) {
        const auto most = static_cast<uint32_t>(std::min(wanted, most_ - count_));
        if (most == 0) return 0;
        device::FrameDescriptor* const to = descriptors_ + count_;
        const uint32_t headroom = headroom_, tailroom = tailroom_, prefix = prefix_;
        const uint32_t usual = count_ != 0 ? room_ : share_of(frame(0).length).room;
        const ptrdiff_t pitch = pitch_;
        const uint8_t* expected = expected_;
        uint32_t n = 0, bytes = bytes_, widest = widest_, differ = 0, breaks = 0;
        size_t crossing = 0;
        for (; n < most; ++n) {
            const auto& each = frame(n);
            const uint32_t length = each.length, present = whole ? length : std::min(length, prefix),
                           room = whole ? frame_room(length, headroom, tailroom) : usual;
            if (bytes + room > most_bytes_) break;
            write(to[n], bytes, length, present, each.port);
            differ |= room ^ usual;
            breaks += each.data != expected;
            expected = each.data + pitch;
            crossing += present;
            widest = std::max(widest, present);
            bytes += room;
        }
        runs_ += breaks;
        expected_ = expected;
        room_ = usual;
        even_ &= differ == 0;
        crossing_ += crossing;
        widest_ = widest;
        bytes_ = bytes;
        count_ += n;
        return n;
    }

    device::FrameDescriptor* descriptors_;
    size_t most_, most_bytes_;
    uint32_t prefix_, headroom_, tailroom_;
    uint32_t bytes_;  // of the packet buffer
    uint32_t room_ = 0, widest_ = 0;
    size_t count_ = 0, runs_ = 0, crossing_ = 0;
    ptrdiff_t pitch_ = 0;
    const uint8_t* expected_ = nullptr;
    bool even_ = true;  // all at one distance
};

/// Memory of contiguous frames, and where it is staged if it crosses the bus like that.
struct StagedRange {
    const uint8_t* from;
    size_t bytes, at;  ///< where among all of a batch
    size_t first;      ///< frame of the batch
};

class StagedRanges {
public:
    void reserve(size_t most) { all_.reserve(most); }
    void clear() { all_.clear(); }
    /// The frames from the batch's `first` on lie in `bytes` at `from`. Neighbours become one.
    void add(const uint8_t* from, size_t bytes, size_t first);
    /// With the gaps between them.
    size_t bytes() const { return all_.empty() ? 0 : all_.back().at + all_.back().bytes; }
    const std::vector<StagedRange>& all() const { return all_; }

private:
    std::vector<StagedRange> all_;
};

}  // namespace millrace::exec
