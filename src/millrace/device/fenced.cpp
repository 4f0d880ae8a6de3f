// What devices answer that run no code of others.
#include "millrace/device/device.hpp"

namespace millrace::device {

std::unique_ptr<Window> Device::make_window(size_t, const std::string& what) {
    throw DeviceError(describe() + ": no window for " + what + ": this device runs no code of others");
}

std::shared_ptr<LoadedFenced> Device::load_fenced(const std::string&, const std::string& name) {
    throw DeviceError(describe() + ": it can't run " + name + ": this device runs no code of others");
}

std::shared_ptr<LoadedConfined> Device::load_confined(const chain::Program& program, const std::vector<std::string>&) {
    throw DeviceError(describe() + ": it can't run the tenants of chain '" + program.name +
                      "': this device runs no code of others");
}

Status Device::launch_fenced(StreamId, const LoadedFenced&, const FencedBatch&) { return Status::failed; }

Status Device::launch_confined(StreamId, const LoadedConfined&, uint16_t, const BatchView&, const ConfinedWindows&) {
    return Status::failed;
}

}  // namespace millrace::device
