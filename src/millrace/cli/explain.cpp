// millrace explain: what a configuration would do, and what would cross the bus for it.
#include <fmt/format.h>

#include <iostream>

#include "millrace/cli/commands.hpp"
#include "millrace/cli/table.hpp"
#include "millrace/device/device.hpp"

namespace millrace::cli {
namespace {

std::string target_text(const chain::Configuration& configuration, const chain::Program& program, const chain::Target& target) {
    using Kind = chain::Target::Kind;
    switch (target.kind) {
        case Kind::node:
            return program.nodes[target.value].name;
        case Kind::output:
            return program.output == kNoPort ? "output (no port: dropped)" : "port " + configuration.port_names[program.output];
        case Kind::port:
            return "port " + configuration.port_names[target.value];
        case Kind::chain:
            return "chain " + configuration.chains[target.value]->name;
        case Kind::drop:
            return "drop";
        case Kind::punt:
            return program.punt_port == kNoPort ? "punt" : "punt (port " + configuration.port_names[program.punt_port] + ")";
    }
    return {};
}

std::string prefix_text(uint32_t bytes) {
    return bytes == chain::kWholeFrame ? "whole frames" : bytes == 0 ? "nothing" : fmt::format("the first {} bytes", bytes);
}

/// What a transfer is for, unless that is everything.
std::string for_fields(Fields fields) {
    return fields.contains(field::everything) ? std::string{} : ", for " + chain::field_names(fields);
}

void explain_fields(const chain::Program& program) {
    Table table({"nf", "grows by", "lanes", "CPU half"});
    for (const chain::Node& node : program.nodes) {
        const nf::Type& type = *node.type;
        const uint32_t growth = type.head_growth + type.tail_growth;
        table.add({node.name, growth == 0 ? "-" : fmt::format("{}+{} B", type.head_growth, type.tail_growth), std::to_string(node.lanes),
                   type.has_cpu_half ? "yes" : "device half"});
    }
    std::cout << table.text() << "\n";
}

void explain_plan(const chain::Program& program) {
    // What a device would need, whatever the configuration runs on.
    std::vector<chain::FieldUse> uses;
    for (const chain::Node& node : program.nodes) uses.push_back({{}, {}, node.reads(), node.writes()});
    const chain::FieldPlan plan = chain::plan_fields(uses);
    const Fields in = plan.to_device_total(), back = plan.to_host_total();
    const uint32_t back_bytes = back.empty() ? 0 : chain::prefix_bytes(back);
    const uint32_t in_bytes = std::max(chain::prefix_bytes(in), back_bytes);  // what comes back must have been brought
    std::cout << "On a device, this would cross the bus:\n";
    std::cout << "  to the device   " << prefix_text(in_bytes) << for_fields(in) << "\n";
    std::cout << "                    the parser needs " << chain::field_names(field::parsed) << "\n";
    for (const chain::Node& node : program.nodes)
        if (!node.reads().empty()) std::cout << "                    " << node.name << " reads " << chain::field_names(node.reads()) << "\n";
    std::cout << "  back            " << prefix_text(back_bytes) << (back.empty() ? ": no NF writes to the packet" : for_fields(back)) << "\n";
    for (const chain::Node& node : program.nodes)
        if (!node.writes().empty()) std::cout << "                    " << node.name << " writes " << chain::field_names(node.writes()) << "\n";
    std::cout << "  always          " << sizeof(device::FrameDescriptor) << " B a packet of descriptors in, " << sizeof(device::PacketResult)
              << " B of results back\n\n";
    Table table({"frame", "to the device", "back", "everything both ways"});
    const uint32_t growth = program.head_growth() + program.tail_growth();
    for (const uint32_t frame : {64u, 512u, 1518u}) {
        const auto bytes = [&](uint32_t prefix) { return prefix == chain::kWholeFrame ? frame : std::min(frame, prefix); };
        const uint32_t to = bytes(in_bytes) + static_cast<uint32_t>(sizeof(device::FrameDescriptor));
        const uint32_t from = bytes(back_bytes) + (back_bytes == chain::kWholeFrame ? growth : 0) + static_cast<uint32_t>(sizeof(device::PacketResult));
        table.add({fmt::format("{} B", frame), fmt::format("{} B", to), fmt::format("{} B", from), fmt::format("{} + {} B", frame, frame + growth)});
    }
    std::cout << table.text() << "\n";
    std::string steps;
    for (const device::Step& step : device::plan_steps(program, {.pack = back_bytes != 0 && back_bytes != chain::kWholeFrame})) {
        static const char* const kNames[] = {"gather", "nodes", "tickets", "commit", "pack", "snapshot"};
        steps += (steps.empty() ? "" : " → ") + std::string(kNames[static_cast<int>(step.kind)]);
        if (step.kind == device::Step::Kind::nodes) {
            steps += " [";
            for (uint16_t i = step.first; i < step.last; ++i) steps += (i > step.first ? ", " : "") + program.nodes[i].name;
            steps += "]";
        }
    }
    std::cout << "Kernels of a batch: " << steps << "\n\n";
}

/// How several devices share a chain.
void explain_devices(const chain::Configuration& configuration, const chain::Program& program) {
    std::cout << "Flows are spread over " << configuration.devices.size() << " devices: each worker drives one of them, dealt in turn.\n";
    for (const chain::Node& node : program.nodes)
        if (node.type->ordered())
            std::cout << "  " << node.name << " numbers packets in one order over all devices: its state goes from batch to batch through the host's memory.\n";
    if (program.ordered()) std::cout << "  When one device fails, the chain goes on on the CPU.\n\n";
    else std::cout << "  When one device fails, its workers go on on the CPU.\n\n";
}

int explain(const LoadArguments& arguments) {
    const chain::Configuration configuration = arguments.load();
    for (const auto& program : configuration.chains) {
        std::cout << "chain " << program->name << " on " << configuration.device << ", at most " << program->max_batch
                  << " packets a batch, no packet waits longer than " << time_text(static_cast<uint64_t>(program->max_delay.count())) << "\n\n";
        for (const chain::Node& node : program->nodes) {
            std::cout << "  " << node.name << (node.name == node.type->name ? "" : " (" + node.type->name + ")") << ": "
                      << node.type->summary << "\n";
            if (const std::string summary = node.nf->summary(); !summary.empty()) std::cout << "    " << summary << "\n";
            for (size_t i = 0; i < node.targets.size(); ++i)
                std::cout << "    " << node.type->outcomes[i].name << " → " << target_text(configuration, *program, node.targets[i]) << "\n";
        }
        std::cout << "\n";
        if (program->nodes.empty()) continue;
        explain_fields(*program);
        explain_plan(*program);
        if (configuration.devices.size() > 1) explain_devices(configuration, *program);
    }
    return kOk;
}

}  // namespace

void add_explain(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("explain", "Show the chains: what each NF reads and writes, what would cross the bus and why");
    const auto arguments = std::make_shared<LoadArguments>();
    arguments->add_to(*command);
    command->callback([arguments, &status] { status = explain(*arguments); });
}

}  // namespace millrace::cli
