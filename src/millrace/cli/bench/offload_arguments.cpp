#include "millrace/cli/bench/offload_arguments.hpp"

#include <algorithm>

#include "millrace/device/cuda/driver.hpp"

namespace millrace::cli {

void OffloadArguments::add_to(CLI::App& command) {
    command.add_option("--threading", threading, "Whether each worker receives and sends, or a master for all of them")
        ->check(
            CLI::IsMember(std::vector<std::string>(std::begin(lab::kThreadingNames), std::end(lab::kThreadingNames))))
        ->capture_default_str();
    command.add_option("--mode", mode, "How a device runs the chain")
        ->check(CLI::IsMember(std::vector<std::string>(std::begin(device::kModeNames), std::end(device::kModeNames))))
        ->capture_default_str();
    command.add_option("--transfer-in", transfer_in, "How frames reach the device")
        ->check(CLI::IsMember(
            std::vector<std::string>(std::begin(exec::kTransferInNames), std::end(exec::kTransferInNames))))
        ->capture_default_str();
    command.add_option("--transfer-out", transfer_out, "How frames come back")
        ->check(CLI::IsMember(
            std::vector<std::string>(std::begin(exec::kTransferOutNames), std::end(exec::kTransferOutNames))))
        ->capture_default_str();
    command.add_flag("--whole-frames", whole_frames, "Move whole frames both ways, whatever the field plan says");
    command.add_flag("--device-halves", device_halves,
                     "On the cpu device, run the device halves and not the CPU libraries");
    command.add_flag("--graphs", offload.graphs,
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

exec::OffloadOptions OffloadArguments::options() const {
    exec::OffloadOptions options = offload;
    options.mode = *std::find_if(std::begin(device::kModes), std::end(device::kModes),
                                 [&](device::Mode one) { return mode == name_of(one); });
    if (options.mode == device::Mode::persistent) device::cuda::Driver::expect_residents();
    options.transfer_in = *std::find_if(std::begin(exec::kTransfersIn), std::end(exec::kTransfersIn),
                                        [&](exec::TransferIn one) { return transfer_in == name_of(one); });
    options.transfer_out = *std::find_if(std::begin(exec::kTransfersOut), std::end(exec::kTransfersOut),
                                         [&](exec::TransferOut one) { return transfer_out == name_of(one); });
    return options;
}

}  // namespace millrace::cli
