// The packet path allocates, locks, sleeps, writes and logs nothing at files and network interfaces either.
#include <gtest/gtest.h>

#include "exec/contract/played_gpu.hpp"
#include "exec/contract/watched_run.hpp"
#include "io/interfaces/cable.hpp"
#include "support/data.hpp"

namespace millrace::test {
namespace {

using namespace io::test;

struct Ports {
    const char* name;
    const char* device;
    const char* layout = "buffers";  ///< of an interface
};

Watched watch(const Ports& way, const std::string& text) {
    const TestFolder folder;
    chain::LoadOptions load;
    load.device = way.device;
    load.output_folder = folder.path();
    exec::RuntimeOptions options;
    if (load.device == "sim") options.devices = {std::make_shared<PlayedGpu>()};
    return watched_run(chain::parse_configuration("version: 1\n" + text, source_path("contract.yaml"), load),
                       std::move(options), 60'000);
}

class ContractAtPorts : public testing::TestWithParam<Ports> {};
std::string name_of(const testing::TestParamInfo<Ports>& info) { return info.param.name; }

using ContractAtFiles = ContractAtPorts;
INSTANTIATE_TEST_SUITE_P(OnEachDevice, ContractAtFiles, testing::Values(Ports{"Cpu", "cpu"}, Ports{"Sim", "sim"}),
                         name_of);

/// A capture that was loaded before, again and again, into another one.
TEST_P(ContractAtFiles, IsKept) {
    const Watched run = watch(GetParam(), R"(
ports:
  in: {capture: {pcap: examples/traffic.pcap, loop: forever, rate: 200k}}
  out: {output: out.pcap}
chains: {c: {input: in, output: out, nfs: [mirror]}}
)");
    EXPECT_EQ(run.deeds, 0u) << run.packets << " packets:\n" << run.text;
}

using ContractAtInterfaces = ContractAtPorts;
INSTANTIATE_TEST_SUITE_P(OnEachDevice, ContractAtInterfaces,
                         testing::Values(Ports{"Cpu", "cpu"}, Ports{"Sim", "sim"}, Ports{"SimBlocks", "sim", "blocks"}),
                         name_of);

/// Through a cable: what one chain sends the other one receives.
TEST_P(ContractAtInterfaces, IsKept) {
    IN_OWN_NETWORK([&] {
        ASSERT_EQ(run(kCable), "");
        const Watched run = watch(GetParam(), std::string(R"(
ports:
  in: {source: {size: [64, 700], flows: 64}}
  left: {af_packet: left}
  right: {af_packet: right, layout: )") + GetParam().layout +
                                                  R"(}
  out: {sink: {}}
chains:
  there: {input: in, output: left, nfs: [mirror]}
  here: {input: right, output: out, nfs: [mirror]}
)");
        EXPECT_EQ(run.deeds, 0u) << run.packets << " packets:\n" << run.text;
    });
}

}  // namespace
}  // namespace millrace::test
