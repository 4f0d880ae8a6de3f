// The runner of one network function (nftest/nf_runner.hpp), for tests: what it finds wrong fails them.
#pragma once

#include <string>
#include <vector>

#include "millrace/nftest/nf_runner.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {

using nftest::Half;
using nftest::kRefused;
using nftest::kTestPorts;
using nftest::NfResult;

/// The device half on the host with every number of lanes (with one, where the tests aren't asked for cpu), and the CPU
/// half if the type has one.
std::vector<Half> host_halves(const nf::Type& type);
/// Those, and the device half on every device of the tests that this machine has, with every number of lanes.
std::vector<Half> halves(const nf::Type& type);

/// One instance of an NF. State lives as long as the runner, so that runs follow one another.
class NfRunner : public nftest::NfRunner {
public:
    /// Throws ConfigError as the NF does; std::invalid_argument when there is no such type.
    NfRunner(const std::string& type, const Config& options,
             const nf::Environment& environment = {
                 .node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts});
    NfRunner(const std::string& type, const std::string& options_yaml) : NfRunner(type, Config::parse(options_yaml)) {}
    /// Expects that nothing was done that no result shows; see NfResult::mistakes.
    NfResult run(const std::vector<Frame>& frames, const Half& half, uint16_t in_port = 0);
};

/// Expects that every half gives the same bytes, lengths, decisions (outcome and detail), output
/// ports and events for `frames`, in batches of 0, 1, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025 (as many
/// as there are frames for) and all of them. Stateful NFs are made anew for every half and batch.
void check_halves_agree(const std::string& type, const Config& options, const std::vector<Frame>& frames,
                        const nf::Environment& environment = {
                            .node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts});
void check_halves_agree(const std::string& type, const std::string& options_yaml, const std::vector<Frame>& frames);

}  // namespace millrace::test
