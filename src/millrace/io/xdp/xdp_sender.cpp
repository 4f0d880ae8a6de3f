#include "millrace/io/xdp/xdp_sender.hpp"

#include <sys/socket.h>

#include <cerrno>

namespace millrace::io {

void XdpSender::go_over_to(XdpSocket* socket) {
    if (XdpSocket* const unused = next_.exchange(socket, std::memory_order_acq_rel); unused != nullptr) --unused->users;
}

void XdpSender::take_next(SendResult& result) {
    if (next_.load(std::memory_order_relaxed) == nullptr) return;
    if (socket_ != nullptr) {
        count(result);
        drop_rest(PortDrop::link_down, result, false);
        --socket_->users;
    }
    socket_ = next_.exchange(nullptr, std::memory_order_acquire);
    counted_ = socket_->next_to_send();
    descriptor_.store(socket_->descriptor(), std::memory_order_relaxed);
    free_.clear();
    for (uint32_t room = rooms_; room-- > 0;) free_.push_back(uint64_t{first_ + room} * room_bytes_);
}

uint8_t* XdpSender::place() {
    if (!socket_->has_place()) return nullptr;
    if (free_.empty()) socket_->finish_sent([&](uint64_t room) { free_.push_back(room); });
    return free_.empty() ? nullptr : memory_.data() + free_.back();
}

void XdpSender::add(uint32_t bytes) {
    socket_->put(free_.back(), bytes);
    free_.pop_back();
    ++waiting_;
}

/// What the kernel has taken is sent.
void XdpSender::count(SendResult& result) {
    for (const uint32_t end = socket_->taken_to_send(); counted_ != end; ++counted_) {
        const uint32_t bytes = socket_->bytes_of(counted_);
        if (bytes == 0) continue;  // taken back
        --waiting_;
        ++result.sent;
        result.sent_bytes += bytes;
    }
}

bool XdpSender::send(SendResult& result) {
    constexpr unsigned kPatience = 4;  // calls in vain
    bool is_unseen = !is_stuck();      // the kernel knows of no frame that waits
    for (unsigned in_vain = 0; waiting_ != 0 && in_vain < kPatience;) {
        const uint32_t before = socket_->taken_to_send();
        const int error = socket_->send();
        if (error == 0 && socket_->is_zero_copy()) break;  // the card takes them by and by
        if (error == ENETDOWN || error == ENXIO || error == ENODEV) {
            drop_rest(PortDrop::link_down, result, is_unseen);
            break;
        }
        is_unseen = false;
        const uint32_t end = socket_->taken_to_send();
        in_vain = end == before && error != EBUSY ? in_vain + 1 : 0;
        count(result);
        if (error != EBUSY) continue;
        // It is the last one that was taken. Where the kernel tells late which that is, its length may be another's.
        --result.sent;
        result.sent_bytes -= socket_->bytes_of(end - 1);
        result.drop(PortDrop::tx_full);
    }
    count(result);
    const bool is_stuck = waiting_ != 0 && !socket_->is_zero_copy();
    is_stuck_.store(is_stuck, std::memory_order_relaxed);
    return !is_stuck;
}

void XdpSender::drop_rest(PortDrop reason, SendResult& result, bool is_unseen) {
    if (socket_ == nullptr) return;
    for (uint32_t number = counted_; number != socket_->next_to_send(); ++number) {
        if (socket_->bytes_of(number) == 0) continue;
        free_.push_back(socket_->take_back(number));
        result.drop(reason);
    }
    if (is_unseen) socket_->put_again_from(counted_);
    waiting_ = 0;
    is_stuck_.store(false, std::memory_order_relaxed);
}

void XdpSender::nudge() const {
    // Frames of a socket that was left are none of this one's; neither is what becomes of the call.
    if (const int fd = descriptor_.load(std::memory_order_relaxed); fd >= 0)
        sendto(fd, nullptr, 0, MSG_DONTWAIT, nullptr, 0);
}

}  // namespace millrace::io
