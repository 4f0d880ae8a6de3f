// A run to ask, from a configuration as text.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "millrace/exec/runtime/runtime.hpp"
#include "support/devices.hpp"

namespace millrace::show {

inline std::unique_ptr<exec::Runtime> runtime_of(const std::string& text, const std::string& device = "cpu",
                                                 unsigned workers = 0) {
    chain::LoadOptions load;
    load.device = device;
    load.output_folder = testing::TempDir();
    exec::RuntimeOptions options;
    options.workers = workers;
    options.devices = test::open_devices(device);
    return std::make_unique<exec::Runtime>(chain::parse_configuration(text, "(show)", load), options);
}

}  // namespace millrace::show
