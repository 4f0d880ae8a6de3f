// How a device (or the cpu) runs chains, as the command line says it.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "millrace/exec/runtime.hpp"

namespace millrace::cli {

struct OffloadArguments {
    std::string threading = "full-path", mode = "fused", transfer_in = "auto", transfer_out = "auto";
    exec::OffloadOptions offload;
    bool device_halves = false;

    void add_to(CLI::App& command);
    exec::OffloadOptions options() const;
    exec::Threading threads() const { return threading == "full-path" ? exec::Threading::full_path : exec::Threading::master_worker; }
    exec::CpuOptions cpu_options() const { return {.use_cpu_halves = !device_halves}; }
};

}  // namespace millrace::cli
