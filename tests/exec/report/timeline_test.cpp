// The timeline: every batch, in the order of what happens to it, in memory that does not grow.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "support/device_work.hpp"
#include "support/devices.hpp"

namespace millrace::test {
namespace {

using nlohmann::json;

constexpr uint64_t kPackets = 20'000;

std::string configuration_text(uint64_t packets) {
    return "version: 1\nports: {in: {source: {size: 200, count: " + std::to_string(packets) +
           R"(}, queues: 2}, out: {sink: {}}}
chains:
  main:
    input: in
    output: out
    nfs:
      - firewall: {default: permit, rules: [deny udp from any port 1-2]}
      - ipsec:
          sas: [{name: tunnel, direction: out, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1,
            cipher: aes-128-ctr, key: 7e24067817fae0d743d6ce1f32539163, nonce: "006cb6db",
            auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98}]
          policies: [{src: 0.0.0.0/0, dst: 0.0.0.0/0, action: protect, sa: tunnel}]
          default: bypass
)";
}

std::unique_ptr<exec::Runtime> make_runtime(const std::string& device, uint64_t packets, exec::RuntimeOptions options) {
    chain::LoadOptions load;
    load.device = device;
    load.output_folder = testing::TempDir();
    options.workers = 2;
    options.devices = open_devices(device);
    return std::make_unique<exec::Runtime>(chain::parse_configuration(configuration_text(packets), "(timeline)", load),
                                           options);
}

std::string file_name(const std::string& what) {
    return testing::TempDir() + "timeline_" + what + "_" + std::to_string(getpid()) + ".json";
}

json read(const std::string& file) {
    std::ifstream in(file);
    json trace = json::parse(in);
    std::remove(file.c_str());
    return trace;
}

/// Slices by worker (or stream) and name, and the packets in them.
struct Sums {
    std::map<std::string, uint64_t> slices, packets;
};
Sums sums(const json& trace) {
    Sums sums;
    for (const json& event : trace["traceEvents"]) {
        if (event["ph"] != "X" && event["ph"] != "b") continue;
        ++sums.slices[event["name"]];
        sums.packets[event["name"]] += event["args"]["packets"].get<uint64_t>();
    }
    return sums;
}

class Timelines : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
};

TEST_P(Timelines, TellOfEveryBatchWhatHappenedToItInOrder) {
    exec::RuntimeOptions options;
    options.timeline_file = file_name(GetParam());
    const auto runtime = make_runtime(GetParam(), kPackets, options);
    runtime->start();
    ASSERT_TRUE(runtime->wait(std::chrono::seconds(120)));
    runtime->finish();
    const exec::Report report = exec::make_report(*runtime);
    expect_work(Work::device_alone, report);
    const uint64_t batches = report.chains[0].batches;
    const json trace = read(options.timeline_file);
    EXPECT_EQ(trace["otherData"]["slices-left-out"], 0);
    const Sums all = sums(trace);
    const std::vector<std::string> names =
        GetParam() == "cpu"
            ? std::vector<std::string>{"on the cpu", "parsing", "firewall", "ipsec"}
            : std::vector<std::string>{"gathered", "submitted",   "copied in", "firewall", "numbering for ipsec",
                                       "ipsec",    "copied back", "applied"};
    for (const std::string& name : names) {
        ASSERT_TRUE(all.slices.contains(name)) << name << "\n" << trace.dump(1).substr(0, 3000);
        EXPECT_EQ(all.slices.at(name), batches) << name;
        EXPECT_EQ(all.packets.at(name), kPackets) << name;
    }
    // On one thread or stream, slices lie behind or within each other; of a batch, they follow one another.
    std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> by_thread;
    std::map<std::pair<int, int>, std::map<std::string, std::pair<double, double>>> by_batch;
    for (const json& event : trace["traceEvents"]) {
        if (event["ph"] != "X") continue;
        const double begin = event["ts"], end = begin + event["dur"].get<double>();
        EXPECT_GE(event["dur"].get<double>(), 0);
        by_thread[{event["pid"], event["tid"]}].emplace_back(begin, end);
        if (GetParam() != "cpu" && event["pid"] != 1)
            by_batch[{event["tid"], event["args"]["batch"]}][event["name"]] = {begin, end};
    }
    EXPECT_EQ(by_batch.size(), GetParam() == "cpu" ? 0 : batches);
    for (const auto& [batch, slices] : by_batch) {
        EXPECT_LE(slices.at("copied in").second, slices.at("firewall").first + 0.0011);
        EXPECT_LE(slices.at("firewall").second, slices.at("numbering for ipsec").first + 0.0011);
        EXPECT_LE(slices.at("ipsec").second, slices.at("copied back").first + 0.0011);
    }
    for (auto& [thread, slices] : by_thread) {
        std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
            return a.first != b.first ? a.first < b.first : a.second > b.second;
        });
        for (size_t i = 1; i < slices.size(); ++i)
            EXPECT_TRUE(slices[i].first >= slices[i - 1].second - 0.0011 ||
                        slices[i].second <= slices[i - 1].second + 0.0011);
    }
}

TEST_P(Timelines, TellOfTheKernelThatStays) {
    if (GetParam() == "cpu") GTEST_SKIP() << "a device's mode";
    exec::RuntimeOptions options;
    options.timeline_file = file_name(GetParam() + "_persistent");
    options.offload.mode = device::Mode::persistent;
    const auto runtime = make_runtime(GetParam(), kPackets, options);
    runtime->start();
    ASSERT_TRUE(runtime->wait(std::chrono::seconds(120)));
    runtime->finish();
    expect_work(Work::device_alone, exec::make_report(*runtime));
    const Sums all = sums(read(options.timeline_file));
    for (const char* name : {"gathered", "submitted", "resident kernel", "applied"}) {
        ASSERT_TRUE(all.slices.contains(name)) << name;
        EXPECT_EQ(all.slices.at(name), exec::make_report(*runtime).chains[0].batches) << name;
        EXPECT_EQ(all.packets.at(name), kPackets) << name;
    }
}

TEST_P(Timelines, KeepTheLatestSlicesAndSayHowManyWereLeftOut) {
    exec::RuntimeOptions options;
    options.timeline_file = file_name(GetParam() + "_few");
    options.timeline_slices = 10;
    const auto runtime = make_runtime(GetParam(), kPackets, options);
    runtime->start();
    ASSERT_TRUE(runtime->wait(std::chrono::seconds(120)));
    runtime->finish();
    expect_work(Work::device_alone, exec::make_report(*runtime));
    const json trace = read(options.timeline_file);
    uint64_t kept = 0;
    for (const auto& [name, slices] : sums(trace).slices) kept += slices;
    EXPECT_GT(kept, 0u);
    EXPECT_LE(kept, 20u);
    EXPECT_GT(trace["otherData"]["slices-left-out"], 0);
}

TEST_P(Timelines, AreWholeWhenTheRunIsEndedEarly) {
    exec::RuntimeOptions options;
    options.timeline_file = file_name(GetParam() + "_early");
    options.timeline_slices = 1000;
    const auto runtime = make_runtime(GetParam(), 1'000'000'000'000, options);
    runtime->start();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_FALSE(std::filesystem::exists(options.timeline_file)) << "a file that is not whole looks as if it were";
    runtime->stop();
    ASSERT_TRUE(runtime->wait(std::chrono::seconds(60)));
    runtime->finish();
    expect_work(Work::device_alone, exec::make_report(*runtime));
    EXPECT_FALSE(sums(read(options.timeline_file)).slices.empty());
}

INSTANTIATE_TEST_SUITE_P(OnEveryDevice, Timelines, testing::ValuesIn(test_devices()), device_test_name);

TEST(Timeline, SaysAtTheStartThatItsFileCannotBeMade) {
    EXPECT_THROW(exec::Timeline("/nonexistent/folder/timeline.json"), std::runtime_error);
}

}  // namespace
}  // namespace millrace::test
