#include "millrace/io/kernel/slot_ring.hpp"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#ifndef PACKET_FANOUT_FLAG_IGNORE_OUTGOING
#define PACKET_FANOUT_FLAG_IGNORE_OUTGOING 0x4000
#endif

namespace millrace::io {
namespace {

constexpr uint32_t kReserve = 52;      // so that frames begin at a multiple of 64 in their slots
constexpr uint32_t kSlotHeader = 128;  // what stands before a frame in its slot
constexpr uint32_t kBlockBytes = 1 << 16;
constexpr int kSetAsideBytes = 8 << 20;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what + ": " + std::strerror(errno)); }

template <class T>
bool set(int fd, int level, int option, const T& value) {
    return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

}  // namespace

SlotRing::SlotRing(const SlotRingOptions& options) : socket_(open_packet_socket()) {
    const int fd = socket_.get();
    // Before a group is complete each of its sockets would hear everything: until `listen` nothing passes.
    sock_filter nothing[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    if (!set(fd, SOL_SOCKET, SO_ATTACH_FILTER, sock_fprog{1, nothing})) fail("the packet socket takes no filter");
    const int version = TPACKET_V2, on = 1;
    if (!set(fd, SOL_PACKET, PACKET_VERSION, version) || !set(fd, SOL_PACKET, PACKET_VNET_HDR, on) ||
        !set(fd, SOL_PACKET, PACKET_RESERVE, kReserve))
        fail("the kernel has no packet sockets of version 2 that tell of offloads");
    set(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, on);  // since Linux 4.20; else frames are told apart here
    // Frames that no slot holds are kept whole as long as there is room.
    if (!set(fd, SOL_SOCKET, SO_RCVBUFFORCE, kSetAsideBytes)) set(fd, SOL_SOCKET, SO_RCVBUF, kSetAsideBytes);
    set(fd, SOL_PACKET, PACKET_COPY_THRESH, on);
    map(options);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = options.interface;
    const packet_mreq promiscuous{
        .mr_ifindex = options.interface, .mr_type = PACKET_MR_PROMISC, .mr_alen = 0, .mr_address = {}};
    if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        fail("the packet socket cannot be bound");
    if (options.promiscuous && !set(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, promiscuous))
        fail("the interface does not become promiscuous");
}

void SlotRing::map(const SlotRingOptions& options) {
    slot_bytes_ = std::max(std::bit_ceil(options.frame_bytes + kSlotHeader), 2048u);
    const uint32_t block = std::max(slot_bytes_, kBlockBytes), per_block = block / slot_bytes_;
    slots_ = (std::max(options.slots, 1u) + per_block - 1) / per_block * per_block;
    const tpacket_req request{
        .tp_block_size = block, .tp_block_nr = slots_ / per_block, .tp_frame_size = slot_bytes_, .tp_frame_nr = slots_};
    memory_bytes_ = size_t{slots_} * slot_bytes_;
    if (!set(socket_.get(), SOL_PACKET, PACKET_RX_RING, request))
        fail("the kernel has no memory for " + std::to_string(memory_bytes_ >> 20) + " MiB of slots");
    void* memory = mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, socket_.get(), 0);
    if (memory == MAP_FAILED) fail("the ring of slots cannot be mapped");
    memory_ = static_cast<uint8_t*>(memory);
}

SlotRing::~SlotRing() {
    if (memory_ != nullptr) munmap(memory_, memory_bytes_);
}

int SlotRing::join(int group) {
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

void SlotRing::listen() { set(socket_.get(), SOL_SOCKET, SO_DETACH_FILTER, 0); }

bool SlotRing::is_bound() const {
    sockaddr_ll address{};
    socklen_t size = sizeof address;
    return getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0 && address.sll_ifindex > 0;
}

tpacket2_hdr* SlotRing::slot(uint32_t index) const {
    return reinterpret_cast<tpacket2_hdr*>(memory_ + size_t{index} * slot_bytes_);
}

uint32_t SlotRing::ready(uint32_t most) const {
    most = std::min(most, slots_);
    uint32_t n = 0;
    for (uint32_t at = head_; n < most; ++n) {
        if ((std::atomic_ref(slot(at)->tp_status).load(std::memory_order_acquire) & TP_STATUS_USER) == 0) break;
        if (++at == slots_) at = 0;
    }
    return n;
}

SlotFrame SlotRing::front() const {
    const tpacket2_hdr& header = *slot(head_);
    const auto* const raw = reinterpret_cast<const uint8_t*>(&header);
    const auto* const address = reinterpret_cast<const sockaddr_ll*>(raw + TPACKET_ALIGN(sizeof header));
    SlotFrame frame;
    frame.data = raw + header.tp_mac;
    frame.bytes = header.tp_snaplen;
    frame.whole_bytes = header.tp_len;
    frame.is_set_aside = (header.tp_status & TP_STATUS_COPY) != 0;
    frame.is_outgoing = address->sll_pkttype == PACKET_OUTGOING;
    if ((header.tp_status & TP_STATUS_VLAN_VALID) != 0) {
        const uint32_t type = (header.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? header.tp_vlan_tpid
                                                                                  : uint32_t{ETH_P_8021Q};
        frame.vlan_tag = type << 16 | header.tp_vlan_tci;
    }
    frame.timestamp_ns = uint64_t{header.tp_sec} * 1'000'000'000 + header.tp_nsec;
    std::memcpy(&frame.offload, frame.data - sizeof frame.offload, sizeof frame.offload);
    return frame;
}

int64_t SlotRing::fetch(std::span<uint8_t> to, OffloadHeader& offload) const {
    iovec pieces[] = {{&offload, sizeof offload}, {to.data(), to.size()}};
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = std::size(pieces);
    const ssize_t n = recvmsg(socket_.get(), &message, MSG_DONTWAIT | MSG_TRUNC);
    return n < static_cast<ssize_t>(sizeof offload) ? -1 : n - static_cast<ssize_t>(sizeof offload);
}

void SlotRing::pop() {
    std::atomic_ref(slot(head_)->tp_status).store(TP_STATUS_KERNEL, std::memory_order_release);
    if (++head_ == slots_) head_ = 0;
}

void SlotRing::forget_error() {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
}

uint64_t SlotRing::missed() const {
    tpacket_stats counts{};
    socklen_t size = sizeof counts;
    return getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &counts, &size) == 0 ? counts.tp_drops : 0;
}

}  // namespace millrace::io
