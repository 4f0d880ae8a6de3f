// What a configuration file says at its top level of how chains are run.
#pragma once

#include "millrace/chain/configuration.hpp"

namespace millrace::chain {

/// Each reads its key of `root`, if that is there. Throws ConfigError.
void read_devices(const Config& root, const LoadOptions& options, Configuration& result);
void read_idle(const Config& root, Configuration& result);
void read_sharing(const Config& root, Configuration& result);
void read_admission(const Config& root, Configuration& result);
/// Behind the output folder.
void read_socket(const Config& root, Configuration& result);

}  // namespace millrace::chain
