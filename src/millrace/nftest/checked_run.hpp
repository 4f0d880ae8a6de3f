// Holds the network functions of running chains to what they declare.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "millrace/nftest/declared.hpp"
#include "millrace/base/text/diagnostic.hpp"
#include "millrace/chain/configuration.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/io/capture/capture_writer.hpp"

namespace millrace::nftest {

/// A simulated device that shows each packet to a DeclarationCheck before its network function gets it. One worker, as
/// the check runs functions on the host's copy of their state; chains that bring whole frames (with_whole_frames).
class CheckedRun {
public:
    /// Packets that show a broken promise are written to `capture`, as the function got them.
    explicit CheckedRun(std::string capture) : capture_(std::move(capture)) {}
    CheckedRun(const CheckedRun&) = delete;
    CheckedRun& operator=(const CheckedRun&) = delete;

    /// To run the chains on; this object must outlive it.
    std::shared_ptr<device::Device> device();
    /// Each promise that was broken, once for each function of a chain: which field, and the packet of the capture.
    std::vector<Diagnostic> findings();
    /// Packets that were looked at, once for each function.
    uint64_t packets() const { return packets_; }

private:
    void look(const chain::Program& program, uint16_t index, const Packet& packet);

    const std::string capture_;
    std::mutex mutex_;
    /// A node of a chain, which changes may give another generation of its function.
    struct Checked {
        std::shared_ptr<nf::NetworkFunction> nf;
        DeclarationCheck check;
    };
    std::map<std::pair<std::string, std::string>, Checked> checks_;  // by the names of chain and node
    std::unique_ptr<io::CaptureWriter> writer_;
    std::vector<Diagnostic> findings_;
    uint64_t packets_ = 0;
};

}  // namespace millrace::nftest
