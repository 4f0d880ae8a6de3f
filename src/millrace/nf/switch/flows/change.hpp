// What a controller may ask to change, as one thing among others.
#pragma once

#include <optional>
#include <variant>

#include "millrace/nf/switch/flows/flow_changes.hpp"

namespace millrace::nf::flow_switch {

struct AskedFlowChange {
    FlowChange change;
    bool check_overlap = false;
};

enum class TableChange : uint8_t { add, modify, remove };  ///< OpenFlow's numbers (ofp_group_mod_command)

struct GroupChange {
    TableChange kind = TableChange::add;
    Group group;                 ///< to remove: nothing
    std::optional<uint32_t> id;  ///< to remove; nothing: all
};
struct MeterChange {
    TableChange kind = TableChange::add;
    Meter meter;
    std::optional<uint32_t> id;
};

using Change = std::variant<AskedFlowChange, GroupChange, MeterChange>;

}  // namespace millrace::nf::flow_switch
