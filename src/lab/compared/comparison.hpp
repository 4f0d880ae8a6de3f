// Ways to run a chain on a device that the product does not have: they are there to be compared with.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/exec/offload/offload_options.hpp"

namespace millrace::lab {

struct Comparison {
    bool no_sharing = false;  ///< a kernel for each NF, and the frames go to the host and back in between
    bool selective = false;   ///< frames come back by a copy for each packet that goes on, where they come back whole
    bool graphs = false;      ///< a GPU is told of each batch by one CUDA graph
    friend auto operator<=>(const Comparison&, const Comparison&) = default;

    /// As results name them: what the product calls so, or what is compared.
    std::string mode(const exec::OffloadOptions& options) const;
    std::string transfer_out(const exec::OffloadOptions& options) const;
    /// What the engine must do for it.
    exec::OffloadOptions apply(exec::OffloadOptions options, const std::string& model) const;
    /// A device by its name, that works so.
    std::shared_ptr<device::Device> open(const DeviceName& name, const std::string& keep_kernels) const;
    /// The same for one that is open; `graphs` is nothing that can be added.
    std::shared_ptr<device::Device> put_before(std::shared_ptr<device::Device> device) const;
};

/// Names of the modes and the ways back, those that are compared among them.
std::vector<std::string> compared_modes();
std::vector<std::string> compared_transfers_out();

/// Bytes that cross the bus of a device besides those that engines count.
struct MoreBytes {
    int64_t to_device = 0, to_host = 0;
};
MoreBytes more_bytes(const device::Device& device);

}  // namespace millrace::lab
