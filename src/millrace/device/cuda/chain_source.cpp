#include "millrace/device/cuda/chain_source.hpp"

#include <fmt/format.h>

#include <set>

namespace millrace::device::cuda {
namespace {

/// The function that a translation unit of an NF exports: "millrace_router_8_process".
std::string function_name(const nf::Type& type, unsigned lanes, const char* what) {
    std::string name = type.name;
    for (char& c : name)
        if (c == '-') c = '_';
    return fmt::format("millrace_{}_{}_{}", name, lanes, what);
}

TranslationUnit nf_unit(const nf::Type& type, unsigned lanes) {
    std::string text = fmt::format("#include \"{}\"\nusing Nf = {};\nusing Tables = Nf::Tables;\n", type.device_header, type.device_struct);
    text += fmt::format(
        "extern \"C\" __device__ millrace::Decision {}(millrace::Packet* packet, const void* tables) {{\n"
        "    return Nf::process(*packet, *static_cast<const Tables*>(tables), millrace::Lanes<{}>{{}});\n}}\n",
        function_name(type, lanes, "process"), lanes);
    if (type.ordered()) {
        text += fmt::format(
            "extern \"C\" __device__ unsigned {}(const millrace::Packet* packet, const void* tables) {{\n"
            "    return Nf::order_key(*packet, *static_cast<const Tables*>(tables));\n}}\n",
            function_name(type, lanes, "order_key"));
        text += fmt::format(
            "extern \"C\" __device__ millrace::MutableView<::uint64_t> {}(const void* tables) {{\n"
            "    return static_cast<const Tables*>(tables)->tickets;\n}}\n",
            function_name(type, lanes, "tickets"));
    }
    if (type.commit != nullptr) {
        text += fmt::format(
            "extern \"C\" __device__ millrace::Decision {}(millrace::Packet* packet, const void* tables, millrace::Decision decision) {{\n"
            "    return Nf::commit(*packet, *static_cast<const Tables*>(tables), decision);\n}}\n",
            function_name(type, lanes, "commit"));
    }
    return {fmt::format("{}_{}.cu", type.name, lanes), text};
}

std::string declarations(const chain::Node& node) {
    std::string text = fmt::format("extern \"C\" __device__ Decision {}(Packet*, const void*);\n", function_name(*node.type, node.lanes, "process"));
    if (node.type->ordered()) {
        text += fmt::format("extern \"C\" __device__ unsigned {}(const Packet*, const void*);\n", function_name(*node.type, node.lanes, "order_key"));
        text += fmt::format("extern \"C\" __device__ MutableView<uint64_t> {}(const void*);\n", function_name(*node.type, node.lanes, "tickets"));
    }
    if (node.type->commit != nullptr)
        text += fmt::format("extern \"C\" __device__ Decision {}(Packet*, const void*, Decision);\n", function_name(*node.type, node.lanes, "commit"));
    return text;
}

std::string targets_name(size_t node) { return fmt::format("kTargets{}", node); }

std::string targets(const chain::Program& program, size_t index) {
    std::string text = fmt::format("__constant__ const Target {}[] = {{", targets_name(index));
    for (const Target& target : program.nodes[index].targets)
        text += fmt::format("{{static_cast<Target::Kind>({}), {}}}, ", static_cast<unsigned>(target.kind), target.value);
    return text + "};\n";
}

std::string nodes_kernel(const chain::Program& program, const Step& step, const std::string& name) {
    std::string text = fmt::format("extern \"C\" __global__ void __launch_bounds__({0}) {1}(BatchView batch, const void* const* tables) {{\n", kBlockThreads, name);
    if (step.begin) text += fmt::format("    begin_block(batch, {}, {});\n", program.nodes.size(), program.drop_malformed);
    for (uint16_t index = step.first; index < step.last; ++index) {
        const chain::Node& node = program.nodes[index];
        text += fmt::format("    run_node<{}, {}, {}>(batch, tables[{}], {}, {}, {});\n", node.lanes, node.type->emits_events,
                            step.hold_last && index + 1 == step.last, index, index,
                            function_name(*node.type, node.lanes, "process"),
                            fmt::format("{}, sizeof {} / sizeof {}[0]", targets_name(index), targets_name(index), targets_name(index)));
    }
    if (step.end) text += "    end_block(batch);\n";
    return text + "}\n";
}

std::string step_kernel(const chain::Program& program, const Step& step, const std::string& name) {
    if (step.kind == Step::Kind::nodes) return nodes_kernel(program, step, name);
    std::string text = fmt::format("extern \"C\" __global__ void {}(BatchView batch, const void* const* tables) {{\n", name);
    if (step.kind == Step::Kind::pack) {
        text += "    pack_block(batch);\n";
    } else {
        const chain::Node& node = program.nodes[step.first];
        const auto function = [&](const char* what) { return function_name(*node.type, node.lanes, what); };
        if (step.kind == Step::Kind::tickets) {
            text += fmt::format("    number_packets(batch, tables[{0}], {0}, {1}, {2}(tables[{0}]));\n", step.first, function("order_key"), function("tickets"));
        } else {
            text += fmt::format("    commit_packets(batch, tables[{0}], {0}, {1}, {2}, sizeof {2} / sizeof {2}[0]);\n", step.first,
                                function("commit"), targets_name(step.first));
        }
    }
    return text + "}\n";
}

}  // namespace

ChainSource make_chain_source(const chain::Program& program, const std::vector<Step>& steps) {
    ChainSource source;
    std::set<std::string> written;
    source.chain.name = program.name + ".cu";
    source.chain.text = "#include \"millrace/device/kernel/launch.hpp\"\nusing namespace millrace;\nusing namespace millrace::device;\n";
    for (size_t i = 0; i < program.nodes.size(); ++i) {
        const chain::Node& node = program.nodes[i];
        TranslationUnit unit = nf_unit(*node.type, node.lanes);
        if (written.insert(unit.name).second) {
            source.chain.text += declarations(node);
            source.nfs.push_back(std::move(unit));
        }
        source.chain.text += targets(program, i);
    }
    for (size_t i = 0; i < steps.size(); ++i) {
        source.kernels.push_back(fmt::format("millrace_step_{}", i));
        source.chain.text += step_kernel(program, steps[i], source.kernels.back());
    }
    return source;
}

}  // namespace millrace::device::cuda
