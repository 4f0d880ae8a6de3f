// The packet path allocates nothing, locks nothing, sleeps nowhere, and neither writes nor logs: workers run steady
// traffic through every network function that is shipped, while all that they do is counted.
#include <gtest/gtest.h>

#include <set>

#include "exec/contract/chains.hpp"
#include "exec/contract/hoarder.hpp"
#include "exec/contract/played_gpu.hpp"
#include "exec/contract/watched_run.hpp"
#include "lab/compared/master_worker.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/io/capture/capture_writer.hpp"
#include "millrace/nf/variant.hpp"
#include "support/data.hpp"
#include "support/test_folder.hpp"

namespace millrace::test {
namespace {

/// One way of running packets.
struct Way {
    std::string name;
    std::string device = "cpu";
    bool contiguous = false;
    unsigned workers = 1;
    lab::Threading threading = lab::Threading::full_path;
    device::Mode mode = device::Mode::fused;
    bool cpu_halves = true;
    bool call_thread = false;
    exec::TransferIn transfer_in = exec::TransferIn::automatic;
    exec::TransferOut transfer_out = exec::TransferOut::automatic;
    unsigned send_queues = 0;  ///< of the port that packets leave by; 0: one for each worker
    /// With every function. A way that differs from such a one in what is around the functions alone has some.
    bool every_function = false;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

chain::Configuration configuration(const Chains& chains, const Way& way, const TestFolder& folder) {
    chain::LoadOptions options;
    options.device = way.device;
    options.output_folder = folder.path();
    const std::string queues = std::to_string(way.workers);
    std::string source = chains.source;
    if (chains.frames != nullptr) {
        const std::string file = folder / (chains.name + ".pcap");
        io::CaptureWriter writer(file);
        for (uint64_t at_ns = 1; const Frame& frame : chains.frames()) writer.write(at_ns++, frame);
        writer.close();
        source = "{replay: " + file + "}";
    }
    const std::string text = "version: 1\nports:\n  in: {source: " + source + ", queues: " + queues +
                             "}\n  out: {sink: {latency: true}, queues: " +
                             std::to_string(way.send_queues > 0 ? way.send_queues : way.workers) +
                             "}\n  other: {sink: {}, queues: " + queues + "}\n" + chains.text;
    // Files are named as from the top of the tree.
    return chain::parse_configuration(text, source_path("contract.yaml"), options);
}

Watched watch(const Chains& chains, const Way& way) {
    exec::RuntimeOptions options;
    options.workers = way.workers;
    options.sources.contiguous = way.contiguous;
    lab::set_threading(options, way.threading);
    options.cpu.use_cpu_halves = way.cpu_halves;
    options.offload.mode = way.mode;
    options.offload.calls_by_thread = way.call_thread;
    options.offload.transfer_in = way.transfer_in;
    options.offload.transfer_out = way.transfer_out;
    if (way.device == "sim") options.devices = {std::make_shared<PlayedGpu>()};
    const TestFolder folder;  // of up to 100 MB of alerts
    const uint64_t packets = chains.alerts ? 30'000 : way.device == "cpu" ? 60'000 : 30'000;
    return watched_run(configuration(chains, way, folder), std::move(options), packets);
}

std::vector<Way> all_ways() {
    using exec::TransferIn;
    using exec::TransferOut;
    return {
        {.name = "Cpu", .every_function = true},
        {.name = "CpuTwoWorkers", .workers = 2},
        {.name = "CpuOneSendQueue", .workers = 2, .send_queues = 1},
        {.name = "CpuDeviceHalves", .workers = 2, .cpu_halves = false, .every_function = true},
        {.name = "CpuMaster", .workers = 2, .threading = lab::Threading::master_worker},
        {.name = "Sim", .device = "sim", .every_function = true},
        {.name = "SimTwoWorkers", .device = "sim", .workers = 2},
        {.name = "SimRuns", .device = "sim", .contiguous = true, .workers = 2, .every_function = true},
        {.name = "SimRunsOneSendQueue", .device = "sim", .contiguous = true, .workers = 2, .send_queues = 1},
        {.name = "SimCallThread", .device = "sim", .workers = 2, .call_thread = true},
        {.name = "SimPersistent", .device = "sim", .workers = 2, .mode = device::Mode::persistent},
        {.name = "SimPipelined", .device = "sim", .mode = device::Mode::pipelined},
        {.name = "SimRows", .device = "sim", .transfer_in = TransferIn::rows},
        {.name = "SimMaster", .device = "sim", .workers = 2, .threading = lab::Threading::master_worker},
    };
}

class Contract : public testing::TestWithParam<std::tuple<Way, Chains>> {};

TEST_P(Contract, AllocatesLocksAndLogsNothing) {
    const auto& [way, chains] = GetParam();
    const Watched run = watch(chains, way);
    EXPECT_EQ(run.deeds, 0u) << "in " << run.packets << " packets of " << run.batches << " batches, with "
                             << run.passed_on << " passed on and " << run.events << " events:\n"
                             << run.text;
    EXPECT_EQ(run.events > 0, chains.alerts);
    EXPECT_EQ(run.reassembled > 0, chains.name == "Reassembled");
    EXPECT_TRUE(chains.outcome.empty() || run.outcomes.contains(chains.outcome)) << "no packet met " << chains.outcome;
    const bool by_device = way.device != "cpu" && chains.name == "ClassifiedOnTheDevice";
    EXPECT_EQ(run.passed_on > 0, chains.name == "Classified" || by_device);
}

std::string case_name(const testing::TestParamInfo<Contract::ParamType>& info) {
    return std::get<0>(info.param).name + std::get<1>(info.param).name;
}
/// Chains with all that a worker does around functions: packets of several ports, sorted by rules on cores and devices,
/// fragments, tunnels, events, packets that are made, state of each worker's and of a device's own.
const std::set<std::string> kAroundFunctions{
    "Nothing", "Conntrack",  "Reassembled", "Inner",      "Reject",
    "Nids",    "NidsOfHttp", "Gateway",     "Classified", "ClassifiedOnTheDevice"};

/// A master's reassembler and its workers would count in the same place.
std::vector<std::tuple<Way, Chains>> all_cases() {
    std::vector<std::tuple<Way, Chains>> cases;
    for (const Way& way : all_ways())
        for (const Chains& chains : all_chains())
            if ((way.every_function || kAroundFunctions.contains(chains.name)) &&
                (way.threading == lab::Threading::full_path || chains.name != "Reassembled"))
                cases.emplace_back(way, chains);
    return cases;
}
INSTANTIATE_TEST_SUITE_P(OfThePacketPath, Contract, testing::ValuesIn(all_cases()), case_name);

TEST(ContractChains, HaveEveryFunctionThatIsShipped) {
    const TestFolder folder;
    std::set<std::string> shipped, there;
    for (const nf::Type* type : nf::all_types())
        if (type->device_header.starts_with("millrace/")) shipped.insert(type->name);
    for (const Chains& chains : all_chains())
        for (const auto& chain : configuration(chains, {.name = "Cpu"}, folder).chains)
            for (const chain::Node& node : chain->nodes) there.insert(nf::kind_of(*node.type).name);
    EXPECT_EQ(there, shipped);
    for (const std::string& name : kAroundFunctions)
        EXPECT_TRUE(std::ranges::any_of(all_chains(), [&](const Chains& one) { return one.name == name; })) << name;
}

class Broken : public testing::TestWithParam<Misdeed> {};

TEST_P(Broken, ContractIsNoticed) {
    const Misdeed misdeed = GetParam();
    const Chains chains{
        .name = "Hoarder",
        .text = std::string("chains: {c: {input: in, output: out, nfs: [hoarder: {call: ") + misdeed.call + "}]}}\n"};
    const Watched run = watch(chains, {.name = "Cpu"});
    EXPECT_GE(run.deeds, run.packets / 1000 / 2);
    EXPECT_NE(run.text.find(kDeedNames[static_cast<size_t>(misdeed.deed)]), std::string::npos) << run.text;
}

INSTANTIATE_TEST_SUITE_P(ByEachCall, Broken, testing::ValuesIn(kMisdeeds), [](const auto& info) {
    std::string name = info.param.call;
    std::erase(name, '-');
    return name;
});

}  // namespace
}  // namespace millrace::test
