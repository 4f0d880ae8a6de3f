#include "millrace/device/device.hpp"

#include <algorithm>

namespace millrace::device {

namespace {

/// The bits of node `number`'s states among all of the program's.
uint32_t states_of(const chain::Program& program, size_t number) {
    uint32_t bits = 0;
    std::vector<const void*> known;  // as LoadedProgram has them
    for (size_t i = 0; i <= number; ++i) {
        if (program.nodes[i].nf == nullptr) continue;
        for (const nf::Image::Array& array : program.nodes[i].nf->image().arrays()) {
            if (array.changing_bytes == 0) continue;
            const auto at = std::ranges::find(known, array.data) - known.begin();
            if (at >= kMaxStateArrays) continue;
            if (static_cast<size_t>(at) == known.size()) known.push_back(array.data);
            if (i == number) bits |= 1u << at;
        }
    }
    return bits;
}

/// Steps with an order are neighbours if they are for the same NF, but for what it does in no order.
void number_sequences(const chain::Program& program, std::vector<Step>& steps) {
    const std::vector<uint16_t> owners = sequences_of(program);
    uint8_t next = 0;
    Step* last = nullptr;  // of the NF that is being looked at
    for (Step& step : steps) {
        if (!step.in_order()) continue;
        if (last != nullptr && last->first == step.first) {
            last->snapshot = 0;
            last->releases_sequence = false;
        } else {
            step.awaits_sequence = true;
            if (last != nullptr) next = last->last_sequence;
        }
        const bool for_all = step.kind == Step::Kind::snapshot;
        step.first_sequence = next;
        step.last_sequence = static_cast<uint8_t>(for_all ? owners.size() : next + 1u);
        for (size_t i = step.first_sequence; i < step.last_sequence; ++i)
            step.snapshot |= states_of(program, owners[i]);
        step.releases_sequence = true;
        last = &step;
    }
}

}  // namespace

std::vector<uint16_t> sequences_of(const chain::Program& program) {
    std::vector<uint16_t> owners;
    for (size_t i = 0; i < program.stage_count(); ++i)
        if (program.nodes[program.stage(i).first].type->ordered()) owners.push_back(program.stage(i).first);
    for (size_t i = 0; i < program.nodes.size(); ++i)
        if (program.nodes[i].changes_state_in_no_order()) owners.push_back(static_cast<uint16_t>(i));
    return owners;
}

std::vector<Step> plan_steps(const chain::Program& program, const StepOptions& options) {
    std::vector<Step> steps;
    if (options.gather) steps.push_back({Step::Kind::gather});
    const size_t before = steps.size();
    const auto count = static_cast<uint16_t>(program.stage_count());
    uint16_t first = 0;
    bool judges_first = false;
    const auto add_nodes = [&](uint16_t last) {
        steps.push_back({.kind = Step::Kind::nodes, .first = first, .last = last, .judges_first = judges_first});
        first = last;
        judges_first = false;
    };
    // The rest of stage `i`, a function in parts, is the next step's.
    const auto add_finding = [&](uint16_t i) {
        add_nodes(static_cast<uint16_t>(i + 1));
        steps.back().finds_last = true;
        first = i;
        judges_first = true;
    };
    const auto add_keyed = [&](uint16_t i) {
        const auto next = static_cast<uint16_t>(i + 1);
        steps.push_back({Step::Kind::group, i, i});
        // The blocks of the step itself must not wait for another batch: they could be all that there is room for.
        steps.push_back({Step::Kind::sequence, i, i});
        steps.push_back({Step::Kind::keyed, i, next});
        first = next;
    };
    const auto run_up_to = [&](uint16_t last) {
        if (last > first) add_nodes(last);
    };
    for (uint16_t i = 0; i < count; ++i) {
        const chain::Node& node = program.nodes[program.stage(i).first];
        const nf::Type& type = *node.type;
        if (options.mode == Mode::pipelined) run_up_to(i);
        if (type.is_tenants) {
            run_up_to(i);
            first = static_cast<uint16_t>(i + 1);
            if (steps.size() > before && steps.back().kind == Step::Kind::confined) steps.back().last = first;
            else steps.push_back({Step::Kind::confined, i, first});
            continue;
        }
        const bool in_parts = type.in_parts() && node.nf->runs_in_parts() && options.mode != Mode::persistent;
        if (!type.ordered()) {
            if (in_parts) add_finding(i);
            continue;
        }
        // All that comes before must be decided before packets can be numbered. The first step also
        // parses, so it is there even if it has no nodes.
        if (steps.size() == before || first < i || steps.back().kind != Step::Kind::nodes) add_nodes(i);
        steps.back().keys_of_next = true;
        if (type.is_keyed()) {
            if (type.commits_keyed()) {
                if (in_parts) add_finding(i);
                add_nodes(static_cast<uint16_t>(i + 1));
                steps.back().hold_last = true;
            }
            add_keyed(i);
            continue;
        }
        steps.push_back({Step::Kind::tickets, i, i});
        if (type.commit != nullptr && node.nf->commits()) {
            run_up_to(static_cast<uint16_t>(i + 1));
            steps.back().hold_last = true;
            steps.push_back({Step::Kind::commit, i, static_cast<uint16_t>(i + 1)});
        }
    }
    run_up_to(count);
    if (steps.size() == before || (steps.back().kind != Step::Kind::nodes && steps.back().kind != Step::Kind::confined))
        steps.push_back({Step::Kind::nodes, count, count});
    steps[before].begin = true;
    steps.back().end = true;
    // What NFs without an order change, such as counters, is complete when all have run.
    const auto in_no_order = [](const chain::Node& node) { return node.changes_state_in_no_order(); };
    if (std::any_of(program.nodes.begin(), program.nodes.end(), in_no_order))
        steps.push_back({.kind = Step::Kind::snapshot, .first = count, .last = count});
    number_sequences(program, steps);
    const auto numbering = std::find_if(steps.begin(), steps.end(),
                                        [](const Step& step) { return step.kind == Step::Kind::tickets; });
    if (options.shared_state && numbering != steps.end()) numbering->take_states = true;
    if (options.pack) steps.push_back({Step::Kind::pack});
    for (Step& step : steps) step.timed = options.timed && step.kind == Step::Kind::nodes;
    for (Step& step : steps) step.resident = options.mode == Mode::persistent;
    return steps;
}

const char* part_text(const Step& step, size_t stage) {
    if (step.judges_first && stage == step.first) return " (2 of 2)";
    return step.finds_last && stage + 1u == step.last ? " (1 of 2)" : "";
}

std::string step_text(const chain::Program& program, const Step& step) {
    static const char* const kKinds[] = {"gather",       "", "numbering for ", "commit of ",        "grouping for ",
                                         "sequence of ", "", "packing",        "snapshot of state", "in windows: "};
    std::string text = kKinds[static_cast<size_t>(step.kind)];
    using Kind = Step::Kind;
    const bool named = step.kind != Kind::gather && step.kind != Kind::pack && step.kind != Kind::snapshot;
    const bool before_it = step.kind == Kind::tickets || step.kind == Kind::group || step.kind == Kind::sequence;
    const uint16_t last = before_it ? static_cast<uint16_t>(step.first + 1) : step.last;
    for (uint16_t i = step.first; named && i < last; ++i) {
        text += (i > step.first ? " → " : "") + program.nodes[program.stage(i).first].name;
        text += part_text(step, i);
    }
    return text.empty() ? "parsing" : text;
}

}  // namespace millrace::device
