// Runs one network function alone: its device half with some number of lanes, on the host as an executor would or on a
// device by the executor, or its CPU half.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/nftest/packets/packet_builder.hpp"
#include "millrace/device/device.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::nftest {

/// Outcome of a packet that the parser refused; no NF sees it.
inline constexpr uint32_t kRefused = 0xfffffffeu;

/// One of the halves of an NF, and how it runs.
struct Half {
    unsigned lanes = 1;       ///< of the device half; 0: the CPU half
    std::string device = {};  ///< that it runs on, as a configuration names it; empty: the host
    auto operator<=>(const Half&) const = default;
    std::string text() const {
        const std::string half = lanes == 0 ? "CPU half" : "device half with " + std::to_string(lanes) + " lanes";
        return device.empty() ? half : half + " on " + device;
    }
};
/// The device half on the host with every number of lanes, and the CPU half if the type has one.
std::vector<Half> host_halves(const nf::Type& type);
/// The device half on each of `devices` with every number of lanes.
std::vector<Half> device_halves(const std::vector<std::string>& devices);

/// Gives the device of a name.
using OpenDevice = std::function<std::shared_ptr<device::Device>(const std::string&)>;

/// What became of a run's packets, in their order.
struct NfResult {
    std::vector<Decision> decisions;
    std::vector<Frame> frames;
    std::vector<uint16_t> out_ports;
    std::vector<Event> events;          ///< by packet, then order
    std::vector<std::string> mistakes;  ///< that no packet's result shows, such as writes outside of packets
};

/// From one packet of a run to the next.
inline constexpr uint64_t kPacketNs = 1000;

/// The ports that NFs are told of unless something else is said.
inline const std::vector<std::string> kTestPorts = {"port0", "port1", "port2", "port3"};

class DeviceNf;
class PacketArena;

/// The device half over a batch on the host: tickets in order of arrival, `process` from the last packet to the first
/// (there is no order), `commit` in order of arrival. Packets that the parser refused keep their decisions.
void run_device_half(const nf::Type& type, const void* tables, unsigned lanes, PacketArena& arena,
                     std::vector<Decision>& decisions);

/// One instance of an NF. State lives as long as the runner, so that runs follow one another.
class NfRunner {
public:
    /// Throws ConfigError as the NF does. `open` is asked for the devices that halves run on.
    NfRunner(const nf::Type& type, const Config& options, const nf::Environment& environment, OpenDevice open);
    ~NfRunner();

    /// Lets packets meet another NF first, by its device half; what they are told of it is that one's business. Before
    /// the first run. Throws ConfigError as that NF does.
    void put_behind(const nf::Type& type, const Config& options, const nf::Environment& environment);

    const nf::Type& type() const { return *type_; }
    nf::NetworkFunction& nf() { return *nf_; }
    /// Whether device code keeps state or needs an order.
    bool stateful() const;

    /// One batch. The CPU half and CPU stages, which devices go without, get vectors of at most kCpuVector. A write
    /// outside of the packets and their rooms is a mistake.
    NfResult run(const std::vector<Frame>& frames, const Half& half, uint16_t in_port = 0);

    uint64_t time_ns = 0;  ///< of runs: when their first packets come; the others follow each kPacketNs

private:
    void run_half(const Half& half, PacketArena& arena, std::vector<Decision>& decisions);

    OpenDevice open_;
    std::shared_ptr<nf::NetworkFunction> nf_;
    const nf::Type* type_;                         // of it
    std::shared_ptr<nf::NetworkFunction> before_;  // that packets meet first, or null
    const nf::Type* before_type_ = nullptr;
    std::unique_ptr<nf::CpuHalf> cpu_half_;
    std::map<Half, std::unique_ptr<DeviceNf>> on_devices_;
};

}  // namespace millrace::nftest
