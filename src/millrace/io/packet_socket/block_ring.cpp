#include "millrace/io/packet_socket/block_ring.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "millrace/io/packet_socket/ring_header.hpp"
#include "millrace/packet/bytes.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::io {
namespace {

constexpr uint32_t kBeforeEach = 4;   // so that frames begin at a multiple of 8
constexpr uint32_t kLeastFrame = 96;  // bytes of a block that each takes

}  // namespace

BlockRing::BlockRing(const ReceiveRingOptions& options) : ReceiveRing(TPACKET_V3, kBeforeEach) {
    tpacket_req3 request{};
    request.tp_block_size = kBlockBytes;
    request.tp_block_nr = kBlocks;
    request.tp_frame_size = 2048;  // of no meaning for this version, but asked for
    request.tp_frame_nr = kBlockBytes / request.tp_frame_size * kBlocks;
    request.tp_retire_blk_tov = kMaxWaitMs;
    map(request, size_t{kBlocks} * kBlockBytes);
    // As many frames as there can be, and as many more as may be left at the end of the list.
    spots_.resize(2 * kBlocks * (kBlockBytes / kLeastFrame));
    bind(options);
}

/// Of the block at the front, to which it goes on if there is none.
uint32_t BlockRing::ready(uint32_t most) {
    while (left_ == 0) {
        tpacket_block_desc* const next = block(block_);
        tpacket_hdr_v1& head = next->hdr.bh1;
        if ((std::atomic_ref(head.block_status).load(std::memory_order_acquire) & TP_STATUS_USER) == 0) return 0;
        if (states_[block_].is_through) return 0;  // all are out
        left_ = head.num_pkts;
        at_ = size_t{block_} * kBlockBytes + head.offset_to_first_pkt;
        if (left_ == 0) end_block();  // the kernel has waited for frames in vain
    }
    return std::min(most, left_);
}

RingFrame BlockRing::front() const {
    const tpacket3_hdr& own = *header();
    return frame_behind(own, own.hv1.tp_vlan_tpid, own.hv1.tp_vlan_tci);
}

void BlockRing::pop() {
    step();
    if (left_ == 0) end_block();
}

/// Goes on to the next block. This one is the kernel's again, unless frames of it are out.
void BlockRing::end_block() {
    if (states_[block_].out == 0) release(block_);
    else states_[block_].is_through = true;
    block_ = (block_ + 1) % kBlocks;
}

void BlockRing::release(uint32_t index) {
    std::atomic_ref(block(index)->hdr.bh1.block_status).store(TP_STATUS_KERNEL, std::memory_order_release);
}

void BlockRing::give_back(uint32_t count) {
    out_ -= count;
    while (count > 0) {
        State& oldest = states_[oldest_];
        const uint32_t own = std::min(count, oldest.out);
        oldest.out -= own;
        count -= own;
        if (oldest.out > 0) return;
        if (oldest.is_through) release(oldest_);
        else if (oldest_ == block_) return;
        oldest.is_through = false;
        oldest_ = (oldest_ + 1) % kBlocks;
    }
}

/// Where the list has room for so many behind each other.
uint32_t BlockRing::next_spot(uint32_t most) const {
    return spot_ + std::min(most, left_) <= spots_.size() ? spot_ : 0;
}

/// Makes a frame what it is on the wire, where it lies, and says where that is.
FrameSpot BlockRing::spot_of(const RingFrame& frame, bool uncut) {
    uint8_t* data = const_cast<uint8_t*>(frame.data);
    auto bytes = static_cast<uint16_t>(frame.bytes);
    uint32_t checksum_at = frame.offload.checksum_start;
    if (frame.vlan_tag != 0) {
        // It begins at a multiple of 8 again: before it stands what the kernel has told of it.
        std::memmove(data - 8, data, kAddressBytes);
        std::memmove(data - 8 + kAddressBytes + eth::kVlanBytes, data + kAddressBytes, frame.bytes - kAddressBytes);
        data -= 8;
        store_be32(data + kAddressBytes, frame.vlan_tag);
        bytes = static_cast<uint16_t>(bytes + eth::kVlanBytes);
        checksum_at += eth::kVlanBytes;
    }
    if (!uncut && frame.offload.needs_checksum())
        finish_checksum({data, bytes}, checksum_at, frame.offload.checksum_offset);
    return {static_cast<uint32_t>(data - memory_), bytes, uncut ? frame.offload.segment_bytes : uint16_t{0}};
}

}  // namespace millrace::io
