// What every kind of port at a network interface makes of frames: tags, fragments, checksums and cutting that their
// senders left to a network card; and those that it gives without buffers.
#include "io/interfaces/fetch_blocks.hpp"
#include "io/interfaces/interface_kinds.hpp"
#include "io/interfaces/tcp_frames.hpp"

namespace millrace::io {
namespace {

using namespace test;

class InterfaceFrames : public InterfacePort {};
INSTANTIATE_TEST_SUITE_P(Kinds, InterfaceFrames, testing::ValuesIn(kInterfaceKinds),
                         [](const auto& info) { return info.param.name; });

TEST_P(InterfaceFrames, KeepVlanTags) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const std::string key = GetParam().key;
        const auto made = ports("a: { " + key + ": left }\nb: { " + key + ": right }\n");
        ASSERT_TRUE(becomes([&] { return made[0]->link().up; }));
        const std::vector<Bytes> wanted{with_tags(udp_frame(1, 100), {0x81, 0x00, 0x20, 0x2a}),
                                        with_tags(udp_frame(1, 100), {0x88, 0xa8, 0, 5, 0x81, 0, 0, 7}),
                                        with_tags(udp_frame(1, 100), {0x81, 0x00, 0, 0}),
                                        // A full frame is longer by its tag, and within the MTU.
                                        with_tags(udp_frame(2, 1514), {0x81, 0x00, 0, 42})};
        send(*made[0], *made[0], wanted);
        EXPECT_TRUE(same_frames(fetch_frames(*made[1], wanted.size()), wanted));
    });
}

TEST_P(InterfaceFrames, PassAsFragments) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        for (const uint16_t queues : GetParam().queues) {
            const auto made = at_left(", queues: " + std::to_string(queues));
            const OtherEnd peer("right");
            // Both of a datagram, a first one alone, a last one alone, and again a thousand of one host, in order.
            std::vector<Bytes> wanted{udp_frame(1, 530, 5, 0x2000), udp_frame(2, 500, 0, 62),
                                      udp_frame(3, 530, 5, 0x2000), udp_frame(4, 500, 0, 62)};
            for (uint32_t i = 0; i < 1000; ++i)
                wanted.push_back(udp_frame(i, 100, 0, static_cast<uint16_t>(0x2000 | i)));
            EXPECT_TRUE(same_frames(pass(peer, *made[0], wanted), wanted)) << queues << " queues";
        }
    });
}

TEST_P(InterfaceFrames, HaveChecksumsThatSendersLeaveToACardAndAreCut) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = at_left();
        const OtherEnd peer("right", true);
        const uint16_t longest = GetParam().segment;
        uint64_t cut = 0, whole = 0, segments = 0;
        for (const bool is_ipv6 : {false, true})
            for (const auto& [payload, segment] : std::vector<std::pair<size_t, uint16_t>>{
                     {1000, 0}, {1001, 0}, {1000, 300}, {3000, longest}, {60000, longest}, {65000, 536}}) {
                const Bytes frame = tcp_frame(payload, is_ipv6);
                ASSERT_TRUE(peer.send(tcp_offload(segment, is_ipv6), frame)) << payload << " " << segment;
                const size_t count = segment == 0 ? 1 : (payload + segment - 1) / segment;
                const bool by_blocks = made[0]->receives_blocks() && segments % 2 == 1;
                expect_segments(by_blocks ? fetch_blocks(*made[0], count) : fetch_frames(*made[0], count), frame,
                                segment == 0 ? payload : segment, is_ipv6);
                ++(segment == 0 ? whole : cut);
                segments += count;
            }
        // Before XDP the kernel cuts, and leaves the checksum of each.
        const PortCounters counters = made[0]->counters();
        EXPECT_EQ(counters.details.at("checksum-finished"), GetParam().is_xdp ? segments : whole);
        EXPECT_EQ(counters.details.contains("cut-into-segments") ? counters.details.at("cut-into-segments") : 0,
                  GetParam().is_xdp ? 0 : cut);
        EXPECT_EQ(counters.receive_drops(), 0u);
        EXPECT_EQ(made[0]->pools()[0]->available(), made[0]->pools()[0]->packets());
    });
}

/// A port that gives receive blocks.
struct BlockKind {
    InterfaceKind interface;
    std::string name, options;
    friend void PrintTo(const BlockKind& kind, std::ostream* out) { *out << kind.name; }
};

class ReceiveBlocks : public testing::TestWithParam<BlockKind> {
protected:
    void SetUp() override {
        if (geteuid() == 0 && GetParam().interface.is_xdp && !no_xdp().empty()) GTEST_SKIP() << no_xdp();
    }
    static std::vector<std::unique_ptr<Port>> at_left(const std::string& options = "") {
        return ports("a: " + GetParam().interface.port(GetParam().options + options) + "\n");
    }
};
INSTANTIATE_TEST_SUITE_P(Kinds, ReceiveBlocks,
                         testing::Values(BlockKind{kInterfaceKinds[0], "contiguous", ", layout: contiguous"},
                                         BlockKind{kInterfaceKinds[0], "blocks", ", layout: blocks"},
                                         BlockKind{kInterfaceKinds[1], "af_xdp", ""}),
                         [](const auto& info) { return info.param.name; });

TEST_P(ReceiveBlocks, ComeWithoutBuffers) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = at_left();
        Port& port = *made[0];
        const OtherEnd peer("right", true);
        ASSERT_TRUE(port.receives_blocks());
        uint32_t number = 0;
        for (uint32_t round = 0; round < 100; ++round) {
            std::vector<Bytes> wanted;
            for (uint32_t i = 0; i < 200; ++i, ++number) {
                wanted.push_back(udp_frame(number, 60 + number % 1400));
                ASSERT_TRUE(peer.send(OffloadHeader{}, wanted.back()));
            }
            const Bytes long_one = tcp_frame(3000, false);
            ASSERT_TRUE(peer.send(tcp_offload(1000, false), long_one));
            uint64_t next = 1 + round * 203;
            std::vector<Bytes> got;
            std::vector<uint32_t> out;
            const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
            while (got.size() < 203 && std::chrono::steady_clock::now() < deadline) {
                const ReceiveBlock run = port.receive_block(0, 60);
                for (uint32_t i = 0; i < run.count; ++i) {
                    ASSERT_TRUE(is_known(port, run.data(i), run.spots[i].length));
                    ASSERT_EQ(reinterpret_cast<uintptr_t>(run.data(i)) % 8, 0u);
                    got.emplace_back(run.data(i), run.data(i) + run.spots[i].length);
                    EXPECT_EQ(run.number(i), next++);
                }
                if (run.count > 0) out.push_back(run.count);
            }
            ASSERT_EQ(got.size(), 203u);
            expect_segments({got.end() - 3, got.end()}, long_one, 1000, false);
            got.resize(200);
            EXPECT_TRUE(same_frames(got, wanted));
            for (const uint32_t count : out) port.give_back(0, count);
        }
        EXPECT_EQ(port.counters().received_packets, 100u * 203);
        EXPECT_EQ(port.pools()[0]->available(), port.pools()[0]->packets());
    });
}

TEST_P(ReceiveBlocks, HaveTagsAndChecksumsInTheirFrames) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = at_left();
        const OtherEnd peer("right", true);
        std::vector<Bytes> wanted;
        for (uint32_t i = 0; i < 50; ++i) {
            Bytes frame = udp_frame(i, 60 + 13 * i);
            if (i % 2 == 0) frame.insert(frame.begin() + 12, {0x81, 0x00, 0x20, static_cast<uint8_t>(i)});
            ASSERT_TRUE(peer.send(OffloadHeader{}, frame));
            wanted.push_back(std::move(frame));
        }
        EXPECT_TRUE(same_frames(fetch_blocks(*made[0], 50), wanted));
        const Bytes unfinished = tcp_frame(1000, false);
        ASSERT_TRUE(peer.send(tcp_offload(0, false), unfinished));
        expect_segments(fetch_blocks(*made[0], 1), unfinished, 1000, false);
    });
}

/// More than twice as many as all memory holds.
TEST_P(ReceiveBlocks, GoRoundWhateverIsOut) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = at_left();
        const OtherEnd peer("right", true);
        uint32_t number = 0;
        for (uint32_t round = 0; round < 500; ++round) {
            std::vector<Bytes> wanted;
            for (uint32_t i = 0; i < 100; ++i, ++number) {
                wanted.push_back(udp_frame(number, 1400 + number % 100));
                ASSERT_TRUE(peer.send(OffloadHeader{}, wanted.back()));
            }
            ASSERT_TRUE(same_frames(fetch_blocks(*made[0], 100, round % 3 == 0), wanted)) << "round " << round;
        }
        EXPECT_EQ(made[0]->counters().received_packets, 50'000u);
        EXPECT_EQ(drops(*made[0], PortDrop::missed), 0u);
    });
}

TEST_P(ReceiveBlocks, WaitWhereNothingIsGivenBack) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = at_left(GetParam().interface.is_xdp ? ", descriptors: 512" : ", buffers: 512");
        const OtherEnd peer("right", true);
        uint64_t sent = 0, out = 0;
        for (int idle = 0; idle < 50;) {
            for (uint32_t i = 0; i < 100; ++i) sent += peer.send(OffloadHeader{}, udp_frame(i, 1500));
            std::this_thread::sleep_for(std::chrono::milliseconds(3));
            const uint32_t came = made[0]->receive_block(0, 1000).count;
            out += came;
            idle = came == 0 ? idle + 1 : 0;
        }
        EXPECT_GE(out, 512u);
        EXPECT_GT(drops(*made[0], PortDrop::missed), 0u) << "there is no memory without end";
        made[0]->give_back(0, static_cast<uint32_t>(out));
        const uint64_t left = fetch_blocks(*made[0], sent - out - drops(*made[0], PortDrop::missed)).size();
        EXPECT_EQ(out + left + drops(*made[0], PortDrop::missed), sent);
        ASSERT_TRUE(peer.send(OffloadHeader{}, udp_frame(7, 99)));
        EXPECT_TRUE(same_frames(fetch_blocks(*made[0], 1), {udp_frame(7, 99)}));
    });
}

TEST_P(ReceiveBlocks, OutliveTheirInterface) {
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run(kCable), "");
        const auto made = at_left();
        std::vector<Bytes> first;
        ReceiveBlock out;
        {
            const OtherEnd peer("right", true);
            for (uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(peer.send(OffloadHeader{}, udp_frame(i, 100)));
            ASSERT_TRUE(becomes([&] { return (out = made[0]->receive_block(0, 20)).count != 0; }));
        }
        ASSERT_EQ(run("ip link del left"), "");
        ASSERT_TRUE(becomes([&] { return !made[0]->link().up; }));
        ASSERT_EQ(run(kCable), "");
        ASSERT_TRUE(becomes([&] { return made[0]->link().up; }));
        const auto rest = fetch_blocks(*made[0], 20 - out.count);
        const OtherEnd peer("right", true);
        std::vector<Bytes> wanted;
        for (uint32_t i = 0; i < 100; ++i) {
            wanted.push_back(udp_frame(1000 + i, 100));
            ASSERT_TRUE(peer.send(OffloadHeader{}, wanted.back()));
        }
        EXPECT_EQ(rest.size(), 20 - out.count) << "what had come before is not lost";
        EXPECT_TRUE(same_frames(fetch_blocks(*made[0], 100), wanted));
        for (uint32_t i = 0; i < out.count; ++i)
            EXPECT_TRUE(std::equal(out.data(i), out.data(i) + 100, udp_frame(i, 100).begin()));
    });
}

}  // namespace
}  // namespace millrace::io
