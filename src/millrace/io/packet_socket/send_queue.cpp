#include "millrace/io/packet_socket/send_queue.hpp"

#include <linux/if_packet.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace millrace::io {
namespace {

// What may wait for a network card: less than its queueing discipline takes, so that who sends too fast waits and loses
// nothing.
constexpr int kWaitingBytes = 1 << 19;

}  // namespace

SendQueue::SendQueue(int interface, bool past_queueing)
    : socket_(open_packet_socket()), messages_(std::make_unique<Messages>()) {
    const auto fail = [](const char* what) {
        throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
    };
    const int on = 1;
    if (setsockopt(socket_.get(), SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0)
        fail("the kernel has no packet sockets that are told of offloads");
    if (past_queueing && setsockopt(socket_.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on) != 0)
        fail("the kernel does not send past its queueing discipline");
    if (setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kWaitingBytes, sizeof kWaitingBytes) != 0)
        setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &kWaitingBytes, sizeof kWaitingBytes);
    if (!bind(interface)) fail("the packet socket cannot be bound");
}

bool SendQueue::bind(int interface) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = 0;  // it hears nothing
    address.sll_ifindex = interface;
    return ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

bool SendQueue::add(std::span<const iovec> pieces, uint32_t bytes, const OffloadHeader& offload) {
    Messages& all = *messages_;
    if (frames_ == kMaxFrames || pieces.size() + 1 > all.pieces.size() - pieces_) return false;
    all.offloads[frames_] = offload;
    msghdr& header = all.headers[frames_].msg_hdr;
    header.msg_iov = all.pieces.data() + pieces_;
    header.msg_iovlen = pieces.size() + 1;
    header.msg_iov[0] = {&all.offloads[frames_], sizeof offload};
    std::copy(pieces.begin(), pieces.end(), header.msg_iov + 1);
    pieces_ += static_cast<uint32_t>(pieces.size()) + 1;
    all.bytes[frames_++] = bytes;
    return true;
}

/// What an error says of the first of `left` frames; false when it is to be tried again later.
bool SendQueue::handle(int error, uint32_t left, SendResult& result) const {
    switch (error) {
        case EAGAIN: return false;
        case ENETDOWN:
        case ENXIO:
        case ENODEV: result.drop(PortDrop::link_down, left); return true;
        case EMSGSIZE: result.drop(PortDrop::over_mtu); return true;
        case ENOBUFS: result.drop(PortDrop::tx_full); return true;
        default: result.drop(PortDrop::tx_error); return true;
    }
}

void SendQueue::count_sent(uint32_t frame, SendResult& result) const {
    const uint32_t bytes = messages_->bytes[frame];
    result.sent_bytes += bytes;
    if (const OffloadHeader& offload = messages_->offloads[frame]; offload.is_to_be_cut()) {
        ++result.uncut;
        result.uncut_segments += offload.segments_of(bytes);
    }
}

void SendQueue::send(SendResult& result) {
    Messages& all = *messages_;
    const uint32_t before = result.done;
    for (uint32_t at = 0; at < frames_; at = result.done - before) {
        const int n = sendmmsg(socket_.get(), all.headers.data() + at, frames_ - at, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && !handle(errno, frames_ - at, result)) break;
        for (int i = 0; i < n; ++i) count_sent(at + static_cast<uint32_t>(i), result);
        result.sent += static_cast<uint64_t>(std::max(n, 0));
        result.done += static_cast<uint32_t>(std::max(n, 0));
    }
    frames_ = pieces_ = 0;
}

}  // namespace millrace::io
