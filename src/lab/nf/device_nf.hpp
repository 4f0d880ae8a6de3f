// Runs one network function on a device, as a chain of its own.
#pragma once

#include <memory>
#include <string>

#include "lab/nf/nf_runner.hpp"

namespace millrace::lab {

/// A chain of one NF on a device, whose every outcome leads out, so that all packets come back. Its state stays on the
/// device from run to run.
class DeviceNf {
public:
    DeviceNf(std::shared_ptr<device::Device> device, const nf::Type& type, std::shared_ptr<nf::NetworkFunction> nf,
             unsigned lanes);
    ~DeviceNf();
    /// As NfRunner::run does.
    NfResult run(const std::vector<Frame>& frames, uint16_t in_port, uint64_t time_ns);

private:
    struct Parts;
    std::unique_ptr<Parts> parts_;
};

}  // namespace millrace::lab
