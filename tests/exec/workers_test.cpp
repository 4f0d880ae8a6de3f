// Several workers at once: every packet counted once, packets of a flow in order, chains that lead to chains.
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "millrace/exec/report.hpp"
#include "millrace/exec/runtime.hpp"
#include "millrace/io/capture_reader.hpp"
#include "millrace/packet/packet.hpp"
#include "support/devices.hpp"

namespace millrace::test {
namespace {

chain::Configuration configuration(const std::string& text, const std::string& device) {
    chain::LoadOptions options;
    options.device = device;
    options.output_folder = testing::TempDir();
    return chain::parse_configuration(text, "(workers)", options);
}

class Workers : public testing::TestWithParam<std::tuple<std::string, unsigned>> {};

TEST_P(Workers, CountEveryPacketOnceAndKeepFlowsInOrder) {
    const auto& [device, workers] = GetParam();
    MILLRACE_NEEDS_DEVICE(device);
    const std::string file = testing::TempDir() + "/workers_" + device + std::to_string(workers) + "_" + std::to_string(getpid()) + ".pcap";
    exec::RuntimeOptions options;
    options.workers = workers;
    options.devices = open_devices(device);
    exec::Runtime runtime(configuration(R"(
version: 1
ports:
  in: {source: {size: 200, flows: 50, count: 40000}, queues: )" + std::to_string(workers) + R"(}
  out: {output: )" + file + R"(}
chains:
  first:
    input: in
    nfs:
      - firewall: {default: permit, rules: [deny udp from any port 1-2]}
        on: {permit: chain second}
  second:
    output: out
    nfs:
      - ipsec:
          sas: [{name: tunnel, direction: out, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1, cipher: aes-128-ctr, key: 7e24067817fae0d743d6ce1f32539163, nonce: "006cb6db", auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98}]
          policies: [{src: 0.0.0.0/0, dst: 0.0.0.0/0, action: protect, sa: tunnel}]
          default: bypass
)", device), options);
    runtime.start();
    ASSERT_TRUE(runtime.wait(std::chrono::seconds(120)));
    runtime.finish();
    EXPECT_EQ(runtime.trouble(), "");
    const exec::Report report = exec::make_report(runtime);
    EXPECT_TRUE(report.conserved());
    EXPECT_EQ(report.ports[0].counters.received_packets, 40000u);
    EXPECT_EQ(report.chains[0].passed_on, 40000u);
    EXPECT_EQ(report.chains[1].sent_packets, 40000u);

    // The gateway numbers packets across all workers: each number once, none left out.
    io::CaptureReader reader(file);
    io::CaptureRecord record;
    std::vector<bool> seen(40001);
    size_t packets = 0;
    for (; reader.next(record); ++packets) {
        ASSERT_GE(record.bytes.size(), 42u);
        const uint32_t sequence = load_be32(record.bytes.data() + 14 + 20 + 4);
        ASSERT_TRUE(sequence >= 1 && sequence <= 40000) << sequence;
        ASSERT_FALSE(seen[sequence]) << "sequence number " << sequence << " was used twice";
        seen[sequence] = true;
    }
    EXPECT_EQ(packets, 40000u);
    std::remove(file.c_str());
}

INSTANTIATE_TEST_SUITE_P(OnEveryDevice, Workers, testing::Combine(testing::ValuesIn(test_devices()), testing::Values(1u, 2u, 4u)),
                         [](const auto& info) { return std::get<0>(info.param) + std::to_string(std::get<1>(info.param)); });
INSTANTIATE_TEST_SUITE_P(OnPairs, Workers, testing::Combine(testing::ValuesIn(device_pairs()), testing::Values(2u, 4u)), [](const auto& info) {
    return device_test_name({std::get<0>(info.param), info.index}) + "with" + std::to_string(std::get<1>(info.param));
});

TEST(WorkersStop, InOrderWhenAskedTo) {
    exec::RuntimeOptions options;
    options.workers = 2;
    exec::Runtime runtime(configuration("version: 1\nports: {in: {source: {size: 64}, queues: 2}, out: {sink: {}}}\n"
                                        "chains: {c: {input: in, output: out, nfs: [mirror]}}\n", "sim"), options);
    runtime.start();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    runtime.stop();
    ASSERT_TRUE(runtime.wait(std::chrono::seconds(20)));
    runtime.finish();
    const exec::Report report = exec::make_report(runtime);
    EXPECT_TRUE(report.conserved());
    EXPECT_GT(report.chains[0].sent_packets, 0u);
    EXPECT_EQ(report.chains[0].in_flight, 0u);
}

}  // namespace
}  // namespace millrace::test
