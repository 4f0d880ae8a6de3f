// What the switch shows of its flows.
#pragma once

#include "millrace/nf/shown.hpp"
#include "millrace/nf/switch/control/control.hpp"

namespace millrace::nf::flow_switch {

/// All flows, in order, with what they have counted.
ShownTable show_flows(const Control& control, size_t most);

}  // namespace millrace::nf::flow_switch
