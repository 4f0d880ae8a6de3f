// What tests of ports at one end of a virtual cable need: frames, and the other end.
#pragma once

#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

#include "io/interfaces/network.hpp"
#include "millrace/io/kernel/interface.hpp"
#include "millrace/io/kernel/offload.hpp"
#include "millrace/packet/checksum.hpp"

namespace millrace::io::test {

using Bytes = std::vector<uint8_t>;

inline constexpr const char* kCable =
    "ip link add left type veth peer name right && ip link set left up && ip link set right up";

/// A UDP packet of `bytes` with this number in its payload; `fragment` is IPv4's flags and offset.
inline Bytes udp_frame(uint32_t number, size_t bytes, uint16_t source_port = 5, uint16_t fragment = 0) {
    Bytes frame(bytes);
    const uint8_t head[] = {2, 0, 0,  0, 0, 2,  2,  0, 0, 0,  0, 1, 8, 0,  0x45, 0, 0,
                            0, 0, 77, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0,    0, 2};
    std::copy(std::begin(head), std::end(head), frame.begin());
    store_be16(&frame[16], static_cast<uint16_t>(bytes - 14));
    store_be16(&frame[20], fragment);
    store_be16(&frame[24], checksum(&frame[14], 20));
    store_be16(&frame[34], source_port);
    store_be16(&frame[36], 6);
    store_be16(&frame[38], static_cast<uint16_t>(bytes - 34));
    store_be32(&frame[42], number);
    return frame;
}

/// The same from its receiver to its sender.
inline Bytes turned(Bytes frame) {
    for (const auto& [one, other, bytes] : {std::tuple{0, 6, 6}, {26, 30, 4}, {34, 36, 2}})
        std::swap_ranges(frame.begin() + one, frame.begin() + one + bytes, frame.begin() + other);
    return frame;
}

inline Bytes with_tags(Bytes frame, std::initializer_list<uint8_t> tags) {
    frame.insert(frame.begin() + 12, tags);
    return frame;
}

/// The other end of a cable, as any program has it. Frames can be given to the kernel as one gives them to a network
/// card.
class OtherEnd {
public:
    explicit OtherEnd(const char* interface, bool with_offload = false)
        : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0)) {
        const int on = 1, room = 16 << 20;
        EXPECT_EQ(setsockopt(fd_.get(), SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room), 0);
        if (with_offload) {
            EXPECT_EQ(setsockopt(fd_.get(), SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on), 0);
        }
        sockaddr_ll address{};
        address.sll_family = AF_PACKET;
        address.sll_protocol = htons(3);
        address.sll_ifindex = static_cast<int>(if_nametoindex(interface));
        EXPECT_EQ(bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    }
    bool send(const Bytes& frame) const {
        return ::send(fd_.get(), frame.data(), frame.size(), 0) == static_cast<ssize_t>(frame.size());
    }
    bool send(const OffloadHeader& offload, const Bytes& frame) const {
        Bytes all(sizeof offload + frame.size());
        std::memcpy(all.data(), &offload, sizeof offload);
        std::copy(frame.begin(), frame.end(), all.begin() + sizeof offload);
        return send(all);
    }
    /// The IPv4 frames that have come.
    std::vector<Bytes> received() const {
        std::vector<Bytes> all;
        Bytes frame(70000);
        sockaddr_ll from{};
        socklen_t size = sizeof from;
        for (ssize_t n = 0;
             (n = recvfrom(fd_.get(), frame.data(), frame.size(), 0, reinterpret_cast<sockaddr*>(&from), &size)) >= 0;)
            if (from.sll_pkttype != PACKET_OUTGOING && n > 34 && load_be16(&frame[12]) == 0x0800)
                all.emplace_back(frame.begin(), frame.begin() + n);
        return all;
    }

private:
    Descriptor fd_;
};

/// Sends these frames by a port, in buffers of `in`'s.
inline void send(Port& in, Port& out, const std::vector<Bytes>& frames) {
    auto* const pool = const_cast<PacketPool*>(in.pools()[0]);
    for (const Bytes& frame : frames) {
        rte_mbuf* mbuf = nullptr;
        ASSERT_TRUE(pool->allocate(&mbuf, 1));
        std::memcpy(rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame.size())), frame.data(), frame.size());
        ASSERT_EQ(out.send(0, &mbuf, 1), 1);
    }
}

/// What comes of frames that are sent to a port: a hundred at a time, as a virtual cable carries no more than a
/// thousand that nobody takes.
inline std::vector<Bytes> pass(const OtherEnd& peer, Port& port, const std::vector<Bytes>& frames,
                               std::vector<uint16_t>* queues = nullptr) {
    std::vector<Bytes> all;
    for (size_t at = 0; at < frames.size();) {
        const size_t end = std::min(at + 100, frames.size());
        for (size_t i = at; i < end; ++i) EXPECT_TRUE(peer.send(frames[i]));
        for (Bytes& frame : fetch_frames(port, end - at, queues)) all.push_back(std::move(frame));
        at = end;
    }
    return all;
}

inline uint64_t drops(const Port& port, PortDrop reason) {
    const PortCounters counters = port.counters();
    const auto found = counters.drops.find(drop_name(reason));
    return found == counters.drops.end() ? 0 : found->second;
}

}  // namespace millrace::io::test
