#include "millrace/device/cuda/chain_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "millrace/chain/classification_table.hpp"
#include "millrace/device/cuda/nf_source.hpp"

namespace millrace::device::cuda {
namespace {

std::string targets_name(size_t stage) { return fmt::format("kTargets{}", stage); }

const chain::Node& first_node(const chain::Program& program, size_t stage) {
    return program.nodes[program.stage(stage).first];
}

std::string targets(const chain::Program& program, size_t stage) {
    std::string text = fmt::format("__constant__ const Target {}[] = {{", targets_name(stage));
    for (const Target& target : first_node(program, stage).targets)
        text += fmt::format("{{static_cast<Target::Kind>({}), {}}}, ", static_cast<unsigned>(target.kind),
                            target.value);
    return text + "};\n";
}

/// Tables of a stage's first node as an NF's functions take them.
std::string tables(const TableLayout& layout, size_t stage) {
    const std::string place = fmt::format("tables.bytes + {}", layout.offsets[stage]);
    return layout.strides[stage] == 0 ? place : "*reinterpret_cast<const void* const*>(" + place + ")";
}

std::string stage_name(size_t stage) { return fmt::format("stage{}", stage); }
/// Declares a stage's StageNodes.
std::string stage_nodes(const chain::Program& program, const TableLayout& layout, size_t stage) {
    const chain::Stage own = program.stage(stage);
    return fmt::format("    const StageNodes {0}{{{1}, {2}, {3}, {4}, {5}, {6}, sizeof {6} / sizeof {6}[0]}};\n",
                       stage_name(stage), stage, own.first, own.count, tables(layout, stage), layout.strides[stage],
                       targets_name(stage));
}

std::string kernel_head(const Kernel& kernel) {
    return fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}, {}) {}(const __grid_constant__ BatchView batch, const "
        "__grid_constant__ ChainTables tables) {{\n",
        kernel.threads, kernel.most_blocks != 0 ? 1 : 768 / kernel.threads, kernel.name);
}

/// How many lanes a node gets.
using LaneChoice = std::function<unsigned(const chain::Node&)>;

/// A block has room for the counts of so many nodes.
constexpr size_t kMaxCountedNodes = 16;
std::string declare_counts(size_t nodes) {
    if (nodes > kMaxCountedNodes) return "";
    return fmt::format("    __shared__ uint32_t outcomes[{} * kMaxOutcomes];\n", nodes);
}
std::string open_counts(size_t nodes) {
    if (nodes > kMaxCountedNodes) return "    const BatchCounts counts(batch);\n";
    return fmt::format("    const BlockCounts<{}> counts(outcomes);\n", nodes);
}
std::string close_counts(size_t nodes) { return nodes > kMaxCountedNodes ? "" : "    counts.flush(batch);\n"; }

/// The first thing that becomes of the packets.
std::string begin_text(const chain::Program& program, const TableLayout& layout) {
    const size_t stages = program.stage_count();
    if (program.classifier == nullptr)
        return fmt::format("    block.for_each([&](uint32_t i) {{ begin_packet(batch, i, {}, {}, {}); }});\n", stages,
                           program.drop_malformed, program.inner);
    return fmt::format(
        "    block.for_each([&](uint32_t i) {{ begin_packet(batch, i, {}, true, 0, [&](const Packet& packet) {{\n"
        "        chain::Entry entry;\n        millrace_classify(&packet, {}, &entry);\n        return entry;\n"
        "    }}); }});\n",
        stages, tables(layout, stages));
}

/// Takes the packets of `share`, which the text before has declared, through a step.
std::string nodes_text(const chain::Program& program, const TableLayout& layout, const Step& step,
                       const LaneChoice& lanes, const chain::Node* staged = nullptr) {
    const auto lap = [&](uint32_t part) { return step.timed ? fmt::format("    timer.lap({});\n", part) : ""; };
    std::string text = "    BlockPackets block(batch, shared, share);\n";
    const size_t nodes = program.nodes.size();
    bool shared = false;
    for (uint16_t index = step.first; index < step.last; ++index) shared |= lanes(first_node(program, index)) > 1;
    if (step.first < step.last) text += open_counts(nodes);
    text += lap(kSortPart);
    // What a resident kernel gets contiguous it fetches.
    if (step.begin && !step.resident) text += "    if (batch.staged) block.scatter(batch);\n" + lap(kScatterPart);
    if (step.begin) text += begin_text(program, layout) + lap(kBeginPart);
    if (step.first < step.last && first_node(program, step.first).type->tickets != nullptr) {
        const chain::Node& node = first_node(program, step.first);
        text += fmt::format("    block.for_each([&](uint32_t i) {{ take_ticket(batch, i, {}({}).size()); }});\n",
                            function_name(*node.type, lanes(node), "tickets"), tables(layout, step.first));
    }
    for (uint16_t index = step.first; index < step.last; ++index) {
        const chain::Node& node = first_node(program, index);
        const auto function = [&](const char* what) { return function_name(*node.type, lanes(node), what); };
        const char* const at_last = step.hold_last && index + 1 == step.last ? "Then::hold" : "Then::route";
        text += stage_nodes(program, layout, index);
        if (node.type->block_bytes > 0 && &node != staged)
            text += fmt::format("    {}({}, block_memory());\n    __syncthreads();\n", function("stage"),
                                tables(layout, index));
        // All wait for the first. Where every NF has one lane a packet, as for short frames, idle lanes cost less than
        // looking for them: 1 to 2 % of the packets a second, whatever share is dropped. With more lanes 11 % more
        // packets go through when half of them are dropped first, 2 % when a quarter is, and 0.6 % fewer when none is
        // (docs/benchmarks/method.md, "Measured once").
        if (shared && (index > step.first || !step.begin))
            text += fmt::format("    block.find_waiting(batch, {});\n", stage_name(index));
        text += fmt::format("    run_stage<{}, {}, {}>(batch, block, counts.data(), {}, {});\n", lanes(node),
                            node.type->emits_events, node.type->finishes ? "Then::hold" : at_last, stage_name(index),
                            function("process"));
        if (node.type->finishes)
            text += fmt::format("    finish_stage<{}>(batch, block, counts.data(), {}, {});\n", at_last,
                                stage_name(index), function("finish"));
        text += lap(index);
    }
    if (step.keys_of_next) {
        const chain::Node& node = first_node(program, step.last);
        text += fmt::format(
            "    block.{}(batch, [&](uint32_t i) {{ return batch.at[i] == {} ? {}(&batch.packets[i], {}) : "
            "kNoOrderKey; }});\n",
            node.type->numbered() ? "rank" : "keep_keys", program.stage(step.last).first,
            function_name(*node.type, lanes(node), "order_key"), tables(layout, step.last));
    }
    if (step.end) text += "    block.for_each([&](uint32_t i) { end_packet(batch, i); });\n";
    if (step.first < step.last) text += close_counts(nodes);
    return text + lap(kEndPart);
}

constexpr const char* kTakeStates = "    take_states(batch, threadIdx.x, blockDim.x);\n    __syncthreads();\n";
constexpr const char* kTakeSnapshot = "    __syncthreads();\n    snapshot_states(batch, threadIdx.x, blockDim.x);\n";

/// What one block does with the whole batch, in a step that has an order.
std::string ordered_text(const chain::Program& program, const TableLayout& layout, const Step& step,
                         const LaneChoice& lanes) {
    const auto function = [&](const char* what) {
        const chain::Node& node = first_node(program, step.first);
        return function_name(*node.type, lanes(node), what);
    };
    // What needs no order comes before the sequence. Resident kernels keep one of their own.
    const bool in_sequence = !step.resident, late = step.kind == Step::Kind::tickets && !step.take_states;
    const std::string await = in_sequence && step.awaits_sequence ? "await_sequence(batch); " : "";
    std::string text = late ? "" : "    " + await + "\n";
    if (step.take_states) text += kTakeStates;
    if (step.kind == Step::Kind::tickets)
        text += fmt::format("    number_packets(batch, {}({}), [&] {{ {}}});\n", function("tickets"),
                            tables(layout, step.first), late ? await : "");
    if (step.kind == Step::Kind::commit)
        text += open_counts(program.nodes.size()) + stage_nodes(program, layout, step.first) +
                fmt::format("    commit_packets(batch, counts.data(), {}, {});\n", stage_name(step.first),
                            function("commit")) +
                close_counts(program.nodes.size());
    if (step.kind == Step::Kind::keyed)
        text += open_counts(program.nodes.size()) + stage_nodes(program, layout, step.first) +
                fmt::format("    keyed_packets(batch, counts.data(), {}, {}, {});\n", stage_name(step.first),
                            step.resident ? "0, 1" : "blockIdx.x, gridDim.x",
                            keyed_taker(*first_node(program, step.first).type, lanes(first_node(program, step.first)),
                                        program.stage(step.first).first)) +
                close_counts(program.nodes.size());
    if (step.kind == Step::Kind::sweep)
        text += fmt::format("    sweep_buckets(batch, {}, {}, {}, {});\n", tables(layout, step.first),
                            program.stage(step.first).first, function("claim"), function("sweep"));
    if (step.snapshot) text += kTakeSnapshot;
    if (in_sequence && step.releases_sequence) text += "    release_sequence(batch);\n";
    return text;
}

std::string step_kernel(const chain::Program& program, const TableLayout& layout, const Step& step,
                        const Kernel& kernel, const LaneChoice& lanes) {
    std::string text = kernel_head(kernel);
    const size_t nodes = program.nodes.size();
    switch (step.kind) {
        case Step::Kind::nodes:
            if (step.timed) text += "    BlockTimer timer(batch);\n";
            text += "    __shared__ BlockPackets::Shared shared;\n    const uint32_t share = blockIdx.x;\n";
            if (step.first < step.last) text += declare_counts(nodes);
            return text + nodes_text(program, layout, step, lanes) + "}\n";
        case Step::Kind::gather: return text + "    gather_frames(batch);\n}\n";
        case Step::Kind::pack: return text + "    pack_heads(batch);\n}\n";
        case Step::Kind::commit:
        case Step::Kind::keyed: text += declare_counts(nodes); break;
        case Step::Kind::turn:
        case Step::Kind::sweep:
        case Step::Kind::tickets:
        case Step::Kind::snapshot: break;
    }
    return text + ordered_text(program, layout, step, lanes) + "}\n";
}

/// Numbering wants as many.
constexpr unsigned kResidentThreads = kMaxBlockThreads;

/// All steps as one kernel that stays. A share of the packets is one block's from the first step to the last, so that
/// blocks meet only around what has an order.
std::string resident_kernel(const chain::Program& program, const TableLayout& layout, const std::vector<Step>& steps,
                            const Kernel& kernel, const LaneChoice& lanes) {
    std::vector<const chain::Node*> staging;
    for (const chain::Node& node : program.nodes)
        if (node.type->block_bytes > 0) staging.push_back(&node);
    // What only one NF uses may stay there from batch to batch.
    const chain::Node* const staged = staging.size() == 1 ? staging.front() : nullptr;
    std::string text = fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}, 2) {}(const __grid_constant__ ResidentList list, const "
        "__grid_constant__ ChainTables tables) {{\n",
        kernel.threads, kernel.name);
    text += "    __shared__ ResidentKernel::Shared own;\n    __shared__ BlockPackets::Shared shared;\n" +
            declare_counts(std::max<size_t>(program.nodes.size(), 1));
    text += "    ResidentKernel resident(list, own);\n    const BatchView& batch = resident.batch();\n";
    if (staged != nullptr)
        text += fmt::format("    {}({}, block_memory());\n", function_name(*staged->type, lanes(*staged), "stage"),
                            tables(layout, program.stage_of(static_cast<uint16_t>(staged - program.nodes.data()))));
    text += "    while (resident.next()) {\n";
    const auto is_ordered = [](const Step& step) { return step.in_order(); };
    const auto first = std::find_if(steps.begin(), steps.end(), is_ordered);
    const auto behind = std::find_if(steps.rbegin(), steps.rend(), is_ordered).base();
    for (auto step = steps.begin(); step != steps.end(); ++step) {
        switch (step->kind) {
            case Step::Kind::gather:
                text +=
                    "    if (resident.gathers()) resident.for_each_copy([&](uint32_t i) { gather_frame(batch, i); "
                    "});\n";
                break;
            case Step::Kind::pack:
                text += "    resident.for_each_copy([&](uint32_t i) { pack_head(batch, i); });\n";
                break;
            case Step::Kind::nodes:
                text += "    resident.for_each_share([&](uint32_t share) {\n" +
                        nodes_text(program, layout, *step, lanes, staged) + "    });\n";
                break;
            case Step::Kind::tickets:
            case Step::Kind::commit:
            case Step::Kind::turn:
            case Step::Kind::keyed:
            case Step::Kind::sweep:
            case Step::Kind::snapshot:
                text += "    resident.sync();\n    if (resident.leads()) {\n";
                if (step == first) text += "    resident.await_sequence();\n";
                text += ordered_text(program, layout, *step, lanes);
                if (step + 1 == behind) text += "    resident.release_sequence();\n";
                text += "    }\n    resident.sync();\n";
                break;
        }
    }
    return text + "    resident.finish();\n    }\n}\n";
}

/// Reads of the host's memory that are under way at once: enough to keep the bus busy for as long as it takes to
/// answer, with a few batches at it. With many more of them the bus carries a quarter less (docs/benchmarks/method.md,
/// "Measured once").
constexpr unsigned kGatherThreads = 512, kGatherBlocks = 8;

/// Each looks at the keys of the whole batch, and has those of its share.
constexpr unsigned kKeyedBlocks = 128;

/// Copies take 8 threads a packet; so do kernels with an NF that likes several lanes: fewer packets a block then.
Kernel geometry(const chain::Program& program, const Step& step, const LaneChoice& choice) {
    Kernel kernel;
    if (step.kind == Step::Kind::keyed)
        return {.name = {}, .threads = 256, .packets = 128, .most_blocks = kKeyedBlocks, .block_bytes = 0};
    if (step.in_order()) return {.name = {}, .threads = 256, .packets = 0, .most_blocks = 1, .block_bytes = 0};
    if (step.kind == Step::Kind::gather)
        return {.name = {},
                .threads = kGatherThreads,
                .packets = kGatherThreads / 8,
                .most_blocks = kGatherBlocks,
                .block_bytes = 0};
    unsigned lanes = step.kind == Step::Kind::nodes ? 1 : 8;
    for (uint16_t index = step.first; index < step.last; ++index) {
        lanes = std::max(lanes, choice(first_node(program, index)));
        kernel.block_bytes = std::max(kernel.block_bytes, first_node(program, index).type->block_bytes);
    }
    kernel.threads = lanes == 1 ? 128 : kMaxBlockThreads;
    kernel.packets = kernel.threads / lanes;
    kernel.spread = lanes == 1 ? 1024 : lanes == 32 ? kFewPackets : 0;
    return kernel;
}

}  // namespace

TableLayout table_layout(const chain::Program& program) {
    TableLayout layout;
    const auto aligned = [](size_t bytes) { return (bytes + 15) / 16 * 16; };
    const auto add = [&](size_t bytes, size_t stride) {
        layout.offsets.push_back(layout.bytes);
        layout.strides.push_back(stride);
        layout.bytes += aligned(bytes);
    };
    for (size_t stage = 0; stage < program.stage_count(); ++stage) {
        const size_t bytes = first_node(program, stage).type->tables_bytes;
        if (program.stage(stage).count == 1) add(bytes, 0);
        else add(sizeof(Address), aligned(bytes));
    }
    if (program.classifier != nullptr) add(program.classifier->image().tables_bytes(), 0);
    return layout;
}

namespace {

/// Writes the source of kernels, in their order.
class SourceWriter {
public:
    SourceWriter(const chain::Program& program, const std::vector<Step>& steps, const TableLayout& layout,
                 LaneChoice lanes, const std::string& name)
        : program_(program), steps_(steps), layout_(layout), lanes_(std::move(lanes)) {
        const bool resident = !steps.empty() && steps.front().resident;
        source_.chain.name = fmt::format("{}{}.cu", program.name, name);
        source_.chain.text = fmt::format(
            "#include \"millrace/device/kernel/{}.hpp\"\nusing namespace millrace;\nusing namespace "
            "millrace::device;\n",
            resident ? "resident" : "order");
        if (program.keyed()) source_.chain.text += "#include \"millrace/device/kernel/keyed.hpp\"\n";
        source_.chain.text += fmt::format("struct alignas(16) ChainTables {{ unsigned char bytes[{}]; }};\n",
                                          std::max<size_t>(layout.bytes, 16));
        if (program.classifier != nullptr) {
            source_.chain.text += kClassifierDeclaration;
            source_.nfs.push_back(classifier_unit());
        }
        for (size_t i = 0; i < program.stage_count(); ++i) source_.chain.text += targets(program, i);
        add_nfs();
    }

    /// A kernel for each step, `prefix` and its number; `with_ordered`: also of those that have an order.
    ChainSource steps(const char* prefix, bool with_ordered) && {
        for (size_t i = 0; i < steps_.size(); ++i) {
            Kernel& kernel = source_.kernels.emplace_back();
            if (!with_ordered && steps_[i].in_order()) continue;
            kernel = geometry(program_, steps_[i], lanes_);
            kernel.name = fmt::format("millrace_{}_{}", prefix, i);
            source_.chain.text += step_kernel(program_, layout_, steps_[i], kernel, lanes_);
        }
        return std::move(source_);
    }

    /// One kernel for all steps.
    ChainSource resident() && {
        // A block of its own is worth it for few packets already: the blocks are there.
        constexpr unsigned kLeastPackets = 8;
        Kernel kernel{.name = "millrace_resident",
                      .threads = kResidentThreads,
                      .packets = kLeastPackets,
                      .spread = 0,
                      .most_blocks = 0,
                      .block_bytes = 0};
        for (const chain::Node& node : program_.nodes)
            kernel.block_bytes = std::max(kernel.block_bytes, node.type->block_bytes);
        source_.chain.text += resident_kernel(program_, layout_, steps_, kernel, lanes_);
        source_.kernels.push_back(std::move(kernel));
        return std::move(source_);
    }

private:
    void add_nfs() {
        std::set<std::string> written;
        for (const chain::Node& node : program_.nodes) {
            TranslationUnit unit = nf_unit(*node.type, lanes_(node));
            if (!written.insert(unit.name).second) continue;
            source_.chain.text += declarations(node, lanes_(node));
            source_.nfs.push_back(std::move(unit));
        }
    }

    const chain::Program& program_;
    const std::vector<Step>& steps_;
    const TableLayout& layout_;
    const LaneChoice lanes_;
    ChainSource source_;
};

}  // namespace

ProgramSource make_program_source(const chain::Program& program, const std::vector<Step>& steps) {
    const TableLayout layout = table_layout(program);
    const LaneChoice preferred = [](const chain::Node& node) { return node.lanes; };
    const LaneChoice single = [](const chain::Node&) { return 1u; };
    const LaneChoice most = [](const chain::Node& node) { return node.lanes > 1 ? 32u : 1u; };
    const bool as_preferred = std::all_of(program.nodes.begin(), program.nodes.end(),
                                          [](const chain::Node& node) { return node.lanes == node.type->lanes; });
    const auto writer = [&](const LaneChoice& lanes, const char* name) {
        return SourceWriter(program, steps, layout, lanes, name);
    };
    ProgramSource source;
    // A resident kernel's batches are small, so that it runs them as those of few packets are run.
    if (!steps.empty() && steps.front().resident) {
        source.usual = writer(as_preferred ? most : preferred, "").resident();
        return source;
    }
    source.usual = writer(preferred, "").steps("step", true);
    const bool shares = std::any_of(program.nodes.begin(), program.nodes.end(),
                                    [](const chain::Node& node) { return node.lanes > 1; });
    if (!shares || !as_preferred) return source;
    source.one_lane = writer(single, "-one-lane").steps("one_lane_step", false);
    source.most_lanes = writer(most, "-most-lanes").steps("most_lanes_step", false);
    return source;
}

}  // namespace millrace::device::cuda
