#include "millrace/cli/bench/offload_arguments.hpp"

#include <iterator>

#include "millrace/device/cuda/driver.hpp"

namespace millrace::cli {

void OffloadArguments::add_to(CLI::App& command) {
    command.add_option("--threading", threading, "Whether each worker receives and sends, or a master for all of them")
        ->check(
            CLI::IsMember(std::vector<std::string>(std::begin(lab::kThreadingNames), std::end(lab::kThreadingNames))))
        ->capture_default_str();
    command.add_option("--mode", mode, "How a device runs the chain")
        ->check(CLI::IsMember(lab::compared_modes()))
        ->capture_default_str();
    command.add_option("--transfer-in", transfer_in, "How frames reach the device")
        ->check(CLI::IsMember(
            std::vector<std::string>(std::begin(exec::kTransferInNames), std::end(exec::kTransferInNames))))
        ->capture_default_str();
    command.add_option("--transfer-out", transfer_out, "How frames come back")
        ->check(CLI::IsMember(lab::compared_transfers_out()))
        ->capture_default_str();
    command.add_flag("--whole-frames", whole_frames, "Move whole frames both ways, whatever the field plan says");
    command.add_flag("--device-halves", device_halves,
                     "On the cpu device, run the device halves and not the CPU libraries");
    command.add_flag("--graphs", graphs,
                     "Tell a GPU of each batch by one CUDA graph, and not by a call for each copy and kernel");
    command.add_flag("--call-thread", offload.calls_by_thread,
                     "One more thread for each device makes the calls of its driver for all workers");
    command
        .add_option("--keep-kernels", keep_kernels,
                    "Write source, PTX and cubin of every chain into this folder (device cuda)")
        ->option_text("DIR");
    command.add_option("--batches", offload.depth, "Batches in flight on a device")
        ->check(CLI::Range(1, 64))
        ->capture_default_str();
}

lab::Comparison OffloadArguments::compared() const {
    return {.no_sharing = mode == "no-sharing", .selective = transfer_out == "selective", .graphs = graphs};
}

exec::OffloadOptions OffloadArguments::options() const {
    exec::OffloadOptions options = offload;
    // What is compared is no way of the engine's: lab::Comparison asks for one.
    for (const device::Mode one : device::kModes)
        if (mode == name_of(one)) options.mode = one;
    if (options.mode == device::Mode::persistent) device::cuda::Driver::expect_residents();
    for (const exec::TransferIn one : exec::kTransfersIn)
        if (transfer_in == name_of(one)) options.transfer_in = one;
    for (const exec::TransferOut one : exec::kTransfersOut)
        if (transfer_out == name_of(one)) options.transfer_out = one;
    return options;
}

}  // namespace millrace::cli
