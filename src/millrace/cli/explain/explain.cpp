// millrace explain: what a configuration would do, and what would cross the bus for it.
#include <fmt/format.h>

#include <iostream>

#include "millrace/chain/classification/classification_table.hpp"
#include "millrace/chain/classification/classified.hpp"
#include "millrace/chain/inner.hpp"
#include "millrace/chain/frames/uncut_frames.hpp"
#include "millrace/cli/commands.hpp"
#include "millrace/cli/explain/explain_promises.hpp"
#include "millrace/cli/explain/explain_transfers.hpp"
#include "millrace/cli/process/run_guard.hpp"
#include "millrace/cli/text/table.hpp"
#include "millrace/device/open.hpp"
#include "millrace/exec/offload/memory/piece_layout.hpp"
#include "millrace/nf/names_ports.hpp"
#include "millrace/nf/variant.hpp"
#include "millrace/exec/transfer/batch_bytes.hpp"
#include "millrace/exec/transfer/transfer_figures.hpp"

namespace millrace::cli {
namespace {

/// Where packets go at the end of a chain that has no port.
std::string output_without_port(const chain::Program& program) {
    std::string names;
    for (const chain::Node& node : program.nodes) {
        const auto* const one = dynamic_cast<const nf::NamesPorts*>(node.nf.get());
        if (one != nullptr && one->names_ports()) names += (names.empty() ? "" : " or ") + node.name;
    }
    return names.empty() ? "output (no port: dropped as no-output)"
                         : "output (the port that " + names + " names; without one dropped as no-output)";
}

std::string target_text(const chain::Configuration& configuration, const chain::Program& program,
                        const chain::Target& target) {
    using Kind = chain::Target::Kind;
    switch (target.kind) {
        case Kind::node: return program.nodes[target.value].name;
        case Kind::output:
            return program.output == kNoPort ? output_without_port(program)
                                             : "port " + configuration.port_names[program.output];
        case Kind::port: return "port " + configuration.port_names[target.value];
        case Kind::chain: return "chain " + configuration.chains[target.value]->name;
        case Kind::drop: return "drop";
        case Kind::punt:
            if (program.punt_port != kNoPort) return "punt (port " + configuration.port_names[program.punt_port] + ")";
            return program.taps != nullptr ? "punt (to Linux, by the port where it came in)" : "punt";
    }
    return {};
}

std::string prefix_text(uint32_t bytes) {
    return bytes == chain::kWholeFrame ? "whole frames"
           : bytes == 0                ? "nothing"
                                       : fmt::format("the first {} bytes", bytes);
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
        table.add({node.name, growth == 0 ? "-" : fmt::format("{}+{} B", type.head_growth, type.tail_growth),
                   std::to_string(node.lanes), type.has_cpu_half ? "yes" : "device half"});
    }
    std::cout << table.text() << "\n";
}

/// What a device would need, whatever the configuration runs on.
chain::FieldPlan device_plan(const chain::Program& program) {
    if (program.classifier != nullptr) return program.plan;
    std::vector<chain::FieldUse> uses;
    for (const chain::Node& node : program.nodes)
        uses.push_back(
            chain::FieldUse::on_device(node.reads(), node.writes(), node.type->is_keyed() || node.type->is_tenants));
    return chain::plan_fields(uses);
}

/// The name of a stage's function, and how many chains have it.
std::string stage_text(const chain::Program& program, chain::Stage stage) {
    const std::string& name = program.nodes[stage.first].name;
    return stage.count == 1 ? name : fmt::format("{} of {} chains", name, grouped(stage.count));
}

/// A line for each stage with fields.
void explain_fields(const chain::Program& program, const char* verb, Fields (chain::Node::*fields_of)() const) {
    for (size_t i = 0; i < program.stage_count(); ++i) {
        const chain::Stage stage = program.stage(i);
        Fields fields;
        for (size_t node = stage.first; node < size_t{stage.first} + stage.count; ++node)
            fields = fields | (program.nodes[node].*fields_of)();
        if (!fields.empty())
            std::cout << "                    " << stage_text(program, stage) << " " << verb << " "
                      << chain::field_names(fields) << "\n";
    }
}

void explain_fragments(const chain::Program& program) {
    if (program.inner != 0)
        std::cout << "Packets are judged within tunnels: " << chain::inner_text(program.inner) << ".\n\n";
    if (program.reassembly)
        std::cout << "Fragments are put together: " << program.reassembly->max_packets << " packets at a time, "
                  << program.reassembly->max_per_source << " of one source, for "
                  << time_text(static_cast<uint64_t>(program.reassembly->timeout.count())) << " at most.\n\n";
    else if (chain::needs_whole_packets(program))
        std::cout << "Fragments pass as they are; 'reassemble: true' puts them together.\n\n";
    if (const chain::Node* const node = chain::first_to_want_segments(program))
        std::cout << "Frames that are yet to be cut into those of the wire (TSO, GRO) are cut: " << node->name
                  << " wants each.\n\n";
    else std::cout << "Frames that are yet to be cut into those of the wire (TSO, GRO) pass whole.\n\n";
}

void explain_plan(const chain::Program& program) {
    const chain::FieldPlan plan = device_plan(program);
    const Fields in = plan.to_device_total(), back = plan.to_host_total();
    const auto [in_bytes, back_bytes] = exec::prefixes_of(plan);
    std::cout << "On a device, this would cross the bus:\n";
    std::cout << "  to the device   " << prefix_text(in_bytes) << for_fields(in) << "\n";
    std::cout << "                    the parser needs " << chain::field_names(field::parsed) << "\n";
    explain_fields(program, "reads", &chain::Node::reads);
    std::cout << "  back            " << prefix_text(back_bytes)
              << (back.empty() ? ": no NF writes to the packet" : for_fields(back)) << "\n";
    explain_fields(program, "writes", &chain::Node::writes);
    const uint64_t state = exec::state_bytes(program);
    std::cout << "  always          " << sizeof(device::FrameDescriptor) << " B a packet of descriptors in, "
              << sizeof(device::PacketResult) << " B of results back; for each batch "
              << exec::PieceLayout::head_of(program.nodes.size()) << " B of counters both ways"
              << (program.emits_events() ? fmt::format(", {} B of events back", exec::kEagerEvents * sizeof(Event))
                                         : std::string())
              << (state == 0 ? std::string() : fmt::format(", {} B of the functions' state back", grouped(state)))
              << "\n";
    for (const chain::Node& node : program.nodes)
        if (const auto* keeps = dynamic_cast<const nf::KeepsJournal*>(node.nf.get()); keeps && keeps->keeps_journal())
            std::cout << "                    a journal of what " << node.name
                      << " must not lose back: nothing where nothing changes, " << node.type->journal_bytes
                      << " B a packet at most\n";
    std::cout << "\n";
    Table table({"frame", "packets a batch", "to the device, each", "back, each", "everything both ways"});
    const uint32_t head = program.head_growth(), tail = program.tail_growth();
    for (const uint32_t frame : {64u, 512u, 1518u})
        for (const size_t packets : {size_t{program.max_batch}, size_t{32}}) {
            if (packets > program.max_batch) continue;
            const exec::BatchBytes bytes = exec::batch_bytes(program, {in_bytes, back_bytes}, frame, packets);
            const auto each = [&](size_t of_all) {
                return fmt::format("{:.1f} B", static_cast<double>(of_all) / static_cast<double>(packets));
            };
            table.add({fmt::format("{} B", frame), grouped(packets), each(bytes.in), each(bytes.back),
                       fmt::format("{} + {} B", frame, frame + head + tail)});
        }
    std::cout << table.text() << "\n";
    std::string steps;
    for (const device::Step& step :
         device::plan_steps(program, {.pack = back_bytes != 0 && back_bytes != chain::kWholeFrame})) {
        static const char* const kNames[] = {"gather",   "nodes", "tickets", "commit",   "group",
                                             "sequence", "keyed", "pack",    "snapshot", "windows"};
        steps += (steps.empty() ? "" : " → ") + std::string(kNames[static_cast<int>(step.kind)]);
        if (step.kind == device::Step::Kind::nodes) {
            steps += " [";
            for (uint16_t i = step.first; i < step.last; ++i)
                steps += (i > step.first ? ", " : "") + stage_text(program, program.stage(i)) +
                         device::part_text(step, i);
            steps += "]";
        }
    }
    std::cout << "Kernels of a batch: " << steps << "; with --mode persistent, steps of one kernel that stays\n\n";
}

/// How several devices share a chain.
void explain_devices(const chain::Configuration& configuration, const chain::Program& program) {
    std::cout << "Flows are spread over " << configuration.runs_on.devices.size()
              << " devices: each worker drives one of them, dealt in turn.\n";
    for (const chain::Node& node : program.nodes)
        if (node.type->ordered())
            std::cout << "  " << node.name
                      << " numbers packets in one order over all devices: its state goes from batch to batch through "
                         "the host's memory.\n";
    if (program.ordered()) std::cout << "  When one device fails, the chain goes on on the CPU.\n\n";
    else std::cout << "  When one device fails, its workers go on on the CPU.\n\n";
}

/// Who finds the chain of packets whose port does not decide.
void explain_classification(const chain::Configuration& configuration) {
    if (configuration.classification.table() == nullptr) return;
    const size_t lines = configuration.classification.rules().size();
    std::cout << "classify, " << grouped(lines) << (lines == 1 ? " line: " : " lines: ");
    if (configuration.classified != nullptr) {
        std::cout << "the device finds each packet's chain, so that these chains share batches:\n\n";
        explain_plan(*configuration.classified);
        return;
    }
    size_t functions = 0;
    for (const auto& chain : configuration.chains) functions += chain->nodes.size();
    std::cout << "each worker finds its packets' chains as it receives them";
    if (configuration.device != "cpu")
        std::cout << ", as the chains have " << functions << " functions together, and a device's program has at most "
                  << kMaxStages << " that differ, " << kMaxNodes << " in all and " << chain::kMaxStateArrays
                  << " arrays of their state";
    std::cout << "\n\n";
}

int explain(const LoadArguments& arguments, unsigned workers) {
    const RunGuard guard;
    const chain::Configuration configuration = arguments.load();
    for (const auto& program : configuration.chains) {
        std::cout << "chain " << program->name << " on " << configuration.device << ", at most " << program->max_batch
                  << " packets a batch, no packet waits longer than "
                  << time_text(static_cast<uint64_t>(program->max_delay.count())) << "\n\n";
        explain_fragments(*program);
        for (const chain::Node& node : program->nodes) {
            const std::string& kind = nf::kind_of(*node.type).name;
            std::cout << "  " << node.name << (node.name == kind ? "" : " (" + kind + ")") << ": " << node.type->summary
                      << "\n";
            if (const std::string summary = summary_of(*program, node); !summary.empty())
                std::cout << "    " << summary << "\n";
            for (size_t i = 0; i < node.targets.size(); ++i)
                std::cout << "    " << node.type->outcomes[i].name << " → "
                          << target_text(configuration, *program, node.targets[i]) << "\n";
        }
        std::cout << "\n";
        // A tenant's function crosses no bus by itself: its packets are the host's, before and behind it.
        if (program->nodes.empty() || program->is_tenants) continue;
        explain_fields(*program);
        explain_plan(*program);
        // Of several devices all are of a kind.
        const DeviceNames& runs_on = configuration.runs_on;
        if (!runs_on.devices.empty())
            std::cout << transfers_text(*program, device_plan(*program),
                                        *exec::figures_of(device::model_of(runs_on.devices.front())), workers);
        if (program->undivided != nullptr) {
            std::cout
                << "While the functions of all its tenants are on a GPU, the chain goes through it in one piece, at "
                   "most "
                << program->undivided->max_batch << " packets a batch.\n";
            explain_plan(*program->undivided);
        }
        if (runs_on.devices.size() > 1) explain_devices(configuration, *program);
        if (runs_on.cpu && !runs_on.devices.empty())
            std::cout << "While three fifths of a core would do for what each worker receives, packets stay on the "
                         "CPU, and the device rests; when a worker falls behind for 100 us, "
                         "all go to the device. The NFs' state goes along.\n\n";
    }
    explain_classification(configuration);
    std::cout << promises_text(configuration, workers_of(configuration, workers));
    return kOk;
}

}  // namespace

void add_explain(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand(
        "explain", "Show the chains: what each NF reads and writes, what would cross the bus and why");
    const auto arguments = std::make_shared<LoadArguments>();
    arguments->add_to(*command);
    const auto workers = std::make_shared<unsigned>(1);
    command
        ->add_option("-w,--workers", *workers,
                     "Worker threads of the run: each has batches of its own, and what they cost of CPUs counts less")
        ->check(CLI::Range(1, 256))
        ->capture_default_str();
    command->callback([arguments, workers, &status] { status = explain(*arguments, *workers); });
}

}  // namespace millrace::cli
