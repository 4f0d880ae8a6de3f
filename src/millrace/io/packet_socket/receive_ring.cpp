#include "millrace/io/packet_socket/receive_ring.hpp"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#ifndef PACKET_FANOUT_FLAG_IGNORE_OUTGOING
#define PACKET_FANOUT_FLAG_IGNORE_OUTGOING 0x4000
#endif

namespace millrace::io {
namespace {

constexpr int kSetAsideBytes = 8 << 20;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

template <class T>
bool set(int fd, int level, int option, const T& value) {
    return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

}  // namespace

ReceiveRing::ReceiveRing(int version, uint32_t reserve) : socket_(open_packet_socket()) {
    const int fd = socket_.get(), on = 1;
    // Before a group is complete each of its sockets would hear everything: until `listen` nothing passes.
    sock_filter nothing[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    if (!set(fd, SOL_SOCKET, SO_ATTACH_FILTER, sock_fprog{1, nothing})) fail("the packet socket takes no filter");
    if (!set(fd, SOL_PACKET, PACKET_VERSION, version) || !set(fd, SOL_PACKET, PACKET_VNET_HDR, on) ||
        !set(fd, SOL_PACKET, PACKET_RESERVE, reserve))
        fail("the kernel has no packet sockets of version " + std::to_string(version + 1) + " that tell of offloads");
    set(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, on);  // since Linux 4.20; else frames are told apart later
}

ReceiveRing::~ReceiveRing() {
    if (memory_ != nullptr) munmap(memory_, memory_bytes_);
}

void ReceiveRing::keep_long_frames() {
    const int fd = socket_.get(), on = 1;
    // As long as there is room.
    if (!set(fd, SOL_SOCKET, SO_RCVBUFFORCE, kSetAsideBytes)) set(fd, SOL_SOCKET, SO_RCVBUF, kSetAsideBytes);
    set(fd, SOL_PACKET, PACKET_COPY_THRESH, on);
}

void ReceiveRing::map(const void* request, size_t request_bytes, size_t bytes) {
    memory_bytes_ = bytes;
    if (setsockopt(socket_.get(), SOL_PACKET, PACKET_RX_RING, request, static_cast<socklen_t>(request_bytes)) != 0)
        fail("the kernel has no memory for " + std::to_string(bytes >> 20) + " MiB of frames");
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, socket_.get(), 0);
    if (memory == MAP_FAILED) fail("the memory of a packet socket cannot be mapped");
    memory_ = static_cast<uint8_t*>(memory);
}

void ReceiveRing::bind(const ReceiveRingOptions& options) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = options.interface;
    if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        fail("the packet socket cannot be bound");
    if (options.promiscuous && !make_promiscuous(socket_.get(), options.interface))
        fail("the interface does not become promiscuous");
}

int ReceiveRing::join(int group) {
    const bool is_new = group == kNewGroup;
    const uint32_t flags = PACKET_FANOUT_FLAG_IGNORE_OUTGOING | (is_new ? PACKET_FANOUT_FLAG_UNIQUEID : 0u);
    const uint32_t request = static_cast<uint16_t>(is_new ? 0 : group) | (PACKET_FANOUT_HASH | flags) << 16;
    if (!set(socket_.get(), SOL_PACKET, PACKET_FANOUT, request)) {
        if (errno == EINVAL) return -1;
        fail("the packet sockets cannot share an interface");
    }
    uint32_t joined = 0;
    socklen_t size = sizeof joined;
    if (getsockopt(socket_.get(), SOL_PACKET, PACKET_FANOUT, &joined, &size) != 0)
        fail("the packet sockets cannot share an interface");
    return static_cast<int>(joined & 0xffff);
}

void ReceiveRing::listen() { set(socket_.get(), SOL_SOCKET, SO_DETACH_FILTER, 0); }

bool ReceiveRing::is_bound() const {
    sockaddr_ll address{};
    socklen_t size = sizeof address;
    return getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0 && address.sll_ifindex > 0;
}

int64_t ReceiveRing::fetch(std::span<uint8_t> to, OffloadHeader& offload, size_t gap) const {
    const size_t addresses = std::min<size_t>(to.size(), 2 * ETH_ALEN), behind = std::min(to.size(), addresses + gap);
    iovec pieces[] = {{&offload, sizeof offload}, {to.data(), addresses}, {to.data() + behind, to.size() - behind}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = std::size(pieces);
    ssize_t n = -1;
    // An error of the socket, such as of an interface that went down, is told once, and is none of the frame's.
    for (int tries = 0; n < 0 && tries < 3; ++tries)
        if ((n = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_TRUNC)) < 0 && errno == EAGAIN) break;
    return n < static_cast<ssize_t>(sizeof offload) ? -1 : n - static_cast<ssize_t>(sizeof offload);
}

void ReceiveRing::forget_error() {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
}

uint64_t ReceiveRing::missed() const {
    tpacket_stats_v3 counts{};  // version 2 fills in what both have
    socklen_t size = sizeof counts;
    return getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &counts, &size) == 0 ? counts.tp_drops : 0;
}

}  // namespace millrace::io
