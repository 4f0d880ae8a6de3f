#include "millrace/device/device.hpp"

#include <algorithm>

namespace millrace::device {

std::vector<Step> plan_steps(const chain::Program& program, const StepOptions& options) {
    std::vector<Step> steps;
    if (options.gather) steps.push_back({Step::Kind::gather});
    const size_t before = steps.size();
    const auto count = static_cast<uint16_t>(program.stage_count());
    uint16_t first = 0;
    const auto add_nodes = [&](uint16_t last) {
        steps.push_back({.kind = Step::Kind::nodes, .first = first, .last = last});
        first = last;
    };
    const auto add_keyed = [&](uint16_t i) {
        const auto next = static_cast<uint16_t>(i + 1);
        // The blocks of the step itself must not wait for another batch: they could be all that there is room for.
        if (std::none_of(steps.begin(), steps.end(), [](const Step& step) { return step.in_order(); }))
            steps.push_back({Step::Kind::turn, i, i});
        steps.push_back({Step::Kind::keyed, i, next});
        steps.push_back({Step::Kind::sweep, i, next});
        first = next;
    };
    const auto run_up_to = [&](uint16_t last) {
        if (last > first) add_nodes(last);
    };
    for (uint16_t i = 0; i < count; ++i) {
        const chain::Node& node = program.nodes[program.stage(i).first];
        const nf::Type& type = *node.type;
        if (options.mode == Mode::pipelined) run_up_to(i);
        if (!type.ordered()) continue;
        // All that comes before must be decided before packets can be numbered. The first step also
        // parses, so it is there even if it has no nodes.
        if (steps.size() == before || first < i || steps.back().kind != Step::Kind::nodes) add_nodes(i);
        steps.back().keys_of_next = true;
        if (type.is_keyed()) {
            if (type.commits_keyed()) {
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
    if (steps.size() == before || steps.back().kind != Step::Kind::nodes)
        steps.push_back({Step::Kind::nodes, count, count});
    steps[before].begin = true;
    steps.back().end = true;
    // What NFs without an order change, such as counters, is complete when all have run.
    const auto in_no_order = [](const chain::Node& node) { return node.changes_state_in_no_order(); };
    if (std::any_of(program.nodes.begin(), program.nodes.end(), in_no_order))
        steps.push_back({.kind = Step::Kind::snapshot, .snapshot = true});
    for (size_t i = steps.size(); i-- > 0 && !steps.back().snapshot;) {
        if (!steps[i].in_order()) continue;
        steps[i].snapshot = true;
        break;
    }
    const auto in_order = [](const Step& step) { return step.in_order(); };
    if (const auto earliest = std::find_if(steps.begin(), steps.end(), in_order); earliest != steps.end()) {
        earliest->awaits_sequence = true;
        std::find_if(steps.rbegin(), steps.rend(), in_order)->releases_sequence = true;
    }
    const auto numbering = std::find_if(steps.begin(), steps.end(),
                                        [](const Step& step) { return step.kind == Step::Kind::tickets; });
    if (options.shared_state && numbering != steps.end()) numbering->take_states = true;
    if (options.pack) steps.push_back({Step::Kind::pack});
    for (Step& step : steps) step.timed = options.timed && step.kind == Step::Kind::nodes;
    for (Step& step : steps) step.resident = options.mode == Mode::persistent;
    return steps;
}

std::string step_text(const chain::Program& program, const Step& step) {
    static const char* const kKinds[] = {"gather",        "",        "numbering for ",   "commit of ", "turn of ", "",
                                         "time-outs of ", "packing", "snapshot of state"};
    std::string text = kKinds[static_cast<size_t>(step.kind)];
    using Kind = Step::Kind;
    const bool named = step.kind != Kind::gather && step.kind != Kind::pack && step.kind != Kind::snapshot;
    const bool before_it = step.kind == Kind::tickets || step.kind == Kind::turn;
    const uint16_t last = before_it ? static_cast<uint16_t>(step.first + 1) : step.last;
    for (uint16_t i = step.first; named && i < last; ++i)
        text += (i > step.first ? " → " : "") + program.nodes[program.stage(i).first].name;
    return text.empty() ? "parsing" : text;
}

}  // namespace millrace::device
