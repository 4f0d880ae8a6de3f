#include "millrace/device/cuda/compile/kernel_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/device/cuda/compile/nf_source.hpp"
#include "millrace/device/node_counters.hpp"
#include "millrace/isolation/kernel.hpp"

namespace millrace::device::cuda {
namespace {

std::string targets_name(size_t stage) { return fmt::format("kTargets{}", stage); }

/// Tables of a stage's first node as an NF's functions take them.
std::string tables(const TableLayout& layout, size_t stage) {
    const std::string place = fmt::format("tables.bytes + {}", layout.offsets[stage]);
    return layout.strides[stage] == 0 ? place : "*reinterpret_cast<const void* const*>(" + place + ")";
}

std::string stage_name(size_t stage) { return fmt::format("stage{}", stage); }
/// Declares a stage's StageNodes. `tables` lie `stride` bytes apart.
std::string stage_nodes(const chain::Program& program, size_t stage, const std::string& tables, size_t stride) {
    const chain::Stage own = program.stage(stage);
    return fmt::format("    const StageNodes {0}{{{1}, {2}, {3}, {4}, {5}, {6}, sizeof {6} / sizeof {6}[0], {7}}};\n",
                       stage_name(stage), stage, own.first, own.count, tables, stride, targets_name(stage),
                       counters_of_node(program));
}
std::string stage_nodes(const chain::Program& program, const TableLayout& layout, size_t stage) {
    return stage_nodes(program, stage, tables(layout, stage), layout.strides[stage]);
}

/// So many blocks of a kernel have room on a multiprocessor, which limits their registers. Blocks that all batches wait
/// for shall find room beside others': those that decide on packets together would take more.
unsigned blocks_with_room(const chain::Program& program, const Step& step, const Kernel& kernel) {
    if (step.kind == Step::Kind::keyed && first_node(program, step.first).type->decides_ahead) return 2;
    return kernel.most_blocks != 0 ? 1 : 768 / kernel.threads;
}

/// `second`: its parameter behind the batch.
std::string kernel_head(const chain::Program& program, const Step& step, const Kernel& kernel,
                        const char* second = "ChainTables tables") {
    return fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}, {}) {}(const __grid_constant__ BatchView batch, const "
        "__grid_constant__ {}) {{\n",
        kernel.threads, blocks_with_room(program, step, kernel), kernel.name, second);
}

/// A block has room for so many counters.
constexpr size_t kMaxBlockCounters = 512;
std::string declare_counts(size_t counters) {
    if (counters > kMaxBlockCounters) return "";
    return fmt::format("    __shared__ uint32_t outcomes[{}];\n", counters);
}
std::string open_counts(size_t counters) {
    if (counters > kMaxBlockCounters) return "    const BatchCounts counts(batch);\n";
    return fmt::format("    const BlockCounts<{}> counts(outcomes);\n", counters);
}
std::string close_counts(size_t counters) { return counters > kMaxBlockCounters ? "" : "    counts.flush(batch);\n"; }

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

/// Which of the chain's sequences (Step::first_sequence) is that of a stage.
size_t sequence_of(const chain::Program& program, size_t stage) {
    const std::vector<uint16_t> owners = sequences_of(program);
    return static_cast<size_t>(std::ranges::find(owners, program.stage(stage).first) - owners.begin());
}

/// Takes the packets of `share`, which the text before has declared, through a step.
std::string nodes_text(const chain::Program& program, const TableLayout& layout, const Step& step,
                       const LaneChoice& lanes, const chain::Node* staged = nullptr) {
    const auto lap = [&](uint32_t part) { return step.timed ? fmt::format("    timer.lap({});\n", part) : ""; };
    std::string text = "    BlockPackets block(batch, shared, share);\n";
    const size_t counters = counters_of(program);
    bool shared = false;
    for (uint16_t index = step.first; index < step.last; ++index) shared |= lanes(first_node(program, index)) > 1;
    if (step.first < step.last) text += open_counts(counters);
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
        const bool finds = step.finds_last && index + 1 == step.last, judges = step.judges_first && index == step.first;
        if (node.type->block_bytes > 0 && &node != staged && !judges)
            text += fmt::format("    {}({}, block_memory());\n    __syncthreads();\n", function("stage"),
                                tables(layout, index));
        // All wait for the first. Where every NF has one lane a packet, as for short frames, idle lanes cost less than
        // looking for them: 1 to 2 % of the packets a second, whatever share is dropped. With more lanes 11 % more
        // packets go through when half of them are dropped first, 2 % when a quarter is, and 0.6 % fewer when none is
        // (docs/benchmarks/method.md, "Measured once").
        if (judges || (shared && (index > step.first || !step.begin)))
            text += fmt::format("    block.find_waiting(batch, {});\n", stage_name(index));
        if (finds) {
            text += fmt::format("    find_in_stage<{}>(batch, block, {}, {});\n", lanes(node), stage_name(index),
                                function("find")) +
                    lap(index);
            continue;
        }
        if (judges) {
            text += fmt::format("    judge_stage<{}, {}, {}>(batch, block, counts.data(), {}", lanes(node),
                                node.type->emits_events, at_last, stage_name(index));
            for (const char* const part : {"candidates", "sift", "sifted", "check", "checked", "judge", "conclude"})
                text += ", " + function(part);
            text += ");\n" + lap(index);
            continue;
        }
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
        const bool numbered = node.type->numbered();
        const auto function = [&](const char* what) { return function_name(*node.type, lanes(node), what); };
        const std::string wanted = numbered
                                       ? ""
                                       : fmt::format(", batch.wanted + uint64_t{{i}} * {}", node.type->wanted_bytes);
        std::string ahead;
        if (node.type->decides_ahead && !step.resident) {
            text += fmt::format("    const uint32_t through = latest_through(batch, {});\n",
                                sequence_of(program, step.last));
            ahead = fmt::format("        {}(&batch.packets[i], tables{}, batch.numbered, through);\n",
                                function("decide_ahead"), wanted);
        }
        text +=
            stage_nodes(program, layout, step.last) +
            fmt::format(
                "    block.{0}(batch, [&](uint32_t i) {{\n        const uint32_t node = batch.at[i];\n"
                "        if (!{1}.has(node)) return {4};\n        const void* const tables = "
                "{1}.tables_of(node);\n"
                "        const uint32_t key = {2}(&batch.packets[i], tables{3});\n{5}        return key;\n    }});\n",
                numbered ? "rank" : "keep_keys", stage_name(step.last), function("order_key"), wanted,
                numbered ? "kNoOrderKey" : "kNotGrouped", ahead);
    }
    if (step.end) text += "    block.for_each([&](uint32_t i) { end_packet(batch, i); });\n";
    if (step.first < step.last) text += close_counts(counters);
    return text + lap(kEndPart);
}

constexpr const char* kTakeStates = "    take_states(batch, threadIdx.x, blockDim.x);\n    __syncthreads();\n";

/// Which of how many blocks this one is, that share a batch by its keys.
const char* group_of_block(const Step& step) {
    return step.resident ? "resident.block(), resident.blocks()" : "blockIdx.x, gridDim.x";
}

/// Runs a stage with state per key, and sweeps.
std::string keyed_text(const chain::Program& program, const TableLayout& layout, const Step& step,
                       const LaneChoice& lanes) {
    const chain::Node& node = first_node(program, step.first);
    const auto function = [&](const char* what) { return function_name(*node.type, lanes(node), what); };
    const uint16_t number = program.stage(step.first).first;
    // Resident kernels take the next batch when they are through with one: nothing is decided ahead.
    return open_counts(counters_of(program)) + stage_nodes(program, layout, step.first) +
           fmt::format("    keyed_packets(batch, counts.data(), {}, {}, {}, {}, {});\n", stage_name(step.first),
                       step.resident ? "resident.block()" : "blockIdx.x", node.type->wanted_bytes,
                       keyed_taker(*node.type, lanes(node), number),
                       step.resident ? "NothingAhead{}" : ahead_taker(*node.type, lanes(node))) +
           fmt::format("    sweep_buckets(batch, {}, {}, {}, {}, {});\n", tables(layout, step.first), number,
                       group_of_block(step), function("claimable"), function("sweep")) +
           close_counts(counters_of(program));
}

/// What one block does with the whole batch, in a step that has an order; behind keyed_text, the last one.
std::string ordered_text(const chain::Program& program, const TableLayout& layout, const Step& step,
                         const LaneChoice& lanes) {
    const auto function = [&](const char* what) {
        const chain::Node& node = first_node(program, step.first);
        return function_name(*node.type, lanes(node), what);
    };
    // What needs no order comes before the sequence. Resident kernels keep one of their own.
    const bool in_sequence = !step.resident, late = step.kind == Step::Kind::tickets && !step.take_states;
    const std::string await = in_sequence && step.awaits_sequence ? fmt::format("await_sequence(batch, {}, {}); ",
                                                                                step.first_sequence, step.last_sequence)
                                                                  : "";
    std::string text = late ? "" : "    " + await + "\n";
    if (step.take_states) text += kTakeStates;
    if (step.kind == Step::Kind::tickets)
        text += fmt::format("    number_packets(batch, {}({}), [&] {{ {}}});\n", function("tickets"),
                            tables(layout, step.first), late ? await : "");
    if (step.kind == Step::Kind::commit)
        text += open_counts(counters_of(program)) + stage_nodes(program, layout, step.first) +
                fmt::format("    commit_packets(batch, counts.data(), {}, {});\n", stage_name(step.first),
                            function("commit")) +
                close_counts(counters_of(program));
    if (step.kind == Step::Kind::keyed)
        text += fmt::format("    advance_sweep({}, {});\n", tables(layout, step.first), function("claim"));
    if (step.snapshot != 0)
        text += fmt::format("    __syncthreads();\n    snapshot_states(batch, {}, threadIdx.x, blockDim.x);\n",
                            step.snapshot);
    if (in_sequence && step.releases_sequence)
        text += fmt::format("    release_sequence(batch, {}, {});\n", step.first_sequence, step.last_sequence);
    return text;
}

}  // namespace

std::string targets(const chain::Program& program, size_t stage) {
    std::string text = fmt::format("__constant__ const Target {}[] = {{", targets_name(stage));
    for (const Target& target : first_node(program, stage).targets)
        text += fmt::format("{{static_cast<Target::Kind>({}), {}}}, ", static_cast<unsigned>(target.kind),
                            target.value);
    return text + "};\n";
}

std::string step_kernel(const chain::Program& program, const TableLayout& layout, const Step& step,
                        const Kernel& kernel, const LaneChoice& lanes) {
    std::string text = kernel_head(program, step, kernel);
    const size_t counters = counters_of(program);
    switch (step.kind) {
        case Step::Kind::nodes:
            if (step.timed) text += "    BlockTimer timer(batch);\n";
            text += "    __shared__ BlockPackets::Shared shared;\n    const uint32_t share = blockIdx.x;\n";
            if (step.first < step.last) text += declare_counts(counters);
            return text + nodes_text(program, layout, step, lanes) + "}\n";
        case Step::Kind::gather: return text + "    gather_frames(batch);\n}\n";
        case Step::Kind::pack: return text + "    pack_heads(batch);\n}\n";
        case Step::Kind::group: return text + fmt::format("    group_packets(batch, {});\n}}\n", group_of_block(step));
        case Step::Kind::confined: break;  // confined_kernel
        case Step::Kind::keyed:
            text += declare_counts(counters) + keyed_text(program, layout, step, lanes) +
                    "    if (!is_last_through(batch)) return;\n";
            break;
        case Step::Kind::commit: text += declare_counts(counters); break;
        case Step::Kind::sequence:
        case Step::Kind::tickets:
        case Step::Kind::snapshot: break;
    }
    return text + ordered_text(program, layout, step, lanes) + "}\n";
}

std::string confined_kernel(const chain::Program& program, const Step& step, const Kernel& kernel, unsigned first) {
    const size_t counters = counters_of(program);
    std::string functions;
    std::string text = kernel_head(program, step, kernel, "ConfinedWindows windows") + declare_counts(counters) +
                       open_counts(counters);
    text += "    const ConfinedPacket packet(batch, windows);\n";
    if (step.begin)
        text += fmt::format("    packet.begin({}, {}, {});\n", program.stage_count(), program.drop_malformed,
                            program.inner);
    for (uint16_t stage = step.first; stage < step.last; ++stage) {
        const unsigned number = stage - step.first;
        const std::string function = isolation::function_name(first + number);
        const chain::Node& node = first_node(program, stage);
        functions += fmt::format("extern \"C\" unsigned long long {}(void* handle, const void* tables);\n", function);
        text += stage_nodes(program, stage, "nullptr", 0) +
                fmt::format("    packet.pass<{}, {}>(counts.data(), {}, {}, {});\n",
                            (node.reads() | node.writes()).bits, node.writes().bits, stage_name(stage), number,
                            function);
    }
    if (step.end) text += "    packet.end();\n";
    return functions + text + close_counts(counters) + "}\n";
}

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
            declare_counts(std::max<size_t>(counters_of(program), 1));
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
            case Step::Kind::group:
                text += fmt::format("    resident.sync();\n    group_packets(batch, {});\n", group_of_block(*step));
                break;
            case Step::Kind::confined: break;  // no program with tenants' functions stays on a device
            case Step::Kind::tickets:
            case Step::Kind::commit:
            case Step::Kind::sequence:
            case Step::Kind::keyed:
            case Step::Kind::snapshot:
                if (step->kind == Step::Kind::keyed)
                    text += "    {\n" + keyed_text(program, layout, *step, lanes) + "    }\n";
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

}  // namespace millrace::device::cuda
