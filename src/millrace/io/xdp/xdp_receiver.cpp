#include "millrace/io/xdp/xdp_receiver.hpp"

#include <cstring>

#include "millrace/io/xdp/redirect_program.hpp"
#include "millrace/io/xdp/sender_checksum.hpp"
#include "millrace/packet/bytes.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::io {

void XdpReceiver::go_over_to(XdpSocket* socket) {
    if (XdpSocket* const unused = next_.exchange(socket, std::memory_order_acq_rel); unused != nullptr) --unused->users;
}

bool XdpReceiver::take_next() {
    if (next_.load(std::memory_order_relaxed) == nullptr) return false;
    if (socket_ != nullptr) --socket_->users;
    socket_ = next_.exchange(nullptr, std::memory_order_acquire);
    for (uint32_t room = 0; room < rooms_; ++room)
        if (is_out_[room] == 0) socket_->give(uint64_t{room} * room_bytes_);
    end();
    return true;
}

FrameSpot XdpReceiver::front() {
    constexpr uint32_t kAhead = 4;  // another core has written what it takes as long to fetch as to look at so many
    const uint8_t* const ahead = memory_.data() + socket_->address_ahead(kAhead);
    __builtin_prefetch(ahead);
    if (socket_->state().tells_tags) __builtin_prefetch(ahead - RedirectProgram::kTagBytes);
    const xdp_desc& told = socket_->front();
    FrameSpot spot{static_cast<uint32_t>(told.addr), static_cast<uint16_t>(told.len), 0};
    if (spot.length < eth::kHeaderBytes) return spot;
    if (socket_->state().tells_tags)
        if (const auto tag = load_raw<uint32_t>(data(spot) - RedirectProgram::kTagBytes); tag != 0)
            restore_tag(spot, tag);
    if (socket_->state().leaves_checksums && finish_sender_checksum(memory_.subspan(spot.offset, spot.length)))
        finished_.store(finished() + 1, std::memory_order_relaxed);
    return spot;
}

/// The frame begins at a multiple of 8 then, too.
void XdpReceiver::restore_tag(FrameSpot& spot, uint32_t tag) {
    constexpr uint32_t kBack = 8;
    uint8_t* const from = memory_.data() + spot.offset;
    uint8_t* const to = from - kBack;
    std::memmove(to, from, kAddressBytes);
    std::memmove(to + kAddressBytes + eth::kVlanBytes, from + kAddressBytes, spot.length - kAddressBytes);
    store_be32(to + kAddressBytes, tag);
    spot.offset -= kBack;
    spot.length = static_cast<uint16_t>(spot.length + eth::kVlanBytes);
}

void XdpReceiver::give_back(const FrameSpot* spots, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        const uint64_t room = room_of(spots[i].offset);
        is_out_[room / room_bytes_] = 0;
        socket_->give(room);
    }
    out_ -= count;
    end();
}

}  // namespace millrace::io
