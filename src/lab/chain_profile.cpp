#include "lab/chain_profile.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "lab/transfer/bus.hpp"
#include "millrace/exec/transfer/batch_bytes.hpp"

namespace millrace::lab {
namespace {

/// One piece at a time, as a batch by itself crosses the bus: there, and then back.
double transfer_ns(device::Device& device, const exec::BatchBytes& bytes, double seconds) {
    double ns = 0;
    for (const bool back : {false, true}) {
        const size_t piece = back ? bytes.back : bytes.in;
        if (piece == 0) continue;
        BusOptions options;
        (back ? options.to_host_bytes : options.to_device_bytes) = piece;
        options.depth = 1;
        options.seconds = seconds;
        ns += 1e9 / std::max(measure_bus(device, options).pieces_per_second, 1e-3);
    }
    return ns;
}

}  // namespace

schedule::ChainProfile profile_chain(device::Device& device, KernelRun& kernels,
                                     const std::shared_ptr<const chain::Program>& program,
                                     const io::TrafficFrames& frames, uint32_t sms,
                                     const ChainProfileOptions& options) {
    schedule::ChainProfile profile;
    for (const io::FrameTemplate& frame : frames.templates) profile.frame_bytes += frame.length;
    profile.frame_bytes /= static_cast<double>(frames.templates.size());
    for (const uint32_t batch : options.batches) {
        if (batch > program->max_batch && !profile.points.empty()) continue;
        const uint32_t packets = std::min(batch, program->max_batch);
        options.progress(fmt::format("{}: {} packets", program->name, packets));
        KernelOptions own;
        own.batch = packets;
        own.seconds = options.seconds;
        const double kernel_us = kernels.measure(program, frames, own).batch_us;
        const auto frame_bytes = static_cast<uint32_t>(profile.frame_bytes);
        const auto bytes = batch_bytes(*program, exec::prefixes_of(program->plan), frame_bytes, packets);
        profile.points.push_back({packets, sms, kernel_us * 1000, transfer_ns(device, bytes, options.seconds)});
    }
    profile.model = schedule::fit(profile.points);
    return profile;
}

}  // namespace millrace::lab
