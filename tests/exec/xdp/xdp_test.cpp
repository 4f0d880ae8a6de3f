// Chains between AF_XDP ports: devices take frames where the kernel has put them, and make of them what the cpu does.
#include <gtest/gtest.h>

#include "io/interfaces/tcp_frames.hpp"
#include "io/interfaces/xdp.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "support/end_of_run.hpp"
#include "support/devices.hpp"
#include "support/test_folder.hpp"

namespace millrace::test {
namespace {

using namespace io::test;
using io::OffloadHeader;

constexpr const char* kTwoCables =
    "ip link add left type veth peer name right && ip link add near type veth peer name far && "
    "for i in left right near far; do ip link set $i up; done";
constexpr const char* kChain = R"(version: 1
ports:
  a: {af_xdp: left, descriptors: 1024}
  b: {af_xdp: near, descriptors: 1024}
chains:
  c:
    input: a
    max-delay: 50us
    nfs:
      - firewall: {default: permit, rules: [deny udp from any port 9 to any]}
      - router:
          routes: [{prefix: 0.0.0.0/0, via: a}]
          next-hops: {a: {port: b, mac: "02:00:00:00:00:09"}}
)";

/// So many frames of all kinds.
std::vector<std::pair<OffloadHeader, Bytes>> traffic(uint32_t count) {
    std::vector<std::pair<OffloadHeader, Bytes>> all;
    for (uint32_t i = 0; i < count; ++i) {
        Bytes frame = udp_frame(i, i % 4 == 0 ? 200 : 60 + i % 1450, static_cast<uint16_t>(i % 13));
        OffloadHeader offload;
        if (i % 7 == 3) frame.insert(frame.begin() + 12, {0x81, 0x00, 0x20, static_cast<uint8_t>(i)});
        if (i % 7 == 5) frame = udp_frame(i, 100, 0, static_cast<uint16_t>(0x2000 | i));
        if (i % 7 == 6) {
            frame = tcp_frame(i % 1400, false);
            offload = tcp_offload(0, false);
        }
        all.emplace_back(offload, std::move(frame));
    }
    return all;
}

/// What comes out at the far end of `count` frames.
std::vector<Bytes> result_on(const std::string& device, uint32_t count) {
    const TestFolder folder;
    chain::LoadOptions load;
    load.device = device;
    load.output_folder = folder.path();
    exec::RuntimeOptions options;
    options.devices = open_devices(device);
    exec::Runtime runtime(chain::parse_configuration(kChain, folder.path() + "/chain.yaml", load), options);
    runtime.start();
    EXPECT_TRUE(becomes([&] { return runtime.ports()[1]->link().up; }));
    const OtherEnd peer("right", true), far("far");
    std::vector<Bytes> got;
    const auto all = traffic(count);
    uint64_t sent = 0;
    for (const auto& [offload, frame] : all) {
        EXPECT_TRUE(peer.send(offload, frame));
        ++sent;
        if (sent % 64 != 0 && sent != count) continue;
        EXPECT_TRUE(becomes([&] {
            for (Bytes& each : far.received()) got.push_back(std::move(each));
            const exec::Report report = exec::make_report(runtime);
            return report.ports[1].counters.sent_packets + report.chains[0].dropped == sent &&
                   got.size() == report.ports[1].counters.sent_packets;
        }));
    }
    const exec::Report report = stop_run(runtime);
    EXPECT_EQ(report.chains[0].received_packets, count);
    EXPECT_EQ(report.ports[0].counters.receive_drops() + report.ports[1].counters.send_drops(), 0u);
    if (count > 1000) expect_work(device == "sim+cpu" ? Work::shared_with_cpu : Work::device_alone, report);
    return got;
}

TEST(XdpPorts, GiveDevicesTheFramesThatTheyGiveTheCpu) {
    IN_XDP_NETWORK([] {
        ASSERT_EQ(run(kTwoCables), "");
        for (const uint32_t count : {1u, 33u, 1025u}) {
            const std::vector<Bytes> wanted = result_on("cpu", count);
            EXPECT_GE(wanted.size(), count - count / 13 - 1);
            for (const char* device : {"sim", "sim+cpu"})
                EXPECT_TRUE(same_frames(result_on(device, count), wanted)) << device << ", " << count;
        }
    });
}

}  // namespace
}  // namespace millrace::test
