// The ways to run chains that benchmarks compare, as the command line says them. `millrace run` takes the best one.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "lab/compared/comparison.hpp"
#include "lab/compared/master_worker.hpp"

namespace millrace::cli {

struct OffloadArguments {
    std::string threading = "full-path", mode = "fused", transfer_in = "auto", transfer_out = "auto";
    exec::OffloadOptions offload;
    bool graphs = false;
    bool whole_frames = false;  ///< lab::RunOptions::whole_frames
    bool device_halves = false;
    std::string keep_kernels;  ///< folder for what devices compile; empty: none

    void add_to(CLI::App& command);
    exec::OffloadOptions options() const;
    lab::Comparison compared() const;
    lab::Threading threads() const {
        return threading == "full-path" ? lab::Threading::full_path : lab::Threading::master_worker;
    }
    exec::CpuOptions cpu_options() const { return {.use_cpu_halves = !device_halves}; }
};

}  // namespace millrace::cli
