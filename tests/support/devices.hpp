// The devices that tests run on.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "millrace/device/device.hpp"

namespace millrace::test {

/// Names as in a configuration, from MILLRACE_TEST_DEVICES, a list with commas; cpu and sim unless it is set.
const std::vector<std::string>& test_devices();
/// Those of them that have memory of their own: all but cpu.
std::vector<std::string> offload_devices();

/// Why a device, or one of several, can't be used on this machine; empty when it can.
std::string device_trouble(const std::string& name);

/// The device of that name: for sim a new one, for cuda one that a test program shares, as it takes its time to open;
/// null for cpu. Throws device::DeviceError.
std::shared_ptr<device::Device> open_device(const std::string& name);
/// The same; simulated ones differ by `seed` in the order of their work.
std::shared_ptr<device::Device> open_device(const std::string& name, uint32_t seed);
/// The same for several, "sim:0+sim:1"; none for cpu.
std::vector<std::shared_ptr<device::Device>> open_devices(const std::string& names);
/// Two devices at once of each kind that tests run on and that has memory of its own: "sim:0+sim:1".
std::vector<std::string> device_pairs();

/// The name of a parameterised test that has a device's as its parameter.
std::string device_test_name(const testing::TestParamInfo<std::string>& info);

/// A test of a device in one of its modes, so that several processes can share out what takes long.
class DeviceInMode : public testing::TestWithParam<std::tuple<std::string, device::Mode>> {
protected:
    void SetUp() override;
    const std::string& name() const { return std::get<0>(GetParam()); }
    device::Mode mode() const { return std::get<1>(GetParam()); }
    std::shared_ptr<device::Device> device(uint32_t seed) const { return open_device(name(), seed); }
};
/// Its parameters: offload_devices() in every mode.
std::vector<DeviceInMode::ParamType> devices_in_every_mode();
std::string device_in_mode_name(const testing::TestParamInfo<DeviceInMode::ParamType>& info);

}  // namespace millrace::test

/// Skips the test, saying so, on machines without the device.
#define MILLRACE_NEEDS_DEVICE(name)                                                           \
    if (const std::string trouble = ::millrace::test::device_trouble(name); !trouble.empty()) \
    GTEST_SKIP() << "needs the device " << (name) << ": " << trouble
