// Flows in the syntax of `ovs-ofctl add-flows` (OpenFlow 1.0 to 1.3); README.md has what is understood.
#pragma once

#include <optional>
#include <string_view>

#include "millrace/base/text/diagnostic.hpp"
#include "millrace/nf/classify/rules/words.hpp"
#include "millrace/nf/switch/flows/flow.hpp"

namespace millrace::nf::flow_switch {

/// Reads one flow, without line, file and text. Throws classify::WordMistake.
Flow parse_flow(std::string_view line, const PortNumbers& ports);
/// The same without actions, which must not be there: what shall be removed.
Flow parse_match(std::string_view line, const PortNumbers& ports);

/// Reads a list of actions, as it stands behind `actions=` at `offset` of its line. `match` says which packets come:
/// what asks for IP or TCP must be sure to get it. Without one (in a group) they leave other packets as they are.
/// Throws WordMistake.
std::vector<Action> parse_actions(std::string_view text, size_t offset, const FlowMatch* match,
                                  const PortNumbers& ports);

/// The same of a flow, whose table and match are known, with all that is an instruction in OpenFlow: `meter:1`,
/// `clear_actions`, `write_actions(…)`, `write_metadata:1/0xff`, `goto_table:1`.
std::vector<Action> parse_instructions(std::string_view text, size_t offset, const Flow& flow,
                                       const PortNumbers& ports);

/// Reads one group, as `ovs-ofctl add-groups` takes it. Throws WordMistake.
Group parse_group(std::string_view line, const PortNumbers& ports);

/// Reads one meter, as `ovs-ofctl add-meter` takes it: `meter=1,kbps,band=type=drop,rate=1000`. Throws WordMistake.
Meter parse_meter(std::string_view line);
/// What is wrong with a meter; nothing where it can be had.
std::optional<std::string> mistake_of(const Meter& meter);
void load_meters(std::string_view text, const std::string& file, FlowSet& set);

/// Appends the flows, or the groups, of one file. Throws ConfigError with every mistake, or for the first
/// flow beyond `most`; `set` is then to be thrown away.
void load_flows(std::string_view text, const std::string& file, const PortNumbers& ports, FlowSet& set,
                size_t most = Flow::kMaxFlows);
/// Throws the ConfigError for a flow beyond `most`.
[[noreturn]] void refuse_more_flows(size_t most, const Location& where);
void load_groups(std::string_view text, const std::string& file, const PortNumbers& ports, FlowSet& set);

}  // namespace millrace::nf::flow_switch
