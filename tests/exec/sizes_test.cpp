// Every network function that is shipped, with tables of every size, on every device.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/io/capture/capture_writer.hpp"
#include "millrace/nf/nf.hpp"
#include "support/data.hpp"
#include "support/devices.hpp"
#include "support/end_of_run.hpp"
#include "support/engine_runner.hpp"
#include "support/sizes.hpp"
#include "support/test_chain.hpp"
#include "support/test_folder.hpp"

namespace millrace::test {
namespace {

using DeviceAndSize = std::tuple<std::string, SizedNf>;

std::string name_of(const testing::TestParamInfo<DeviceAndSize>& info) {
    const auto& [device, sized] = info.param;
    return device + "_" + sized.nf + "_" + sized.size;
}

class Sizes : public testing::TestWithParam<DeviceAndSize> {
protected:
    void SetUp() override {
        MILLRACE_NEEDS_DEVICE(device());
        if (!sized().data.empty()) MILLRACE_NEEDS_DATA(sized().data);
    }
    const std::string& device() const { return std::get<0>(GetParam()); }
    const SizedNf& sized() const { return std::get<1>(GetParam()); }
};

/// One packet of those that were aimed at an entry met it. Their frames begin with number `first`.
void expect_met(const chain::Configuration& configuration, const EngineRun& run, size_t first,
                const std::vector<Aimed>& aimed, const char* which) {
    if (aimed.empty()) return;
    const chain::Node& node = configuration.chains[0]->nodes[0];
    std::string got;
    for (size_t i = 0; i < aimed.size(); ++i) {
        const auto outcome = std::ranges::find(run.outcomes, first + i, &Outcome::number);
        ASSERT_TRUE(outcome != run.outcomes.end() && !outcome->visits.empty()) << which << " entry: packet " << i;
        const Decision decision = outcome->visits[0].decision;
        const std::string_view name = node.outcome_name(decision.outcome);
        if (name == aimed[i].outcome && aimed[i].detail.value_or(decision.detail) == decision.detail) return;
        got += " " + std::string(name) + "/" + std::to_string(decision.detail);
    }
    ADD_FAILURE() << "no packet met the " << which << " entry:" << got;
}

TEST_P(Sizes, GiveTheCpusAnswer) {
    const SizedTables tables = sized().make();
    std::vector<Frame> frames = tables.filling;
    for (Frame& frame : random_frames(400, 5)) frames.push_back(std::move(frame));
    const size_t first = frames.size(), middle = first + tables.first.size(), last = middle + tables.middle.size();
    for (const auto* aimed : {&tables.first, &tables.middle, &tables.last})
        for (const Aimed& packet : *aimed) frames.push_back(packet.frame);
    frames.insert(frames.end(), tables.others.begin(), tables.others.end());

    // The device first: the proof that its failure is noticed ends here, and need not load the tables for the cpu.
    const EngineRun run = run_on_device(open_device(device()), make_configuration(tables.nfs, device()), frames, 300,
                                        {}, Work::but_long_headers);
    const chain::Configuration on_cpu = make_configuration(tables.nfs, "cpu");
    const EngineRun expected = run_on_cpu(on_cpu, frames, 256);
    expect_conserved(expected, frames.size());
    expect_met(on_cpu, expected, first, tables.first, "first");
    expect_met(on_cpu, expected, middle, tables.middle, "middle");
    expect_met(on_cpu, expected, last, tables.last, "last");
    expect_conserved(run, frames.size());
    expect_equal(expected, run, name_of({GetParam(), 0}));
    EXPECT_EQ(run.counters->events.get(), expected.counters->events.get());
    EXPECT_EQ(run.counters->events_lost.get() + expected.counters->events_lost.get(), 0u);
}

/// Of the largest sizes the program carries packets: live/functions/largest.sh.
std::vector<SizedNf> all_but_the_largest() {
    std::vector<SizedNf> all = sized_nfs();
    std::erase_if(all, [](const SizedNf& one) { return one.size == "largest"; });
    return all;
}

/// What is loaded carries packets from port to port.
class Loads : public Sizes {};

TEST_P(Loads, GoFromPortToPort) {
    const SizedTables tables = sized().make();
    const TestFolder folder;
    {
        io::CaptureWriter writer(folder / "frames.pcap");
        for (const Frame& frame : tables.filling) writer.write(1, frame);
        for (const Frame& frame : random_frames(400, 6)) writer.write(1, frame);
        for (const auto* aimed : {&tables.first, &tables.middle, &tables.last})
            for (const Aimed& packet : *aimed) writer.write(1, packet.frame);
    }
    constexpr uint64_t kPackets = 5000;
    for (const std::string& device : {std::string("cpu"), this->device()}) {
        chain::LoadOptions options;
        options.device = device;
        options.output_folder = folder.path();
        exec::RuntimeOptions runtime_options;
        if (device != "cpu") runtime_options.devices = {open_device(device)};
        exec::Runtime runtime(
            chain::parse_configuration("version: 1\nports: {in: {source: {replay: " + (folder / "frames.pcap") +
                                           ", count: " + std::to_string(kPackets) +
                                           "}}, out: {sink: {}}, third: {sink: {}}}\n"
                                           "chains:\n  c:\n    input: in\n    output: out\n    punt: third\n    nfs: " +
                                           tables.nfs + "\n",
                                       "load.yaml", options),
            std::move(runtime_options));
        runtime.start();
        const exec::Report report = end_of_run(runtime, Work::but_long_headers, device);
        EXPECT_EQ(report.chains[0].received_packets, kPackets);
        EXPECT_EQ(report.chains[0].events_lost, 0u);
    }
}

INSTANTIATE_TEST_SUITE_P(All, Loads,
                         testing::Combine(testing::ValuesIn(offload_devices()),
                                          testing::ValuesIn(all_but_the_largest())),
                         name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Loads);
INSTANTIATE_TEST_SUITE_P(All, Sizes,
                         testing::Combine(testing::ValuesIn(offload_devices()), testing::ValuesIn(sized_nfs())),
                         name_of);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Sizes);

TEST(TableOfSizes, HasEveryShippedNetworkFunctionInEverySize) {
    std::set<std::pair<std::string, std::string>> sizes;
    for (const SizedNf& sized : sized_nfs()) EXPECT_TRUE(sizes.emplace(sized.nf, sized.size).second) << sized.nf;
    size_t shipped = 0;
    for (const nf::Type* type : nf::all_types()) {
        // Those of tests have their device halves elsewhere.
        if (!type->device_header.starts_with("millrace/nf/")) continue;
        ++shipped;
        for (const char* size : kSizes)
            EXPECT_NE(sizes.contains({type->name, size}), !why_not_sized(type->name, size).empty())
                << type->name << " of the size " << size << ": tests/support/sizes.cpp";
    }
    EXPECT_GE(shipped, 6u);
}

}  // namespace
}  // namespace millrace::test
