// Ports on the kernel's interfaces, in a network namespace of the test's own, and on DPDK's virtual devices.
#include <sched.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "io/support.hpp"
#include "millrace/io/ethdev_port.hpp"

namespace millrace::io {
namespace {

using test::mistake;
using test::ports;

/// Runs `body` on a thread that has a network namespace for itself; false when that is not allowed.
bool in_own_network(const std::function<void()>& body) {
    bool allowed = false;
    std::thread([&] {
        if (unshare(CLONE_NEWNET) != 0) return;
        allowed = true;
        // Nothing but the test's own packets shall be seen.
        test::write_text("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
        test::write_text("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        body();
    }).join();
    return allowed;
}

#define NEEDS_NETWORK_RIGHTS()                                                                \
    if (geteuid() != 0 || !test::have("ip")) GTEST_SKIP() << "needs root and the 'ip' program"

/// Sends all that `source` gives through `out`, fetches from `in` for as long as something comes, and hands it to `sink`.
void send_and_fetch(Port& source, Port& out, Port& in, Port& sink, uint64_t expected) {
    uint64_t fetched = 0;
    rte_mbuf* mbufs[32];
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (fetched < expected && std::chrono::steady_clock::now() < deadline) {
        if (!source.exhausted()) {
            const uint16_t n = source.receive(0, mbufs, 32);
            uint16_t sent = 0;
            while (sent < n && std::chrono::steady_clock::now() < deadline)
                sent = static_cast<uint16_t>(sent + out.send(0, mbufs + sent, static_cast<uint16_t>(n - sent)));
        }
        for (uint16_t queue = 0; queue < in.info().receive_queues; ++queue) {
            const uint16_t n = in.receive(queue, mbufs, 32);
            if (n != 0) sink.send(0, mbufs, n);
            fetched += n;
        }
        if (source.exhausted()) usleep(100);
    }
}

void expect_same_frames(const std::vector<SunkFrame>& got, const std::string& source_yaml, size_t count) {
    const auto again = ports("in: " + source_yaml + "\nout: { sink: { keep: 100000 } }\n");
    test::pump(*again[0], *again[1]);
    const auto wanted = dynamic_cast<SinkPort&>(*again[1]).sample();
    ASSERT_EQ(got.size(), count);
    for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(got[i].bytes, wanted[i].bytes) << "frame " << i;
        EXPECT_EQ(got[i].number, i + 1);
        EXPECT_GT(got[i].timestamp_ns, uint64_t{1'600'000'000} * 1'000'000'000);
    }
}

TEST(AfPacketPort, CarriesFramesUnchangedOverAVirtualCable) {
    NEEDS_NETWORK_RIGHTS();
    const bool ran = in_own_network([] {
        ASSERT_EQ(test::run("ip link add left mtu 9000 type veth peer name right mtu 9000 && ip link set left up && ip link set right up"), "");
        const std::string source = "{ source: { count: 500, size: [64, 1514, 9000] } }";
        const auto made = ports("in: " + source + "\na: { af_packet: left }\nb: { af_packet: right }\nout: { sink: { keep: 1000 } }\n");
        EXPECT_EQ(made[1]->info().mtu, 9000u);
        EXPECT_NE(made[1]->info().mac, made[2]->info().mac);
        send_and_fetch(*made[0], *made[1], *made[2], *made[3], 500);
        expect_same_frames(dynamic_cast<SinkPort&>(*made[3]).sample(), source, 500);
        EXPECT_EQ(made[1]->counters().sent_packets, 500u);
        EXPECT_EQ(made[2]->counters().received_packets, 500u);
        made[1]->close();
        EXPECT_TRUE(made[1]->exhausted());
        EXPECT_EQ(made[1]->counters().sent_packets, 500u) << "counters outlive the device";
    });
    if (!ran) GTEST_SKIP() << "network namespaces are not allowed here";
}

TEST(AfPacketPort, KeepsVlanTagsInTheFrame) {
    NEEDS_NETWORK_RIGHTS();
    const bool ran = in_own_network([] {
        ASSERT_EQ(test::run("ip link add left type veth peer name right && ip link set left up && ip link set right up"), "");
        const auto made = ports("in: { source: { count: 1 } }\na: { af_packet: left }\nb: { af_packet: right }\nout: { sink: { keep: 9 } }\n");
        rte_mbuf* mbuf = nullptr;
        ASSERT_EQ(made[0]->receive(0, &mbuf, 1), 1);
        auto* frame = rte_pktmbuf_mtod(mbuf, uint8_t*);
        std::vector<uint8_t> wanted(frame, frame + mbuf->pkt_len);
        const uint8_t tag[4] = {0x81, 0x00, 0x20, 0x2a};
        wanted.insert(wanted.begin() + 12, tag, tag + 4);
        rte_pktmbuf_append(mbuf, 4);
        std::memcpy(frame, wanted.data(), wanted.size());
        ASSERT_EQ(made[1]->send(0, &mbuf, 1), 1);
        send_and_fetch(*made[0], *made[1], *made[2], *made[3], 1);
        const auto sample = dynamic_cast<SinkPort&>(*made[3]).sample();
        ASSERT_EQ(sample.size(), 1u);
        EXPECT_EQ(sample[0].bytes, wanted);
    });
    if (!ran) GTEST_SKIP() << "network namespaces are not allowed here";
}

TEST(TapPort, GivesTheKernelAnInterfaceAndTakesItAway) {
    NEEDS_NETWORK_RIGHTS();
    if (access("/dev/net/tun", R_OK | W_OK) != 0) GTEST_SKIP() << "needs /dev/net/tun";
    const bool ran = in_own_network([] {
        const std::string source = "{ source: { count: 100, size: [64, 1000] } }";
        const auto made = ports("in: " + source + "\na: { tap: mill0 }\nb: { af_packet: lo }\nout: { sink: { keep: 1000 } }\n");
        ASSERT_EQ(test::run("ip link set mill0 up"), "");
        auto watcher = ports("b: { af_packet: mill0 }\n");
        // What the tap port sends, the kernel receives on the interface; and the other way round.
        send_and_fetch(*made[0], *made[1], *watcher[0], *made[3], 100);
        expect_same_frames(dynamic_cast<SinkPort&>(*made[3]).sample(), source, 100);
        const auto back = ports("in: " + source + "\nout: { sink: { keep: 1000 } }\n");
        send_and_fetch(*back[0], *watcher[0], *made[1], *back[1], 100);
        EXPECT_EQ(dynamic_cast<SinkPort&>(*back[1]).sample().size(), 100u);
        watcher.clear();
        made[1]->close();
        EXPECT_NE(test::run("ip link show mill0").find("does not exist"), std::string::npos);
    });
    if (!ran) GTEST_SKIP() << "network namespaces are not allowed here";
}

TEST(DpdkPort, RunsAnyVirtualDeviceOfDpdk) {
    const std::string source = "{ source: { count: 300 } }";
    const auto made = ports("in: " + source + "\nloop: { dpdk: net_ring0, descriptors: 512 }\nout: { sink: { keep: 1000 } }\n");
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
    EXPECT_NE(mistake("a: { af_packet: no-such-if }").find("no network interface"), std::string::npos);
    EXPECT_NE(mistake("a: { af_packet: 'a,b' }").find("is no name"), std::string::npos);
    EXPECT_NE(mistake("a: { dpdk: net_null9, mtu: 10 }").find("out of range"), std::string::npos);
    PortEnvironment environment;
    environment.headroom_bytes = 256;
    EXPECT_THROW(ports("a: { dpdk: net_null9 }", environment), ConfigError);
}

}  // namespace
}  // namespace millrace::io
