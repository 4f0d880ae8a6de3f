#include "millrace/io/packet_socket/slot_ring.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "millrace/io/packet_socket/ring_header.hpp"

namespace millrace::io {
namespace {

constexpr uint32_t kBeforeFrame = 52;  // so that frames begin at a multiple of 64 in their slots
constexpr uint32_t kSlotHeader = 128;  // what stands before a frame in its slot
constexpr uint32_t kBlockBytes = 1 << 16;

}  // namespace

SlotRing::SlotRing(const ReceiveRingOptions& options) : ReceiveRing(TPACKET_V2, kBeforeFrame) {
    keep_long_frames();
    slot_bytes_ = std::max(std::bit_ceil(options.frame_bytes + kSlotHeader), 2048u);
    const uint32_t block = std::max(slot_bytes_, kBlockBytes), per_block = block / slot_bytes_;
    slots_ = (std::max(options.slots, 1u) + per_block - 1) / per_block * per_block;
    const tpacket_req request{
        .tp_block_size = block, .tp_block_nr = slots_ / per_block, .tp_frame_size = slot_bytes_, .tp_frame_nr = slots_};
    map(request, size_t{slots_} * slot_bytes_);
    bind(options);
}

tpacket2_hdr* SlotRing::slot(uint32_t index) const {
    return reinterpret_cast<tpacket2_hdr*>(memory_ + size_t{index} * slot_bytes_);
}

uint32_t SlotRing::ready(uint32_t most) {
    most = std::min(most, slots_);
    uint32_t n = 0;
    for (uint32_t at = head_; n < most; ++n) {
        if ((std::atomic_ref(slot(at)->tp_status).load(std::memory_order_acquire) & TP_STATUS_USER) == 0) break;
        if (++at == slots_) at = 0;
    }
    return n;
}

RingFrame SlotRing::front() const {
    const tpacket2_hdr& header = *slot(head_);
    RingFrame frame = frame_behind(header, header.tp_vlan_tpid, header.tp_vlan_tci);
    frame.is_set_aside = (header.tp_status & TP_STATUS_COPY) != 0;
    return frame;
}

void SlotRing::pop() {
    std::atomic_ref(slot(head_)->tp_status).store(TP_STATUS_KERNEL, std::memory_order_release);
    if (++head_ == slots_) head_ = 0;
}

}  // namespace millrace::io
