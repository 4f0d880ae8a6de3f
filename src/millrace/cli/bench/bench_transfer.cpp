// millrace bench transfer: what a device's bus carries.
#include <fmt/format.h>

#include <iostream>

#include "millrace/base/eal.hpp"
#include "lab/transfer/bus.hpp"
#include "millrace/cli/bench/bench_arguments.hpp"
#include "millrace/cli/process/output_files.hpp"
#include "millrace/device/open.hpp"

namespace millrace::cli {
namespace {

struct TransferArguments {
    std::string device = "cuda", json_file;
    double seconds = 0.2;
};

/// Pieces of one run of bytes, by their size.
nlohmann::json by_size(device::Device& device, double seconds) {
    nlohmann::json rows = nlohmann::json::array();
    Table table({"piece", "to the device", "back", "both at once: to", "back"});
    for (const size_t bytes : {size_t{4} << 10, size_t{16} << 10, size_t{64} << 10, size_t{256} << 10, size_t{1} << 20,
                               size_t{4} << 20, size_t{32} << 20}) {
        show_progress(fmt::format("pieces of {} KiB", bytes >> 10));
        lab::BusOptions options;
        options.seconds = seconds;
        options.to_device_bytes = bytes;
        const lab::BusRate in = measure_bus(device, options);
        options.to_host_bytes = bytes;
        const lab::BusRate both = measure_bus(device, options);
        options.to_device_bytes = 0;
        const lab::BusRate out = measure_bus(device, options);
        const auto gbs = [](double rate) { return fmt::format("{:.1f} GB/s", rate); };
        table.add({fmt::format("{} KiB", bytes >> 10), gbs(in.to_device_gbs), gbs(out.to_host_gbs),
                   gbs(both.to_device_gbs), gbs(both.to_host_gbs)});
        rows.push_back({{"bytes", bytes},
                        {"to-device-gbs", in.to_device_gbs},
                        {"to-host-gbs", out.to_host_gbs},
                        {"both-to-device-gbs", both.to_device_gbs},
                        {"both-to-host-gbs", both.to_host_gbs}});
    }
    std::cout << table.text() << "\n";
    return rows;
}

/// Batches of 8,192 frames, packed and as rows straight from packet buffers.
nlohmann::json by_frame(device::Device& device, double seconds) {
    constexpr size_t kPackets = 8192;
    nlohmann::json rows = nlohmann::json::array();
    Table table({"frame", "in, packed", "in, rows of buffers", "both ways, packed", "both ways, rows in"});
    for (const size_t frame : {64, 128, 256, 512, 1024, 1518}) {
        show_progress(fmt::format("batches of {} frames of {} bytes", kPackets, frame));
        nlohmann::json row = {{"frame-bytes", frame}, {"batch-packets", kPackets}};
        std::vector<std::string> cells = {fmt::format("{} B", frame)};
        for (const bool both : {false, true})
            for (const bool by_rows : {false, true}) {
                lab::BusOptions options;
                options.seconds = seconds;
                options.to_device_bytes = frame * kPackets;
                options.to_host_bytes = both ? frame * kPackets : 0;
                options.row_bytes = by_rows ? frame : 0;
                const double packets = measure_bus(device, options).pieces_per_second * kPackets;
                cells.push_back(fmt::format("{:.1f} GB/s · {:.0f} Mpkt/s", packets * static_cast<double>(frame) * 1e-9,
                                            packets * 1e-6));
                row[std::string(both ? "both" : "in") + (by_rows ? "-rows" : "-packed") + "-packets-per-second"] =
                    packets;
            }
        table.add(cells);
        rows.push_back(row);
    }
    std::cout << table.text();
    return rows;
}

int bench_transfer(const TransferArguments& arguments) {
    note_outputs({{"--json", arguments.json_file}});
    start_eal();
    const auto device = open_one_device(arguments.device);
    std::cout << device->describe() << "\n\n";
    const nlohmann::json sizes = by_size(*device, arguments.seconds);
    const nlohmann::json frames = by_frame(*device, arguments.seconds);
    if (!arguments.json_file.empty())
        write_json(arguments.json_file, {{"device", device->describe()}, {"pieces", sizes}, {"frames", frames}});
    return kOk;
}

}  // namespace

void add_bench_transfer(CLI::App& bench, int& status) {
    CLI::App* command = bench.add_subcommand("transfer",
                                             "What a device's bus carries, by the size of pieces and by frames");
    const auto arguments = std::make_shared<TransferArguments>();
    command->add_option("-d,--device", arguments->device, "The device: sim, cuda, cuda:1")
        ->check(device_check())
        ->type_name("DEVICE")
        ->capture_default_str();
    command->add_option("--for", arguments->seconds, "Seconds for each figure")
        ->check(positive_number())
        ->capture_default_str();
    command->add_option("--json", arguments->json_file, "Write the figures as JSON")->type_name("FILE");
    command->callback([arguments, &status] { status = bench_transfer(*arguments); });
}

}  // namespace millrace::cli
