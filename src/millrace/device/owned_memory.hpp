// Memory of a device, and of the host for its copies, that goes back with its owner.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "millrace/device/device.hpp"

namespace millrace::device {

/// Gives host memory back to the device that allocated it, which must live on until then.
struct HostDeleter {
    Device* device = nullptr;
    void operator()(void* memory) const { device->free_host(memory); }
};

/// Host memory that copies reach at full speed (Device::allocate_host).
template <class T>
using HostArray = std::unique_ptr<T[], HostDeleter>;

/// `count` elements, not initialised. Throws DeviceError.
template <class T>
HostArray<T> host_array(Device& device, size_t count) {
    return HostArray<T>(static_cast<T*>(device.allocate_host(count * sizeof(T))), HostDeleter{&device});
}

/// A piece of a device's memory. The device must outlive it.
class DeviceMemory {
public:
    DeviceMemory() = default;
    /// Throws DeviceError; `what` is for its message.
    DeviceMemory(Device& device, size_t bytes, const std::string& what)
        : device_(&device), address_(device.allocate(bytes, what)) {}
    DeviceMemory(DeviceMemory&& other) noexcept
        : device_(other.device_), address_(std::exchange(other.address_, Address{0})) {}
    DeviceMemory& operator=(DeviceMemory&& other) noexcept {
        std::swap(device_, other.device_);
        std::swap(address_, other.address_);
        return *this;
    }
    ~DeviceMemory() {
        if (address_ != 0) device_->free(address_);
    }
    /// 0: there is none.
    Address address() const { return address_; }

private:
    Device* device_ = nullptr;
    Address address_ = 0;
};

}  // namespace millrace::device
