// Options of the switch that take more than a line to read. All throw ConfigError.
#pragma once

#include <optional>

#include "millrace/base/text/config.hpp"
#include "millrace/nf/classify/search.hpp"
#include "millrace/nf/nf.hpp"
#include "millrace/nf/switch/control/control.hpp"

namespace millrace::nf::flow_switch {

/// OpenFlow's numbers of the ports with these names.
PortNumbers read_ports(const Config& options, const std::vector<std::string>& names);
/// Controllers, one or a list; and a number of up to 64 bits.
Control::Address read_address(const Config& options, const Environment& environment);
/// Nothing for `auto`. Bit vectors know 5-tuples only.
std::optional<classify::Engine> engine_of(const Config& options);
/// Flows, groups and meters of the configuration and its files. More flows than `max_flows` are a mistake.
FlowSet load_flow_set(const Config& options, const PortNumbers& ports, size_t max_flows);
/// Whether Pipeline does the work, and not Switch: where some flow needs it, or may come to need it.
bool chooses_pipeline(const Config& options, const FlowSet& set, bool may_change);

}  // namespace millrace::nf::flow_switch
