#include "millrace/device/cuda/compile/chain_source.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "millrace/chain/classification/classification_table.hpp"
#include "millrace/device/cuda/compile/kernel_text.hpp"
#include "millrace/device/cuda/compile/nf_source.hpp"

namespace millrace::device::cuda {
namespace {

/// Reads of the host's memory that are under way at once: enough to keep the bus busy for as long as it takes to
/// answer, with a few batches at it. With many more of them the bus carries a quarter less (docs/benchmarks/method.md,
/// "Measured once").
constexpr unsigned kGatherThreads = 512, kGatherBlocks = 8;

/// Groups of a batch's packets by their keys, with a block for each: so many packets are one's, or more where there
/// would be too many groups.
constexpr unsigned kGroupPackets = 128, kMaxGroups = 128;

/// Copies take 8 threads a packet; so do kernels with an NF that likes several lanes: fewer packets a block then.
Kernel geometry(const chain::Program& program, const Step& step, const LaneChoice& choice) {
    Kernel kernel;
    if (step.kind == Step::Kind::group || step.in_order()) {
        const bool by_group = step.kind == Step::Kind::group || step.kind == Step::Kind::keyed;
        kernel.threads = 256;
        kernel.packets = by_group ? kGroupPackets : 0;
        kernel.most_blocks = by_group ? kMaxGroups : 1;
        return kernel;
    }
    if (step.kind == Step::Kind::gather) {
        kernel.threads = kGatherThreads;
        kernel.packets = kGatherThreads / 8;
        kernel.most_blocks = kGatherBlocks;
        return kernel;
    }
    unsigned lanes = step.kind == Step::Kind::nodes ? 1 : 8;
    for (uint16_t index = step.first; index < step.last; ++index) {
        lanes = std::max(lanes, choice(first_node(program, index)));
        if (!step.judges_first || index != step.first)
            kernel.block_bytes = std::max(kernel.block_bytes, first_node(program, index).type->block_bytes);
    }
    kernel.threads = lanes == 1 ? 128 : kMaxBlockThreads;
    kernel.packets = kernel.threads / lanes;
    kernel.spread = lanes == 1 ? 1024 : lanes == 32 ? kFewPackets : 0;
    // Its work is spread over a block's threads, whatever packet it is for.
    if (step.judges_first) {
        kernel.threads = kMaxBlockThreads;
        kernel.packets = 64;
    }
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

/// Whether the functions of NFs are in a step's kernel, rather than what numbers, sweeps and copies packets.
bool links_long(const Step& step) {
    return step.kind == Step::Kind::nodes ? step.first < step.last
                                          : step.kind == Step::Kind::keyed || step.kind == Step::Kind::commit;
}

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

    /// A kernel for each step that `wanted` wants, named `prefix` and the step's number.
    template <class Wanted>
    ChainSource steps(const char* prefix, const Wanted& wanted) && {
        std::vector<Kernel> small;
        for (size_t i = 0; i < steps_.size(); ++i) {
            if (!wanted(steps_[i])) continue;
            Kernel kernel = geometry(program_, steps_[i], lanes_);
            kernel.step = i;
            // The linker takes a name for all that begin with it, as 1 does for 10.
            kernel.name = fmt::format("millrace_{}_{}_of_{}", prefix, i, steps_.size());
            source_.chain.text += step_kernel(program_, layout_, steps_[i], kernel, lanes_);
            if (links_long(steps_[i])) source_.cubins.push_back({std::move(kernel)});
            else small.push_back(std::move(kernel));
        }
        if (!small.empty()) source_.cubins.push_back(std::move(small));
        return std::move(source_);
    }

    /// One kernel for all steps.
    ChainSource resident() && {
        // A block of its own is worth it for few packets already: the blocks are there.
        constexpr unsigned kLeastPackets = 8;
        Kernel kernel;
        kernel.name = "millrace_resident";
        kernel.threads = kResidentThreads;
        kernel.packets = kLeastPackets;
        for (const chain::Node& node : program_.nodes)
            kernel.block_bytes = std::max(kernel.block_bytes, node.type->block_bytes);
        source_.chain.text += resident_kernel(program_, layout_, steps_, kernel, lanes_);
        source_.cubins.push_back({std::move(kernel)});
        return std::move(source_);
    }

private:
    void add_nfs() {
        std::set<std::string> written;
        for (const chain::Node& node : program_.nodes) {
            if (node.type->is_tenants) continue;
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
    // Those of tenants' functions are linked with them: make_confined_source.
    source.usual = writer(preferred, "").steps("step", [](const Step& step) {
        return step.kind != Step::Kind::confined;
    });
    if (!as_preferred) return source;
    const auto shares = [&](const Step& step) {
        bool any = false;
        for (uint16_t index = step.first; index < step.last; ++index) any |= first_node(program, index).lanes > 1;
        return step.kind == Step::Kind::nodes && any;
    };
    if (std::none_of(steps.begin(), steps.end(), shares)) return source;
    source.one_lane = writer(single, "-one-lane").steps("one_lane_step", shares);
    source.most_lanes = writer(most, "-most-lanes").steps("most_lanes_step", shares);
    return source;
}

ConfinedSource make_confined_source(const chain::Program& program, const std::vector<Step>& steps) {
    // Few threads a block: batches of such chains are short, and go to many multiprocessors.
    constexpr unsigned kThreads = 64;
    ConfinedSource source;
    source.unit.name = program.name + "-confined.cu";
    source.unit.text =
        "#include \"millrace/device/kernel/order.hpp\"\n#include \"millrace/device/kernel/windows.hpp\"\nusing "
        "namespace millrace;\nusing namespace millrace::device;\n";
    for (size_t i = 0; i < steps.size(); ++i) {
        if (steps[i].kind != Step::Kind::confined) continue;
        Kernel kernel;
        kernel.step = i;
        kernel.name = fmt::format("millrace_confined_{}_of_{}", i, steps.size());
        kernel.threads = kernel.packets = kThreads;
        for (uint16_t stage = steps[i].first; stage < steps[i].last; ++stage)
            source.unit.text += targets(program, stage);
        source.unit.text += confined_kernel(program, steps[i], kernel, source.functions);
        source.functions += steps[i].last - steps[i].first;
        source.kernels.push_back(std::move(kernel));
    }
    return source;
}

}  // namespace millrace::device::cuda
