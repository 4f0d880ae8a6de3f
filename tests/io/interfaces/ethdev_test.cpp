// Ports on DPDK's virtual devices.
#include <unistd.h>

#include <cstring>

#include "io/interfaces/network.hpp"
#include "millrace/io/dpdk/ethdev_port.hpp"

namespace millrace::io {
namespace {

using namespace test;

TEST(DpdkPort, RunsAnyVirtualDeviceOfDpdk) {
    const std::string source = "{ source: { count: 300 } }";
    const auto made = ports("in: " + source +
                            "\nloop: { dpdk: net_ring0, descriptors: 512 }\nout: { sink: { keep: 1000 } }\n");
    send_and_fetch(*made[0], *made[1], *made[1], *made[2], 300);
    expect_same_frames(dynamic_cast<SinkPort&>(*made[2]).sample(), source, 300);
    EXPECT_NE(mistake("a: { dpdk: net_ring0 }").find("in use"), std::string::npos);
}

TEST(DpdkPort, GivesBackMemoryOfOthersThatItSends) {
    // A batch that came back from a device lies in a region, which packets borrow until they have left.
    const auto made = ports("in: { source: { count: 1 } }\nout: { dpdk: net_null5 }\n");
    rte_mbuf* packet = nullptr;
    while (made[0]->receive(0, &packet, 1) == 0) {
    }
    const uint16_t own_bytes = packet->buf_len;
    void* const own = packet->buf_addr;
    static uint8_t region[256];
    static bool freed = false;
    rte_mbuf_ext_shared_info shared{};
    shared.free_cb = [](void*, void*) { freed = true; };
    rte_mbuf_ext_refcnt_set(&shared, 1);
    rte_pktmbuf_attach_extbuf(packet, region, reinterpret_cast<rte_iova_t>(region), sizeof region, &shared);
    packet->data_len = packet->pkt_len = 60;
    packet->ol_flags |= RTE_MBUF_F_TX_IP_CKSUM;
    EXPECT_EQ(made[1]->send(0, &packet, 1), 1u);
    EXPECT_TRUE(freed);
    EXPECT_EQ(packet->buf_addr, own);
    EXPECT_EQ(packet->buf_len, own_bytes);
}

TEST(DpdkPort, RefusesWhatTheDeviceCannotDo) {
    EXPECT_NE(mistake("a: { dpdk: net_nothing7 }").find("DPDK cannot use"), std::string::npos);
    EXPECT_NE(mistake("a: { dpdk: '' }").find("missing"), std::string::npos);
    EXPECT_NE(mistake("a: { dpdk: net_null8, buffers: 100 }").find("'buffers' is below"), std::string::npos);
    EXPECT_NE(mistake("a: { dpdk: net_null9, mtu: 10 }").find("out of range"), std::string::npos);
    PortEnvironment environment;
    environment.headroom_bytes = 256;
    EXPECT_THROW(ports("a: { dpdk: net_null9 }", environment), ConfigError);
}

}  // namespace
}  // namespace millrace::io
