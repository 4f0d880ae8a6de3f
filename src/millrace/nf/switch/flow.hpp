// Flows and groups as people write them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/nf/classify/flow_fields.hpp"
#include "millrace/nf/switch/action.hpp"

namespace millrace::nf::flow_switch {

/// The packets whose fields are `(fields & mask) == value`. Bits of `value` outside of `mask` are zero.
struct FlowMatch {
    classify::FlowFields value, mask;
};

struct Flow {
    FlowMatch match;
    uint16_t priority = 32768;    ///< the higher is tried first; among equals, the one loaded first
    uint64_t cookie = 0;
    std::vector<Action> actions;  ///< none: the packet is dropped
    std::string text;             ///< as written, without comment and outer blanks
    uint32_t file = 0;            ///< index in FlowSet::files
    uint32_t line = 0;
};

/// What `group:N` chooses from: one list of actions for each unit of weight.
struct Group {
    uint32_t id = 0;
    std::vector<std::vector<Action>> buckets;
};

struct FlowSet {
    std::vector<Flow> flows;   ///< in order of loading
    std::vector<Group> groups;
    std::vector<std::string> files;
};

/// OpenFlow's numbers of the ports of a configuration.
class PortNumbers {
public:
    /// `names` by index; without a number of its own a port has its index plus 1.
    PortNumbers(std::vector<std::string> names, std::map<uint32_t, uint16_t> by_number);
    explicit PortNumbers(std::vector<std::string> names);

    /// The index of a port by its number or its name; nothing when there is none.
    std::optional<uint16_t> find(std::string_view word) const;
    /// `1 (lan), 2 (wan)`, for people.
    std::string text() const;
    uint16_t count() const { return static_cast<uint16_t>(names_.size()); }

private:
    std::vector<std::string> names_;
    std::map<uint32_t, uint16_t> by_number_;
};

}  // namespace millrace::nf::flow_switch
