// What AF_XDP ports alone do about tags and checksums that senders left to a network card: the kernel keeps or tells
// them.
#include <linux/btf.h>

#include "io/interfaces/fetch_blocks.hpp"
#include "io/interfaces/tcp_frames.hpp"
#include "io/interfaces/xdp.hpp"
#include "millrace/io/xdp/kernel_functions.hpp"
#include "millrace/io/xdp/sender_checksum.hpp"

namespace millrace::io {
namespace {

using namespace test;

/// A bridge has the outer tag beside the frame, as cards and VLAN interfaces of senders do.
TEST(XdpFrames, GetBackTheTagsThatSendersLeaveToACard) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        if (!run("ip link add bridge type bridge && ip link add in type veth peer name out && for i in out right; do "
                 "ip "
                 "link set $i master bridge; done && for i in bridge in out; do ip link set $i up; done")
                 .empty())
            GTEST_SKIP() << "this kernel has no bridges";
        if (kernel_function(kVlanTagFunction) == 0) GTEST_SKIP() << "this kernel does not tell XDP of VLAN tags";
        const auto made = ports("a: { af_xdp: left }\n");
        const OtherEnd peer("in");
        std::vector<Bytes> wanted;
        for (uint32_t i = 0; i < 300; ++i) {
            wanted.push_back(udp_frame(i, 60 + 4 * i));
            if (i % 3 == 1) wanted.back() = with_tags(wanted.back(), {0x81, 0x00, 0x20, static_cast<uint8_t>(i)});
            if (i % 3 == 2) wanted.back() = with_tags(wanted.back(), {0x88, 0xa8, 0, 5, 0x81, 0, 0, 7});
        }
        becomes([&] { return peer.send(udp_frame(0, 60)) && fetch_frames(*made[0], 1).size() == 1; });
        EXPECT_TRUE(same_frames(pass(peer, *made[0], wanted), wanted));
        for (size_t at = 0; at < wanted.size(); at += 100) {
            for (size_t i = at; i < at + 100; ++i) ASSERT_TRUE(peer.send(wanted[i]));
            EXPECT_TRUE(same_frames(fetch_blocks(*made[0], 100, true), {wanted.begin() + static_cast<long>(at),
                                                                        wanted.begin() + static_cast<long>(at) + 100}));
        }
    });
}

/// The frame in a tunnel whose outer headers these are.
Bytes in_tunnel(const Bytes& outer, const Bytes& inner) {
    Bytes frame = outer;
    frame.insert(frame.end(), inner.begin(), inner.end());
    store_be16(&frame[16], static_cast<uint16_t>(frame.size() - 14));
    store_be16(&frame[24], 0);
    store_be16(&frame[24], checksum(&frame[14], 20));
    return frame;
}

Bytes vxlan(const Bytes& inner) {
    Bytes outer = udp_frame(0, 50);
    store_be16(&outer[36], 4789);
    store_be16(&outer[38], static_cast<uint16_t>(16 + inner.size()));
    store_be32(&outer[42], 0x08000000);
    return in_tunnel(outer, inner);
}

Bytes ipip(const Bytes& inner) {
    Bytes outer = udp_frame(0, 46);
    outer.resize(34);
    outer[23] = 4;
    return in_tunnel(outer, {inner.begin() + 14, inner.end()});
}

bool is_right(const Bytes& tcp, size_t l3) {
    const size_t l4 = l3 + 20;
    const auto bytes = static_cast<uint32_t>(tcp.size() - l4);
    return checksum_finish(checksum_add(checksum_add(bytes + 6, &tcp[l3 + 12], 8), &tcp[l4], bytes)) == 0;
}

TEST(SenderChecksum, IsFinishedInTunnelsToo) {
    for (const size_t payload : {0u, 1u, 100u, 1400u}) {
        const Bytes inner = tcp_frame(payload, false);
        for (const auto& [whole, l3] : {std::pair{inner, size_t{14}},
                                        {vxlan(inner), size_t{64}},
                                        {ipip(inner), size_t{34}},
                                        {with_tags(inner, {0x81, 0, 0, 9}), size_t{18}}}) {
            Bytes frame = whole;
            EXPECT_FALSE(is_right(frame, l3));
            EXPECT_TRUE(finish_sender_checksum(frame));
            EXPECT_TRUE(is_right(frame, l3)) << payload << " " << l3;
            const Bytes finished = frame;
            EXPECT_FALSE(finish_sender_checksum(frame)) << "once";
            EXPECT_EQ(frame, finished);
        }
    }
    // The inner one stands, the outer one does not.
    Bytes inner = tcp_frame(100, false);
    ASSERT_TRUE(finish_sender_checksum(inner));
    Bytes frame = vxlan(inner);
    store_be16(&frame[40],
               static_cast<uint16_t>(~checksum_finish(checksum_add(17u + load_be16(&frame[38]), &frame[26], 8))));
    EXPECT_TRUE(finish_sender_checksum(frame));
    const uint32_t bytes = load_be16(&frame[38]);
    EXPECT_EQ(checksum_finish(checksum_add(checksum_add(17 + bytes, &frame[26], 8), &frame[34], bytes)), 0);
}

TEST(SenderChecksum, StaysWhereItStands) {
    std::vector<Bytes> all{udp_frame(1, 100), udp_frame(1, 100, 5, 0x2000), Bytes(14), Bytes(60), Bytes(1)};
    Bytes wrong = tcp_frame(100, false);
    store_be16(&wrong[50], 0x1234);
    all.push_back(wrong);  // it is for its receiver to find that out
    for (const Bytes& frame : all) {
        Bytes own = frame;
        EXPECT_FALSE(finish_sender_checksum(own));
        EXPECT_EQ(own, frame);
    }
    // Padding of Ethernet is no part of it.
    Bytes padded = tcp_frame(0, false);
    padded.resize(60, 0x77);
    EXPECT_TRUE(finish_sender_checksum(padded));
    padded.resize(54);
    EXPECT_TRUE(is_right(padded, 14));
}

/// A description of a kernel with an integer, a structure of two members, and the functions `one` and `two`.
Bytes description() {
    std::vector<uint32_t> types{
        1, BTF_KIND_INT << 24,        4, 32,                                                             // 1
        0, BTF_KIND_STRUCT << 24 | 2, 8, 0,  1, 0, 0, 1, 32, 0, BTF_KIND_FUNC_PROTO << 24 | 1, 0, 0, 1,  // 3
        5, BTF_KIND_FUNC << 24,       3,                                                                 // 4
        9, BTF_KIND_FUNC << 24,       3};                                                                // 5
    const char texts[] = "\0int\0one\0two";
    btf_header header{};
    header.magic = BTF_MAGIC;
    header.version = 1;
    header.hdr_len = sizeof header;
    header.type_len = static_cast<uint32_t>(types.size() * 4);
    header.str_off = header.type_len;
    header.str_len = sizeof texts;
    Bytes all(sizeof header + header.type_len + sizeof texts);
    std::memcpy(all.data(), &header, sizeof header);
    std::memcpy(all.data() + sizeof header, types.data(), header.type_len);
    std::memcpy(all.data() + sizeof header + header.type_len, texts, sizeof texts);
    return all;
}

TEST(KernelFunctions, AreFoundByName) {
    const Bytes all = description();
    EXPECT_EQ(find_function(all, "one"), 4u);
    EXPECT_EQ(find_function(all, "two"), 5u);
    EXPECT_EQ(find_function(all, "three"), 0u);
    EXPECT_EQ(find_function(all, "int"), 0u) << "no function";
    // Whatever is cut off or turned over.
    for (size_t bytes = 0; bytes < all.size(); ++bytes) find_function(std::span(all).first(bytes), "two");
    for (size_t at = 0; at < all.size(); ++at)
        for (const int bit : {0, 7}) {
            Bytes other = all;
            other[at] = static_cast<uint8_t>(other[at] ^ 1 << bit);
            find_function(other, "two");
        }
    EXPECT_EQ(kernel_function("there is no such function"), 0u);
}

}  // namespace
}  // namespace millrace::io
