// Runs a network function on a device, as a chain of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/nftest/nf_runner.hpp"

namespace millrace::nftest {

struct FunctionOnDevice {
    const nf::Type* type;
    std::shared_ptr<nf::NetworkFunction> nf;
    unsigned lanes;
};

/// A chain of few NFs on a device: the last one's every outcome leads out, the others' to the next one, so that all
/// packets come back. Events are the last one's. Its state stays on the device from run to run.
class DeviceNf {
public:
    DeviceNf(std::shared_ptr<device::Device> device, const std::vector<FunctionOnDevice>& functions);
    ~DeviceNf();
    /// As NfRunner::run does.
    NfResult run(const std::vector<Frame>& frames, uint16_t in_port, uint64_t time_ns);

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace millrace::nftest
