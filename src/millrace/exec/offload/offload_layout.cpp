// Where the frames of a batch lie in the packet buffer, and where they come from.
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "millrace/exec/offload/offload_batch.hpp"

namespace millrace::exec {

namespace {

/// From one packet of a pool to the next, as io::PacketPool lays them out.
ptrdiff_t stride_of(const rte_mempool& pool) { return ptrdiff_t{pool.header_size} + pool.elt_size + pool.trailer_size; }

}  // namespace

/// Places frames in the packet buffer, one behind the other. Offsets count from where the batch's frames begin.
class OffloadEngine::Layout {
public:
    Layout(Slot& to, size_t most_packets, size_t most_bytes, bool of_runs)
        : descriptors_(to.descriptors()), most_(most_packets), most_bytes_(most_bytes), prefix_(to.prefix_in),
          headroom_(to.headroom), tailroom_(to.tailroom), bytes_(first_frame(to.headroom, of_runs)) {}
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
    /// Places the next frames of a run; how many there was room for.
    uint32_t add(const io::FrameRun& run) {
        constexpr uint32_t kFew = 8, kAtOnce = 64;
        const auto most = static_cast<uint32_t>(std::min<size_t>(run.count, most_ - count_));  // of a backlog
        uint32_t n = 0;
        for (uint32_t wanted = 0, placed = 0; n < most && placed == wanted; n += placed) {
            const uint32_t alike = io::frames_alike(run.spots + n, most - n);
            wanted = alike >= kFew ? alike : std::min(most - n, kAtOnce);
            placed = alike >= kFew ? add_alike(run, n, alike) : add(wanted, [&](uint32_t i) {
                return Frame{run.data(n + i), run.spots[n + i].length, run.port};
            });
        }
        return n;
    }
    void finish(Slot& to) const {
        to.count = count_;
        to.pitch = pitch_;
        to.runs = runs_;
        to.frame_bytes = frame_bytes_;
        to.widest = widest_;
        to.slot_bytes = even_ ? room_ : 0;
        to.frames_bytes = bytes_;
    }

private:
    struct Frame {
        const uint8_t* data;
        uint16_t length, port;
    };
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
    /// Frames [first, first + wanted) of the run, of one length and at one distance.
    uint32_t add_alike(const io::FrameRun& run, uint32_t first, uint32_t wanted) {
        const uint32_t length = run.spots[first].length;
        const Share share = share_of(length);
        const size_t bytes_left = most_bytes_ - std::min<size_t>(bytes_, most_bytes_),
                     places = share.room == 0 ? SIZE_MAX : bytes_left / share.room;
        const auto n = static_cast<uint32_t>(std::min<size_t>({wanted, most_ - count_, places}));
        if (n == 0) return 0;
        device::FrameDescriptor* const to = descriptors_ + count_;
        for (uint32_t i = 0; i < n; ++i) write(to[i], bytes_ + i * share.room, length, share.present, run.port);
        const uint8_t* const data = run.data(first);
        const ptrdiff_t distance = n > 1 ? run.data(first + 1) - data : pitch_;
        runs_ += (data != expected_) + (distance != pitch_ ? n - 1 : 0);
        expected_ = run.data(first + n - 1) + pitch_;
        if (count_ == 0) room_ = share.room;
        even_ &= share.room == room_;
        frame_bytes_ += size_t{n} * share.present;
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
        frame_bytes_ += crossing;
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
    size_t count_ = 0, runs_ = 0, frame_bytes_ = 0;
    ptrdiff_t pitch_ = 0;
    const uint8_t* expected_ = nullptr;
    bool even_ = true;  // all at one distance
};

OffloadEngine::Layout OffloadEngine::lay_out_buffers(const ChainQueue& queue, Slot& slot, Layout layout) const {
    const std::span<const ChainQueue::Waiting> waiting = queue.packets();
    if (layout.most() > 0) layout.expect(stride_of(*waiting[0].mbuf->pool));
    const uint32_t n = layout.add(layout.most(), [&](uint32_t i) -> const ChainQueue::Waiting& { return waiting[i]; });
    for (uint32_t i = 0; i < n; ++i) {
        slot.mbufs.push_back(waiting[i].mbuf);
        slot.sources[i] = reinterpret_cast<uint64_t>(waiting[i].data);
    }
    return layout;
}

/// Notes what memory the frames take side by side, too. They land at the same distance from multiples of kFrameSpacing
/// as they were received.
OffloadEngine::Layout OffloadEngine::lay_out_runs(const ChainQueue& queue, Slot& slot, Layout layout) const {
    const io::FrameRun& front = queue.runs().front();
    // Of a single frame: what would be the distance to one of its length.
    const ptrdiff_t alone = (front.spots[0].length + io::kFrameSpacing - 1) / io::kFrameSpacing * io::kFrameSpacing;
    layout.expect(front.count > 1 ? static_cast<ptrdiff_t>(front.spots[1].offset - front.spots[0].offset) : alone);
    for (const io::FrameRun& run : queue.runs()) {
        const size_t first = layout.count();
        const uint32_t n = layout.add(run);
        if (n == 0) break;
        slot.frame_runs.push_back(run.part(0, n));
        const uint8_t* const from = run.data(0);
        const size_t bytes = static_cast<size_t>(run.data(n - 1) - from) + frame_aligned(run.spots[n - 1].length);
        const size_t before = slot.landing_bytes();
        if (before > 0) {
            Slot::Landing& last = slot.landings.back();
            const auto gap = from - (last.from + last.bytes);
            if (gap >= 0 && gap < io::kFrameSpacing) last.bytes = static_cast<size_t>(from - last.from) + bytes;
            else slot.landings.push_back({from, bytes, Slot::aligned(before), first});
        } else {
            slot.landings.push_back({from, bytes, 0, first});
        }
        if (n < run.count) break;
    }
    return layout;
}

/// Places the frames of the next batch and writes their descriptors, as many as fit; false when the packet
/// buffer has no room now.
bool OffloadEngine::lay_out(const ChainQueue& queue, Slot& slot) {
    const size_t most = std::min(queue.waiting(), queue.policy.most_packets);
    const bool whole = slot.prefix_in == chain::kWholeFrame;
    slot.headroom = whole ? queue.chain->program->head_growth() : 0;
    slot.tailroom = whole ? queue.chain->program->tail_growth() : 0;
    slot.mbufs.clear();
    slot.frame_runs.clear();
    slot.landings.clear();
    const Layout none(slot, most, options_.batch_bytes, queue.of_runs());
    (queue.of_runs() ? lay_out_runs(queue, slot, none) : lay_out_buffers(queue, slot, none)).finish(slot);
    choose_transfer(slot);
    slot.place();
    const size_t at = ring_.take(slot.piece_bytes);
    if (at == PacketRing::kNoRoom) return false;
    slot.ring_offset = at;
    return true;
}

}  // namespace millrace::exec
