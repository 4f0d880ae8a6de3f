// Flows added, changed and removed one by one, as a controller or `ovs-ofctl` asks.
#pragma once

#include <string>
#include <unordered_map>

#include "millrace/nf/switch/flow_parser.hpp"

namespace millrace::nf::flow_switch {

struct FlowChange {
    enum class Kind { add, modify, modify_strict, remove, remove_strict };
    Kind kind = Kind::add;
    Flow flow;  ///< to remove: without actions
};

/// Reads `add FLOW`, `modify FLOW`, `modify_strict FLOW`, `delete MATCH` or `delete_strict MATCH`, as files for
/// `ovs-ofctl --bundle add-flows` have them; a flow alone is added. Throws classify::WordMistake.
FlowChange parse_change(std::string_view line, const PortNumbers& ports);

/// What makes a flow the same flow: its match and its priority.
std::string identity_of(const Flow& flow);

/// Flows under change (OpenFlow 1.3.5, section 6.4). Flows keep their order; new ones come last.
class FlowTable {
public:
    explicit FlowTable(std::vector<Flow> flows);

    /// Adding replaces a flow with the same match and priority. The strict kinds mean that one; the others every flow that
    /// matches no packet besides those of the given match, whatever its priority. Returns how many flows were touched.
    size_t apply(const FlowChange& change);
    /// The flows as they stand now; the table is used up.
    std::vector<Flow> take();

private:
    std::vector<Flow> flows_;
    std::vector<bool> removed_;
    std::unordered_multimap<std::string, size_t> by_identity_;
};

}  // namespace millrace::nf::flow_switch
