#include "support/devices.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <sstream>

#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/device/open.hpp"
#include "millrace/device/sim/sim_device.hpp"

namespace millrace::test {

const std::vector<std::string>& test_devices() {
    static const std::vector<std::string> devices = [] {
        const char* named = std::getenv("MILLRACE_TEST_DEVICES");
        std::istringstream list(named != nullptr ? named : "cpu,sim");
        std::vector<std::string> names;
        for (std::string name; std::getline(list, name, ',');) {
            if (name != "cpu" && name != "sim" && name != "cuda")
                throw std::invalid_argument("MILLRACE_TEST_DEVICES: there is no device '" + name +
                                            "'; cpu, sim and cuda are");
            names.push_back(name);
        }
        return names;
    }();
    return devices;
}

std::vector<std::string> offload_devices() {
    std::vector<std::string> names = test_devices();
    std::erase(names, "cpu");
    return names;
}

std::vector<std::string> device_pairs() {
    std::vector<std::string> pairs;
    for (const std::string& name : offload_devices()) pairs.push_back(name + ":0+" + name + ":1");
    return pairs;
}

std::string device_trouble(const std::string& names) {
    for (const DeviceName& name : parse_device_names(names).devices) {
        std::string why;
        if (name.kind != "cuda" || device::cuda::CudaDevice::count(&why) > static_cast<int>(name.number)) continue;
        return !why.empty()       ? why
               : name.number == 0 ? "there is no GPU"
                                  : "there is no cuda:" + std::to_string(name.number);
    }
    return "";
}

std::vector<std::shared_ptr<device::Device>> open_devices(const std::string& names) {
    // Never closed: the driver may be gone by the time that a program's last objects go.
    static auto& gpus = *new std::map<unsigned, std::shared_ptr<device::Device>>;
    std::vector<std::shared_ptr<device::Device>> devices;
    for (const DeviceName& name : parse_device_names(names).devices) {
        if (name.kind == "sim") {
            devices.push_back(device::open_device(name));
            continue;
        }
        auto& gpu = gpus[name.number];
        if (gpu == nullptr) gpu = device::open_device(name);
        devices.push_back(gpu);
    }
    return devices;
}

std::shared_ptr<device::Device> open_device(const std::string& name) {
    const auto devices = open_devices(name);
    return devices.empty() ? nullptr : devices.front();
}

std::shared_ptr<device::Device> open_device(const std::string& name, uint32_t seed) {
    device::sim::SimOptions sim;
    sim.seed = seed;
    return name == "sim" ? std::make_shared<device::sim::SimDevice>(sim) : open_device(name);
}

std::string device_test_name(const testing::TestParamInfo<std::string>& info) {
    std::string name;
    for (const char c : info.param)
        if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
    return name;
}

void DeviceInMode::SetUp() { MILLRACE_NEEDS_DEVICE(name()); }

std::vector<DeviceInMode::ParamType> devices_in_every_mode() {
    std::vector<DeviceInMode::ParamType> all;
    for (const std::string& device : offload_devices())
        for (const device::Mode mode : device::kModes) all.emplace_back(device, mode);
    return all;
}

std::string device_in_mode_name(const testing::TestParamInfo<DeviceInMode::ParamType>& info) {
    return device_test_name({std::get<0>(info.param) + device::name_of(std::get<1>(info.param)), info.index});
}

}  // namespace millrace::test
