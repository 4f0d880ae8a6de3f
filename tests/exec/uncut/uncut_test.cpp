// Frames that are yet to be cut into those of the wire, through whole chains: on the cpu and on devices, in packets of
// their own and in receive blocks.
#include <gtest/gtest.h>

#include "io/interfaces/tcp_frames.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/io/capture/capture_reader.hpp"
#include "support/end_of_run.hpp"
#include "support/devices.hpp"
#include "support/test_folder.hpp"

namespace millrace::test {
namespace {

using namespace io::test;
using io::OffloadHeader;

constexpr const char* kTwoCables =
    "ip link add left type veth peer name right && ip link add near type veth peer name far && for i in left right "
    "near "
    "far; do ip link set $i up; done";
constexpr const char* kForwarding =
    "[firewall: {default: permit, rules: [deny tcp from any to any port 81]}, router: {routes: [{prefix: 0.0.0.0/0, "
    "via: "
    "a}, {prefix: \"::/0\", via: a}], next-hops: {a: {port: b, mac: \"02:00:00:00:00:09\"}}}]";
constexpr const char* kNids =
    "[mirror, nids: {rule: ['alert tcp any any -> any any (msg:\"x\"; content:\"never seen in here\"; sid:1;)']}]";

struct Case {
    std::string device, layout;
    bool busy = false;  ///< beside a chain with as many packets as there is time for: these take all chains to the
                        ///< device
};

class Uncut : public testing::TestWithParam<Case> {
protected:
    std::string text(const std::string& nfs, const std::string& output = "b", const std::string& more = "") const {
        const bool busy = GetParam().busy;
        return "version: 1\nports:\n  a: {af_packet: left, layout: " + GetParam().layout +
               "}\n  b: {af_packet: near}\n  file: {output: out.pcap}\n" +
               (busy ? "  many: {source: {}}\n  away: {sink: {}}\n" : "") +
               "chains:\n  c:\n    input: a\n    output: " + output + "\n    max-delay: 50us\n" + more +
               "    nfs: " + nfs + "\n" + (busy ? "  d: {input: many, output: away, nfs: [mirror]}\n" : "");
    }
    chain::Configuration configuration(const std::string& text) const {
        chain::LoadOptions options;
        options.device = GetParam().device;
        options.output_folder = folder_.path();
        return chain::parse_configuration(text, folder_.path() + "/chain.yaml", options);
    }
    /// A program at work, whose links are up.
    std::unique_ptr<exec::Runtime> start(const std::string& text) const {
        exec::RuntimeOptions options;
        options.devices = open_devices(GetParam().device);
        auto runtime = std::make_unique<exec::Runtime>(configuration(text), options);
        runtime->start();
        EXPECT_TRUE(becomes([&] { return runtime->ports()[1]->link().up; }));
        return runtime;
    }
    static exec::Report finish(exec::Runtime& runtime) {
        exec::Report report = stop_run(runtime);
        if (GetParam().device != "sim+cpu") expect_work(Work::device_alone, report);
        else if (GetParam().busy) expect_work(Work::shared_with_cpu, report);
        else EXPECT_EQ(report.engine.find("taken over"), std::string::npos) << "few packets, perhaps all the CPU's";
        return report;
    }
    static uint64_t detail(const exec::Report& report, size_t port, const char* name) {
        const auto& details = report.ports[port].counters.details;
        const auto found = details.find(name);
        return found != details.end() ? found->second : 0;
    }
    TestFolder folder_;
};
INSTANTIATE_TEST_SUITE_P(Ways, Uncut,
                         testing::Values(Case{"cpu", "buffers"}, Case{"cpu", "contiguous"}, Case{"sim", "buffers"},
                                         Case{"sim", "contiguous"}, Case{"sim", "blocks"}, Case{"sim+cpu", "buffers"},
                                         Case{"sim+cpu", "buffers", true}),
                         [](const auto& info) {
                             std::string name = info.param.device + info.param.layout;
                             std::erase(name, '+');
                             return info.param.busy ? name + "busy" : name;
                         });

TEST_P(Uncut, PassHeaderFunctionsWhole) {
    IN_OWN_NETWORK([&] {
        ASSERT_EQ(run(kTwoCables), "");
        const auto runtime = start(text(kForwarding));
        const auto far = ports("far: { af_packet: far }\n");
        const OtherEnd peer("right", true);
        uint64_t uncut = 0, segments = 0;
        for (uint32_t round = 0; round < 40; ++round) {
            const bool is_ipv6 = round % 2 == 1;
            const auto segment = static_cast<uint16_t>(round % 3 == 0 ? 536 : 1400);
            const size_t payload = 1500 + 1500 * round, count = (payload + segment - 1) / segment;
            const Bytes frame = tcp_frame(payload, is_ipv6), small = udp_frame(round, 100);
            ASSERT_TRUE(peer.send(tcp_offload(segment, is_ipv6), frame));
            ASSERT_TRUE(peer.send(OffloadHeader{}, small));
            auto got = fetch_frames(*far[0], count + 1);
            ASSERT_EQ(got.size(), count + 1) << "round " << round;
            EXPECT_EQ(got.back()[22], small[22] - 1) << "routed";
            got.pop_back();
            for (const Bytes& each : got) {
                EXPECT_EQ(each[is_ipv6 ? 21 : 22], 63);
                EXPECT_EQ(each[5], 9);
            }
            expect_segments(got, frame, segment, is_ipv6);
            ++uncut;
            segments += count;
        }
        Bytes denied = tcp_frame(3000, false);
        store_be16(&denied[36], 81);
        ASSERT_TRUE(peer.send(tcp_offload(1400, false), denied));
        ASSERT_TRUE(becomes([&] { return exec::make_report(*runtime).chains[0].dropped == 1; }));
        const exec::Report report = finish(*runtime);
        EXPECT_EQ(report.chains[0].received_packets, 2 * uncut + 1);
        EXPECT_EQ(report.chains[0].sent_packets, 2 * uncut);
        EXPECT_EQ(report.chains[0].split, 0u);
        EXPECT_EQ(detail(report, 0, "uncut-received"), uncut + 1);
        EXPECT_EQ(detail(report, 1, "uncut-sent"), uncut);
        EXPECT_EQ(detail(report, 1, "uncut-sent-segments"), segments);
        EXPECT_EQ(detail(report, 0, "cut-into-segments"), 0u);
    });
}

TEST_P(Uncut, AreCutForPortsThatTakeFramesOfTheWireOnly) {
    IN_OWN_NETWORK([&] {
        ASSERT_EQ(run(kTwoCables), "");
        const auto runtime = start(text("[mirror]", "file"));
        const OtherEnd peer("right", true);
        for (uint32_t i = 0; i < 20; ++i) ASSERT_TRUE(peer.send(tcp_offload(1448, false), tcp_frame(60000, false)));
        ASSERT_TRUE(becomes([&] { return exec::make_report(*runtime).chains[0].sent_packets == 20 * 42; }));
        const exec::Report report = finish(*runtime);
        EXPECT_EQ(report.chains[0].received_packets, 20u);
        EXPECT_EQ(report.chains[0].split, 20u * 41);
        io::CaptureReader reader(folder_.path() + "/out.pcap");
        io::CaptureRecord record;
        for (uint32_t i = 0; i < 20; ++i) {
            std::vector<Bytes> frames;
            while (frames.size() < 42 && reader.next(record))
                frames.emplace_back(record.bytes.begin(), record.bytes.end());
            expect_segments(frames, tcp_frame(60000, false), 1448, false);
        }
    });
}

TEST_P(Uncut, AreCutBelowAnMtuThatTheirSegmentsExceed) {
    IN_OWN_NETWORK([&] {
        ASSERT_EQ(run(kTwoCables), "");
        ASSERT_EQ(run("ip link set near mtu 1000"), "");
        const auto runtime = start(text("[mirror]"));
        const OtherEnd peer("right", true);
        ASSERT_TRUE(peer.send(tcp_offload(1448, false), tcp_frame(14480, false)));
        ASSERT_TRUE(becomes([&] { return runtime->ports()[1]->counters().send_drops() > 0; }));
        const exec::Report report = finish(*runtime);
        const uint64_t over = report.ports[1].counters.drops.at("over-mtu");
        EXPECT_EQ(over, GetParam().device == "sim" && GetParam().layout != "buffers" ? 1 : 10)
            << "frames without packets of their own are the port's to drop";
    });
}

TEST_P(Uncut, ComeAsSegmentsWhereAFunctionWantsThese) {
    IN_OWN_NETWORK([&] {
        ASSERT_EQ(run(kTwoCables), "");
        const auto runtime = start(text(kNids));
        const auto far = ports("far: { af_packet: far }\n");
        const OtherEnd peer("right", true);
        ASSERT_TRUE(peer.send(tcp_offload(1448, false), tcp_frame(60000, false)));
        expect_segments(fetch_frames(*far[0], 42), tcp_frame(60000, false), 1448, false);
        const exec::Report report = finish(*runtime);
        EXPECT_EQ(report.chains[0].received_packets, 42u);
        EXPECT_EQ(detail(report, 0, "cut-into-segments"), 1u);
        EXPECT_EQ(detail(report, 0, "uncut-received"), 0u);
    });
}

TEST_P(Uncut, AreWantedOrNotAsChainsChange) {
    IN_OWN_NETWORK([&] {
        ASSERT_EQ(run(kTwoCables), "");
        const auto runtime = start(text("[mirror]"));
        const auto far = ports("far: { af_packet: far }\n");
        const OtherEnd peer("right", true);
        for (uint32_t round = 0; round < 6; ++round) {
            const auto send = [&] {
                for (uint32_t i = 0; i < 10; ++i)
                    ASSERT_TRUE(peer.send(tcp_offload(1448, false), tcp_frame(20000, false)));
            };
            const auto expect_all = [&] {
                const auto got = fetch_frames(*far[0], 140);
                ASSERT_EQ(got.size(), 140u) << "round " << round;
                for (uint32_t i = 0; i < 10; ++i)
                    expect_segments({got.begin() + 14 * i, got.begin() + 14 * (i + 1)}, tcp_frame(20000, false), 1448,
                                    false);
            };
            send();
            // Some may be under way meanwhile.
            chain::Configuration next = configuration(text(round % 2 == 0 ? kNids : "[mirror]"));
            next.generation = round + 2;
            runtime->apply(std::move(next));
            expect_all();
            send();
            expect_all();
        }
        const exec::Report report = finish(*runtime);
        EXPECT_EQ(detail(report, 0, "uncut-received") + detail(report, 0, "cut-into-segments"), 120u);
        EXPECT_GE(detail(report, 0, "uncut-received"), 30u);
        EXPECT_GE(detail(report, 0, "cut-into-segments"), 30u);
    });
}

}  // namespace
}  // namespace millrace::test
