// Runs one network function alone: its device half with some number of lanes, on the host as an executor would or on a
// device by the executor, or its CPU half.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/nf/nf.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {

/// Outcome of a packet that the parser refused; no NF sees it.
inline constexpr uint32_t kRefused = 0xfffffffeu;

/// Which half runs, and how.
struct Engine {
    unsigned lanes = 1;       ///< of the device half; 0: the CPU half
    std::string device = {};  ///< that it runs on, as a configuration names it; empty: the host
    auto operator<=>(const Engine&) const = default;
    std::string text() const {
        const std::string half = lanes == 0 ? "CPU half" : "device half with " + std::to_string(lanes) + " lanes";
        return device.empty() ? half : half + " on " + device;
    }
};
/// The device half on the host with every number of lanes (with one, where the tests aren't asked for cpu), and the CPU
/// half if the type has one.
std::vector<Engine> host_engines(const nf::Type& type);
/// Those, and the device half on every device of the tests that this machine has, with every number of lanes.
std::vector<Engine> engines(const nf::Type& type);

/// What became of a run's packets, in their order.
struct NfResult {
    std::vector<Decision> decisions;
    std::vector<Frame> frames;
    std::vector<uint16_t> out_ports;
    std::vector<Event> events;  ///< by packet, then order
};

/// The ports that NFs are told of unless a test says otherwise.
inline const std::vector<std::string> kTestPorts = {"port0", "port1", "port2", "port3"};

class DeviceNf;

/// One instance of an NF. State lives as long as the runner, so that runs follow one another.
class NfRunner {
public:
    /// Throws ConfigError as the NF does; std::invalid_argument when there is no such type.
    NfRunner(const std::string& type, const Config& options,
             nf::Environment environment = {
                 .node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts});
    NfRunner(const std::string& type, const std::string& options_yaml) : NfRunner(type, Config::parse(options_yaml)) {}
    ~NfRunner();

    const nf::Type& type() const { return *type_; }
    nf::NetworkFunction& nf() { return *nf_; }
    /// Whether device code keeps state or needs an order.
    bool stateful() const;

    /// One batch: tickets in order of arrival, `process` from the last packet to the first (there is
    /// no order), `commit` in order of arrival. The CPU half gets vectors of at most kCpuVector.
    /// Expects that nothing was written outside of the packets and their rooms.
    NfResult run(const std::vector<Frame>& frames, Engine engine, uint16_t in_port = 0);

private:
    const nf::Type* type_;
    std::shared_ptr<nf::NetworkFunction> nf_;
    std::unique_ptr<nf::CpuHalf> cpu_half_;
    std::map<Engine, std::unique_ptr<DeviceNf>> on_devices_;
};

/// Expects that every engine gives the same bytes, lengths, decisions (outcome and detail), output
/// ports and events for `frames`, in batches of 0, 1, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025 (as many
/// as there are frames for) and all of them. Stateful NFs are made anew for every engine and batch.
void check_halves_agree(const std::string& type, const Config& options, const std::vector<Frame>& frames,
                        const nf::Environment& environment = {
                            .node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts});
void check_halves_agree(const std::string& type, const std::string& options_yaml, const std::vector<Frame>& frames);

}  // namespace millrace::test
