// What the switch shows of its flows.
#include "millrace/nf/switch/control/show.hpp"

#include "millrace/nf/switch/text/match_field.hpp"

namespace millrace::nf::flow_switch {

ShownTable show_flows(const Control& control, size_t most) {
    const PortNumbers ports = control.ports();
    const std::vector<FlowEntry> flows = control.flows({}, {});
    ShownTable shown{.columns = {"flow", "packets", "bytes"}, .rows = {}, .total = flows.size()};
    for (const FlowEntry& entry : flows) {
        if (shown.rows.size() == most) break;
        shown.rows.push_back({text_of(entry.flow, ports), entry.counts.packets, entry.counts.bytes});
    }
    return shown;
}

}  // namespace millrace::nf::flow_switch
