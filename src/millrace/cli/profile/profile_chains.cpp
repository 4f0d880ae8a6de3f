#include "millrace/cli/profile/profile_chains.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <iostream>

#include "lab/chain_profile.hpp"
#include "millrace/base/files/output_file.hpp"
#include "millrace/chain/tenants/parts.hpp"
#include "millrace/cli/bench/bench_arguments.hpp"
#include "millrace/cli/process/run_guard.hpp"
#include "millrace/cli/text/progress.hpp"
#include "millrace/cli/text/table.hpp"
#include "millrace/device/open.hpp"

namespace millrace::cli {
namespace {

/// What was kept of the model, or nothing of it yet.
schedule::Profile kept(const std::string& model) {
    try {
        if (auto profile = schedule::profile_of(model)) return *profile;
    } catch (const ConfigError& e) {
        spdlog::warn("{}\nit is made anew", e.what());
    }
    return {model, {}, {}, {}};
}

void show(const std::string& name, const schedule::ChainProfile& chain, const schedule::Gpu& gpu) {
    std::cout << "chain " << name << ", frames of " << chain.frame_bytes << " B, " << gpu.sms << " multiprocessors\n";
    Table table({"packets a batch", "kernels", "by the line", "transfer", "by the line"});
    const auto us = [](double ns) { return fmt::format("{:.1f} us", ns / 1000); };
    const schedule::Model& model = chain.model;
    for (const schedule::ProfilePoint& point : chain.points)
        table.add({grouped(point.packets), us(point.kernel_ns), us(model.kernel_ns(point.packets, point.sms)),
                   us(point.transfer_ns), us(model.transfer_ns(point.packets))});
    std::cout << table.text()
              << fmt::format(
                     "kernels {} + {:.1f} ns for each packet of an SM (R² {:.3f}), transfer {} + {:.2f} ns for "
                     "each packet (R² {:.3f})\n\n",
                     us(model.kernel.start), model.kernel.slope, model.kernel_r2, us(model.transfer.start),
                     model.transfer.slope, model.transfer_r2);
}

}  // namespace

int profile_chains(const ProfileChains& arguments, const std::string& device_name,
                   const std::shared_ptr<device::Device>& device) {
    const RunGuard guard;
    chain::LoadOptions options;
    options.device = device_name;
    const chain::Configuration configuration = chain::load_configuration(arguments.file, options);
    const std::string path = schedule::profile_path(device->model());
    if (path.empty()) throw std::runtime_error("there is no home, so what is measured can't be kept");
    schedule::Profile profile = kept(device->model());
    profile.gpu = device->partitions();
    const uint32_t sms = device::multiprocessors_of(parse_device_names(device_name).devices.front());
    lab::KernelRun kernels(*device);
    lab::ChainProfileOptions measured;
    measured.seconds = arguments.seconds;
    io::TrafficSpec traffic;
    traffic.sizes = {{arguments.frame_bytes, 1}};
    const io::TrafficFrames frames = io::make_frames(traffic, 0, 1, false);
    const std::set<std::string> with_tenants = chains_with_tenants(configuration);
    for (size_t i = 0; i < configuration.chains.size(); ++i) {
        const auto& program = configuration.chains[i];
        if (program->nodes.empty()) continue;
        if (with_tenants.contains(program->whole)) {
            if (program->name == program->whole)
                std::cout << "chain " << program->name
                          << " has tenants, which nobody can measure before they are there\n";
            continue;
        }
        schedule::ChainProfile chain = lab::profile_chain(*device, kernels, program, frames, sms, measured);
        chain.functions = configuration.promises[i].functions();
        show(program->name, chain, profile.gpu);
        profile.put(std::move(chain));
    }
    const std::string text = schedule::profile_json(profile);
    if (!arguments.json_file.empty())
        write_json(arguments.json_file, {{"chain-profiles", nlohmann::json::parse(text)}});
    write_file(path, text);
    std::cout << "Kept in " << path << ": promises of chains are checked by it.\n";
    return 0;
}

}  // namespace millrace::cli
