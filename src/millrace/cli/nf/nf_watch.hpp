// millrace nf watch: from a saved file to packets.
#pragma once

#include <string>

namespace millrace::cli {

struct WatchArguments {
    std::string plugin;
    std::string table;          ///< golden packets to try it on; may be empty
    std::string configuration;  ///< of a chain that runs it; may be empty
    std::string device;         ///< of that chain; empty: what the file says
};

/// Builds a plugin whenever its sources change, tries it on a table of golden packets, and brings it into a running
/// chain, until SIGINT, SIGTERM or SIGHUP. A build or a table that fails leaves the chain as it is. Returns the exit
/// status. Throws std::runtime_error where the plugin has no build, or files can't be watched.
int watch_nf(const WatchArguments& arguments);

}  // namespace millrace::cli
