#include "millrace/device/open.hpp"

#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/device/sim/sim_device.hpp"

namespace millrace::device {

std::shared_ptr<Device> open_device(const DeviceName& name, const OpenOptions& options) {
    if (name.kind == "sim") {
        sim::SimOptions simulated;
        simulated.number = name.number;
        return std::make_shared<sim::SimDevice>(simulated);
    }
    cuda::CudaOptions cuda;
    cuda.ordinal = static_cast<int>(name.number);
    cuda.kernels.keep = options.keep_kernels;
    return std::make_shared<cuda::CudaDevice>(cuda);
}

std::string model_of(const DeviceName& name) {
    if (name.kind == "sim") return sim::SimDevice::kModel;
    return cuda::CudaDevice::model_of(name.number);
}

unsigned multiprocessors_of(const DeviceName& name) {
    if (name.kind == "sim") return sim::SimDevice::kMultiprocessors;
    return cuda::CudaDevice::multiprocessors_of(name.number);
}

std::vector<std::shared_ptr<Device>> open_devices(const std::vector<DeviceName>& names, const OpenOptions& options) {
    std::vector<std::shared_ptr<Device>> devices;
    for (const DeviceName& name : names) devices.push_back(open_device(name, options));
    return devices;
}

}  // namespace millrace::device
