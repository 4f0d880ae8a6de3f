#include "millrace/io/xdp/xdp_socket.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>

namespace millrace::io {
namespace {

// What may be on its way to a card: as much as rooms hold, or the kernel would take less.
constexpr int kOrderedBytes = 16 << 20;

constexpr uint32_t kLeastEntries = 64;  // of a ring

[[noreturn]] void socket_fails(const std::string& what, const std::string& mends = "") {
    throw std::runtime_error(what + ": " + std::strerror(errno) + (mends.empty() ? "" : "; " + mends));
}

int open_xdp_socket() {
    const int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (fd >= 0) return fd;
    if (errno == EAFNOSUPPORT) socket_fails("this kernel has no AF_XDP", "af_packet ports do without");
    socket_fails("no AF_XDP socket", errno == EPERM
                                         ? "it takes the right CAP_NET_RAW: run as root, or setcap cap_net_raw+ep on "
                                           "the program"
                                         : "");
}

template <class T>
bool set_option(int fd, int option, const T& value) {
    return setsockopt(fd, SOL_XDP, option, &value, sizeof value) == 0;
}

}  // namespace

XdpSocket::XdpSocket(const XdpSocketOptions& options) : socket_(open_xdp_socket()), state_(options.state) {
    make_rings(options);
    bind(options);
    if (setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kOrderedBytes, sizeof kOrderedBytes) != 0)
        setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &kOrderedBytes, sizeof kOrderedBytes);
}

void XdpSocket::make_rings(const XdpSocketOptions& options) {
    const int fd = socket_.get();
    xdp_umem_reg memory{};
    memory.addr = reinterpret_cast<uintptr_t>(options.memory.data());
    memory.len = options.memory.size();
    memory.chunk_size = options.room_bytes;
    if (!set_option(fd, XDP_UMEM_REG, memory))
        socket_fails(
            "the kernel does not take " + std::to_string(options.memory.size() >> 10) + " KiB of memory for frames",
            errno == ENOBUFS || errno == ENOMEM ? "fewer 'descriptors', a higher 'ulimit -l', or CAP_IPC_LOCK" : "");
    // A receive ring that holds all rooms is never full before these are out.
    const uint32_t receive = std::bit_ceil(std::max(options.receive_frames, kLeastEntries)),
                   send = std::bit_ceil(std::max(options.send_frames, kLeastEntries));
    xdp_mmap_offsets at{};
    socklen_t size = sizeof at;
    if (!set_option(fd, XDP_UMEM_FILL_RING, receive) || !set_option(fd, XDP_RX_RING, receive) ||
        !set_option(fd, XDP_UMEM_COMPLETION_RING, send) || !set_option(fd, XDP_TX_RING, send) ||
        getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &size) != 0 || size != sizeof at ||
        !received_.map(fd, XDP_PGOFF_RX_RING, at.rx, receive) || !to_send_.map(fd, XDP_PGOFF_TX_RING, at.tx, send) ||
        !free_.map(fd, XDP_UMEM_PGOFF_FILL_RING, at.fr, receive) ||
        !sent_.map(fd, XDP_UMEM_PGOFF_COMPLETION_RING, at.cr, send))
        socket_fails("the kernel gives an AF_XDP socket no rings (Linux 5.4 is the oldest that does)");
}

void XdpSocket::bind(const XdpSocketOptions& options) {
    constexpr uint16_t kWays[] = {0, XDP_COPY, XDP_ZEROCOPY};  // 0: the kernel tries both
    sockaddr_xdp address{};
    address.sxdp_family = AF_XDP;
    address.sxdp_flags = static_cast<uint16_t>(kWays[static_cast<size_t>(options.mode)] | XDP_USE_NEED_WAKEUP);
    address.sxdp_ifindex = static_cast<uint32_t>(options.interface);
    address.sxdp_queue_id = options.queue;
    const std::string queue = "queue " + std::to_string(options.queue);
    // The kernel gives a queue back a moment after the socket that had it was closed.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    bool bound = false;
    while (!(bound = ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) &&
           errno == EBUSY && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (!bound) {
        if (errno == EBUSY) socket_fails("another AF_XDP socket has " + queue, "end the program whose it is");
        if (options.mode == XdpMode::zero_copy)
            socket_fails("the driver does not share the memory of " + queue + " (zero-copy)",
                         "'mode: copy' does without");
        socket_fails("the AF_XDP socket does not get " + queue);
    }
    xdp_options got{};
    socklen_t size = sizeof got;
    is_zero_copy_ = getsockopt(socket_.get(), SOL_XDP, XDP_OPTIONS, &got, &size) == 0 &&
                    (got.flags & XDP_OPTIONS_ZEROCOPY) != 0;
}

void XdpSocket::end_receiving() {
    received_.consume_until(taken_);
    free_.produce_until(given_);
    if (free_.wants_call()) recvfrom(socket_.get(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
}

int XdpSocket::send() {
    to_send_.produce_until(put_);
    if (!to_send_.wants_call()) return 0;
    return sendto(socket_.get(), nullptr, 0, MSG_DONTWAIT, nullptr, 0) < 0 ? errno : 0;
}

XdpCounts XdpSocket::counts() const {
    xdp_statistics counts{};
    socklen_t size = sizeof counts;
    if (getsockopt(socket_.get(), SOL_XDP, XDP_STATISTICS, &counts, &size) != 0) return {};
    return {.lost = counts.rx_dropped + counts.rx_ring_full,
            .no_room = counts.rx_fill_ring_empty_descs,
            .ring_full = counts.rx_ring_full,
            .bad_orders = counts.rx_invalid_descs + counts.tx_invalid_descs};
}

}  // namespace millrace::io
