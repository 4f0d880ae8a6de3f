// The flows of connection tracking, asked for while packets flow: on the CPU, on devices, and where these take turns.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <thread>

#include "millrace/exec/report/report.hpp"
#include "millrace/show/answers.hpp"
#include "show/runtime.hpp"

namespace millrace::show {
namespace {

using nlohmann::json;

json asked_flows(const exec::Runtime& runtime, const Wanted& wanted = {}) {
    return json::parse(answer(runtime, request_for("flows", wanted), 0));
}

std::unique_ptr<exec::Runtime> tracking(const std::string& device, const std::string& source, unsigned workers = 2) {
    return runtime_of("version: 1\nports: {in: {source: {" + source +
                          "}}, out: {sink: {}}}\nchains: {edge: {input: in, output: out, nfs: "
                          "[conntrack: {max-flows: 64k}]}}\n",
                      device, workers);
}

uint64_t sum(const json& rows, const char* column) {
    uint64_t all = 0;
    for (const json& row : rows) all += row[column].get<uint64_t>();
    return all;
}

void expect_sorted(const json& rows) {
    uint64_t before = UINT64_MAX;
    for (const json& row : rows) {
        const uint64_t bytes = row["bytes"].get<uint64_t>() + row["bytes-back"].get<uint64_t>();
        ASSERT_LE(bytes, before);
        before = bytes;
    }
}

class FlowsUnderLoad : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(OnEveryDevice, FlowsUnderLoad, testing::ValuesIn([] {
                             std::vector<std::string> all = test::test_devices();
                             for (const std::string& device : test::offload_devices()) all.push_back(device + "+cpu");
                             return all;
                         }()),
                         [](const auto& info) {
                             std::string name = info.param;
                             std::ranges::replace(name, '+', '_');
                             return name;
                         });

TEST_P(FlowsUnderLoad, AreThereAndCountEveryPacketInTheEnd) {
    constexpr uint64_t kFlows = 3000;
    const auto runtime = tracking(
        GetParam(), "flows: 3000, count: 400k, size: 64, addresses: {src: 10.0.0.0/8, dst: 192.0.2.0/24}");
    runtime->start();
    uint64_t seen = 0, answers = 0;
    while (!runtime->wait(std::chrono::milliseconds(1))) {
        const json all = asked_flows(*runtime, {.limit = 40});
        ASSERT_EQ(all["flows"].size(), 1u);
        const json& table = all["flows"][0];
        EXPECT_EQ(table["nf"], "conntrack");
        ASSERT_LE(table["total"], kFlows);
        ASSERT_EQ(table["rows"].size(), std::min<uint64_t>(40, table["total"].get<uint64_t>()));
        ASSERT_NO_FATAL_FAILURE(expect_sorted(table["rows"]));
        seen = std::max(seen, table["total"].get<uint64_t>());
        ++answers;
    }
    EXPECT_GT(answers, 0u);
    EXPECT_GT(seen, 0u) << "while packets flowed";
    const json last = asked_flows(*runtime, {.limit = 10'000})["flows"][0];
    EXPECT_EQ(last["total"], kFlows);
    EXPECT_EQ(sum(last["rows"], "packets") + sum(last["rows"], "packets-back"), 400'000u) << "each packet is counted";
    const uint64_t all_bytes = sum(last["rows"], "bytes") + sum(last["rows"], "bytes-back");
    EXPECT_EQ(all_bytes, 64u * 400'000u);
    EXPECT_EQ(exec::make_report(*runtime).chains.at(0).retried_on_cpu, 0u);
    // Of these only those whose words hold.
    const json some = asked_flows(*runtime, {.limit = 10'000, .match = "ip from 10.0.0.0/24"})["flows"][0];
    uint64_t counted = 0;
    for (const json& row : last["rows"]) counted += row["source"].get<std::string>().starts_with("10.0.0.");
    EXPECT_EQ(some["total"], counted);
    EXPECT_GT(counted, 0u);
    EXPECT_LT(counted, kFlows);
    EXPECT_EQ(asked_flows(*runtime, {.match = "icmp"})["flows"][0]["total"], 0);
    runtime->finish();
}

/// Groups of ports are larger than most state: a device's are read a few at a time.
TEST_P(FlowsUnderLoad, AreMappingsOfNatToo) {
    const auto runtime = runtime_of(
        "version: 1\nports: {in: {source: {flows: 3000, count: 200k, size: 64, addresses: {src: 10.0.0.0/8, dst: "
        "192.0.2.0/24}}}, out: {sink: {}}}\nchains: {edge: {input: in, output: out, nfs: [nat: {inside: 10.0.0.0/8, "
        "pool: 198.51.100.1, ports: 1024-9215}]}}\n",
        GetParam(), 2);
    runtime->start();
    uint64_t answers = 0;
    while (!runtime->wait(std::chrono::milliseconds(1))) {
        const json all = asked_flows(*runtime, {.limit = 40});
        ASSERT_EQ(all["flows"].size(), 1u);
        ASSERT_NO_FATAL_FAILURE(expect_sorted(all["flows"][0]["rows"]));
        ++answers;
    }
    EXPECT_GT(answers, 0u);
    const json last = asked_flows(*runtime, {.limit = 10'000})["flows"][0];
    EXPECT_EQ(last["total"], 3000);
    EXPECT_EQ(sum(last["rows"], "packets"), 200'000u) << "each packet is counted";
    EXPECT_EQ(exec::make_report(*runtime).chains.at(0).retried_on_cpu, 0u);
    runtime->finish();
}

TEST(Flows, OfSwitchesAreLeftOutWhereSomeAreAskedFor) {
    const auto runtime = [] {
        chain::LoadOptions load;
        return std::make_unique<exec::Runtime>(chain::parse_configuration(
            "version: 1\nports: {in: {ring: w}, out: {ring: w}}\nchains:\n  c:\n    input: in\n    output: out\n"
            "    nfs:\n      - conntrack: {max-flows: 8}\n      - switch: {flows: [\"priority=0 actions=drop\"]}\n",
            "(flows)", load));
    }();
    EXPECT_EQ(asked_flows(*runtime)["flows"].size(), 2u);
    EXPECT_EQ(asked_flows(*runtime, {.match = "tcp"})["flows"].size(), 1u);
    EXPECT_EQ(asked_flows(*runtime, {.by = "packets"})["flows"].size(), 1u);
}

}  // namespace
}  // namespace millrace::show
