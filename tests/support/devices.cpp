#include "support/devices.hpp"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/device/sim/sim_device.hpp"

namespace millrace::test {

const std::vector<std::string>& test_devices() {
    static const std::vector<std::string> devices = [] {
        const char* named = std::getenv("MILLRACE_TEST_DEVICES");
        std::istringstream list(named != nullptr ? named : "cpu,sim");
        std::vector<std::string> names;
        for (std::string name; std::getline(list, name, ',');) {
            if (name != "cpu" && name != "sim" && name != "cuda")
                throw std::invalid_argument("MILLRACE_TEST_DEVICES: there is no device '" + name + "'; cpu, sim and cuda are");
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

std::string device_trouble(const std::string& name) {
    std::string why;
    if (name == "cuda" && device::cuda::CudaDevice::count(&why) == 0) return why.empty() ? "there is no GPU" : why;
    return "";
}

std::shared_ptr<device::Device> open_device(const std::string& name) {
    if (name == "cpu") return nullptr;
    if (name == "sim") return std::make_shared<device::sim::SimDevice>();
    // Never closed: the driver may be gone by the time that a program's last objects go.
    static const auto& cuda = *new std::shared_ptr<device::Device>(std::make_shared<device::cuda::CudaDevice>());
    return cuda;
}

}  // namespace millrace::test
