// millrace profile: what transfers take on this machine, for the cost model that chooses the ways across the bus.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>

#include "millrace/base/eal.hpp"
#include "millrace/base/files/output_file.hpp"
#include "lab/transfer/transfer_profile.hpp"
#include "millrace/cli/bench/bench_arguments.hpp"
#include "millrace/cli/process/output_files.hpp"
#include "millrace/cli/profile/profile_chains.hpp"
#include "millrace/device/open.hpp"
#include "millrace/exec/transfer/transfer_figures.hpp"

namespace millrace::cli {
namespace {

struct ProfileArguments {
    std::string device = "cuda", json_file, chain;
    double seconds = 0.03;
    uint32_t frame_bytes = 512;
};

std::string ns_text(double ns) {
    return ns >= 1000 ? fmt::format("{:.1f} us", ns / 1000) : fmt::format("{:.{}f} ns", ns, ns < 10 ? 2 : 0);
}

std::string figures_text(const exec::TransferFigures& f) {
    Table table({"what", "each time", "each row or frame", "each KiB", "at most"});
    const auto add = [&](const char* what, const exec::Pace& pace) {
        table.add({what, ns_text(pace.start_ns), pace.item_ns > 0 ? ns_text(pace.item_ns) : "",
                   ns_text(pace.byte_ns * 1024), pace.byte_ns > 0 ? fmt::format("{:.1f} GB/s", 1 / pace.byte_ns) : ""});
    };
    add("copy to the device", f.copy_in);
    add("copy back", f.copy_out);
    add("rows of a 2-D copy", f.rows);
    add("gather by a kernel", f.gather);
    add("kernels read in the host's memory", f.zero_copy);
    add("heads written home by a kernel", f.heads_out);
    add("packing by the CPU", f.pack);
    return table.text() +
           fmt::format(
               "\nBytes take {:.2f} times as long while as many are copied back, {:.2f} times where a kernel gathers "
               "them.\n"
               "A copy takes {} of a core, a launch {}; all else that a worker does for a packet is taken to be {}.\n",
               f.copy_both, f.gather_both, ns_text(f.call_ns), ns_text(f.launch_ns), ns_text(f.packet_ns));
}

/// How far the fitted figures are from what was measured.
std::string errors_text(const std::vector<lab::TransferSample>& samples) {
    std::vector<double> errors;
    for (const lab::TransferSample& sample : samples)
        errors.push_back(std::abs(sample.fitted_ns / sample.measured_ns - 1) * 100);
    std::sort(errors.begin(), errors.end());
    return fmt::format(
        "{} measurements; half of them are within {:.0f} % of what the figures say, nine of ten within {:.0f} %.\n",
        errors.size(), errors[errors.size() / 2], errors[errors.size() * 9 / 10]);
}

nlohmann::json samples_json(const std::vector<lab::TransferSample>& samples) {
    nlohmann::json rows = nlohmann::json::array();
    for (const lab::TransferSample& s : samples)
        rows.push_back({{"way", s.way},
                        {"items", s.items},
                        {"bytes", s.bytes},
                        {"both-ways", s.both},
                        {"measured-ns", s.measured_ns},
                        {"fitted-ns", s.fitted_ns}});
    return rows;
}

int profile(const ProfileArguments& arguments) {
    note_outputs({{"--json", arguments.json_file}});
    start_eal();
    const auto device = open_one_device(arguments.device);
    std::cout << device->describe() << "\n\n" << std::flush;
    if (!arguments.chain.empty())
        return profile_chains({arguments.chain, arguments.frame_bytes, arguments.seconds, arguments.json_file},
                              arguments.device, device);
    const bool terminal = isatty(STDERR_FILENO) != 0;
    lab::ProfileOptions options;
    options.seconds = arguments.seconds;
    double told = -1;
    options.progress = [&](double share, const std::string& what) {
        if (!terminal && share < told + 0.25) return;
        told = share;
        show_progress(progress_bar(share) + what);
    };
    const lab::TransferProfile profile = measure_transfers(device, options);
    if (terminal) std::cerr << "\r\x1b[K" << std::flush;
    std::cout << figures_text(profile.figures) << errors_text(profile.samples);
    const std::string figures = figures_json(profile.figures);
    if (!arguments.json_file.empty())
        write_json(arguments.json_file, {{"device", device->describe()},
                                         {"figures", nlohmann::json::parse(figures)},
                                         {"samples", samples_json(profile.samples)}});
    const std::string path = exec::figures_path(device->model());
    constexpr const char* kNotKept =
        ", so the figures are not kept; set XDG_CACHE_HOME to a folder that can be written";
    if (path.empty()) throw std::runtime_error(std::string("there is no home") + kNotKept);
    try {
        write_file(path, figures);
    } catch (const std::exception& e) {
        throw std::runtime_error(e.what() + std::string(kNotKept));
    }
    std::cout << "Kept in " << path << ": chains on such a device choose their ways across the bus by it.\n";
    return kOk;
}

}  // namespace

void add_profile(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand(
        "profile", "Measure what transfers to a device take here, so that chains take the cheapest ways");
    const auto arguments = std::make_shared<ProfileArguments>();
    command->add_option("-d,--device", arguments->device, "The device: cuda, cuda:1, sim")
        ->check(device_check())
        ->type_name("DEVICE")
        ->capture_default_str();
    command->add_option("--for", arguments->seconds, "Seconds for each of about 50 measurements")
        ->check(positive_number())
        ->capture_default_str();
    command->add_option("--json", arguments->json_file, "Write figures and measurements as JSON, too")
        ->type_name("FILE");
    command
        ->add_option(
            "--chain", arguments->chain,
            "Measure the chains of this file instead: what their batches take, for promises of rate and latency")
        ->type_name("CHAIN.yaml");
    command->add_option("--size", arguments->frame_bytes, "Then: bytes of the packets' frames")
        ->check(CLI::Range(64u, 1518u))
        ->capture_default_str();
    command->footer(
        "The figures are kept in $XDG_CACHE_HOME/millrace, or ~/.cache/millrace, by the name of the GPU.\n"
        "Run it on a machine that does nothing else, after a change of its hardware or drivers.");
    command->callback([arguments, &status] { status = profile(*arguments); });
}

}  // namespace millrace::cli
