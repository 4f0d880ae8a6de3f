#include "lab/compared/comparison.hpp"

#include <algorithm>
#include <iterator>

#include "lab/compared/graph_device.hpp"
#include "lab/compared/selective_device.hpp"
#include "lab/compared/unshared_device.hpp"
#include "millrace/device/open.hpp"
#include "millrace/exec/transfer/transfer_figures.hpp"

namespace millrace::lab {
namespace {

constexpr const char* kNoSharing = "no-sharing";
constexpr const char* kSelective = "selective";

}  // namespace

std::string Comparison::mode(const exec::OffloadOptions& options) const {
    return no_sharing ? kNoSharing : name_of(options.mode);
}

std::string Comparison::transfer_out(const exec::OffloadOptions& options) const {
    return selective ? kSelective : name_of(options.transfer_out);
}

exec::OffloadOptions Comparison::apply(exec::OffloadOptions options, const std::string& model) const {
    if (selective) options.transfer_out = exec::TransferOut::region;
    if (!no_sharing || model.empty()) return options;
    options.mode = device::Mode::pipelined;
    // What NFs move among themselves lies in the device's memory: no kernel reads it from the host's.
    if (options.transfer_in == exec::TransferIn::zero_copy) options.transfer_in = exec::TransferIn::gather;
    exec::TransferFigures figures = options.figures != nullptr ? *options.figures : *exec::figures_of(model);
    figures.zero_copy.start_ns = 1e15;
    options.figures = std::make_shared<const exec::TransferFigures>(figures);
    return options;
}

std::shared_ptr<device::Device> Comparison::open(const DeviceName& name, const std::string& keep_kernels) const {
    if (graphs && name.kind == "cuda") return put_before(open_graph_device(name.number, keep_kernels));
    return put_before(device::open_device(name, {keep_kernels}));
}

std::shared_ptr<device::Device> Comparison::put_before(std::shared_ptr<device::Device> device) const {
    if (no_sharing) device = std::make_shared<UnsharedDevice>(std::move(device));
    if (selective) device = std::make_shared<SelectiveDevice>(std::move(device));
    return device;
}

std::vector<std::string> compared_modes() {
    std::vector<std::string> names(std::begin(device::kModeNames), std::end(device::kModeNames));
    names.emplace_back(kNoSharing);
    return names;
}

std::vector<std::string> compared_transfers_out() {
    std::vector<std::string> names(std::begin(exec::kTransferOutNames), std::end(exec::kTransferOutNames));
    names.emplace_back(kSelective);
    return names;
}

MoreBytes more_bytes(const device::Device& device) {
    const auto* const before = dynamic_cast<const ForwardingDevice*>(&device);
    if (before == nullptr) return {};
    const MoreBytes behind = more_bytes(before->behind());
    return {before->more_to_device() + behind.to_device, before->more_to_host() + behind.to_host};
}

}  // namespace millrace::lab
