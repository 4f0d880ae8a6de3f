// Chains without a field plan: what the plan saves is measured against them.
#pragma once

#include "millrace/chain/configuration.hpp"

namespace millrace::lab {

/// The same configuration with chains that bring every byte of a packet to a device, and back if they change any.
chain::Configuration with_whole_frames(chain::Configuration configuration);

}  // namespace millrace::lab
