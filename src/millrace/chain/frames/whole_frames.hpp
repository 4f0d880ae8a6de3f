// Chains without a field plan: what the plan saves is measured against them.
#pragma once

#include "millrace/chain/configuration.hpp"

namespace millrace::chain {

/// The same configuration with chains that bring every byte of a packet to a device, and back if they change any.
Configuration with_whole_frames(Configuration configuration);

}  // namespace millrace::chain
