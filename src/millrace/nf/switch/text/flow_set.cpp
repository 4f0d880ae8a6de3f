// What a switch's options say of flows, groups and meters.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "millrace/base/files/file.hpp"
#include "millrace/nf/switch/text/flow_parser.hpp"
#include "millrace/nf/switch/text/match_field.hpp"
#include "millrace/nf/switch/options.hpp"
#include "millrace/nf/switch/text/words.hpp"

namespace millrace::nf::flow_switch {
namespace {

void load_inline(const Config& list, const PortNumbers& ports, size_t max_flows, FlowSet& set) {
    const uint32_t file = static_cast<uint32_t>(set.files.size());
    set.files.push_back(list.where().file);
    for (const Config& item : list.items()) {
        if (set.flows.size() >= max_flows) refuse_more_flows(max_flows, item.where());
        try {
            Flow flow = parse_flow(item.text(), ports);
            flow.text = item.text();
            flow.file = file;
            flow.line = item.where().line;
            set.flows.push_back(std::move(flow));
        } catch (const classify::WordMistake& mistake) {
            item.fail(mistake.message, mistake.hint);
        }
    }
}

}  // namespace

FlowSet load_flow_set(const Config& options, const PortNumbers& ports, size_t max_flows) {
    FlowSet set;
    if (const auto files = options.find("groups"))
        for (const Config& file : files->items())
            load_groups(read_file(file.path(), file.where()), file.path(), ports, set);
    if (const auto files = options.find("meters"))
        for (const Config& file : files->items()) load_meters(read_file(file.path(), file.where()), file.path(), set);
    if (const auto list = options.find("flows")) load_inline(*list, ports, max_flows, set);
    if (const auto files = options.find("file"))
        for (const Config& file : files->items())
            load_flows(read_file(file.path(), file.where()), file.path(), ports, set, max_flows);
    std::set<uint32_t> groups, meters;
    for (const Group& group : set.groups) groups.insert(group.id);
    for (const Meter& meter : set.meters) meters.insert(meter.id);
    const auto check = [&](const Flow& flow, const std::set<uint32_t>& all, uint32_t id, const char* what) {
        if (!all.contains(id))
            throw ConfigError(Diagnostic{{set.files[flow.file], flow.line, 1},
                                         fmt::format("there is no {} {}", what, id),
                                         fmt::format("load it with '{}s:'", what)});
    };
    for (const Flow& flow : set.flows)
        for (const Action& action : flow.actions) {
            if (action.kind == ActionKind::group) check(flow, groups, action.value, "group");
            if (action.kind == ActionKind::meter) check(flow, meters, action.value, "meter");
        }
    return set;
}

bool chooses_pipeline(const Config& options, const FlowSet& set, bool may_change) {
    constexpr size_t kAuto = 0, kAlways = 1;
    size_t wanted = kAuto;
    const auto option = options.find("pipeline");
    if (option) wanted = option->choice({"auto", "always", "never"});
    const auto needs = [](const auto& one) { return needs_pipeline(one); };
    const auto flow = std::find_if(set.flows.begin(), set.flows.end(), needs);
    const bool needed = flow != set.flows.end() || std::any_of(set.groups.begin(), set.groups.end(), needs);
    if (wanted == kAlways || (wanted == kAuto && (needed || may_change))) return true;
    if (needed)
        option->fail(flow != set.flows.end() ? "flow '" + flow->text + "' needs the pipeline"
                                             : std::string("some group needs the pipeline"),
                     "write 'pipeline: auto'");
    return false;
}

}  // namespace millrace::nf::flow_switch
