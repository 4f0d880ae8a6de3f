// How flows are followed, as the configuration says it.
#pragma once

#include <optional>

#include "millrace/nf/nids/flows/flow.hpp"
#include "millrace/nf/state/keyed_table.hpp"

namespace millrace::nf::nids {

struct FlowOptions {
    bool followed = true;  ///< where rules ask for flows; else one packet tells
    KeyedOptions table;
    FlowRules rules;
};

/// Reads the option `flows`, if it is there. Throws ConfigError.
FlowOptions read_flow_options(const std::optional<Config>& given);

}  // namespace millrace::nf::nids
