// A configuration file: ports, chains, and which packets go to which chain.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/base/text/config.hpp"
#include "millrace/base/files/file_ledger.hpp"
#include "millrace/chain/classification/classification.hpp"
#include "millrace/base/device_names.hpp"
#include "millrace/chain/linux_ports.hpp"
#include "millrace/chain/program.hpp"
#include "millrace/chain/promises/promise.hpp"
#include "millrace/chain/siblings.hpp"
#include "millrace/chain/tenants/tenant.hpp"
#include "millrace/schedule/plan.hpp"

namespace millrace::chain {

/// What a worker does when no packets come.
enum class Idle : uint8_t {
    sleep,  ///< until there are some
    poll,   ///< looks for some all the time
};

/// What becomes of a promise that has no room on its device.
enum class Admission : uint8_t {
    refuse,  ///< its chain's configuration, or its tenant, is not let in
    warn,    ///< it is let in all the same
};

/// One generation of everything that a configuration file says. Constant once loaded.
struct Configuration {
    std::string file;
    std::string device = "cpu";  ///< text of `runs_on`
    DeviceNames runs_on = {{}, true};
    Idle idle = Idle::sleep;
    /// Where a run answers to `millrace show`; empty: in its output folder, if nobody else does there; "none": nowhere.
    std::string socket;
    std::string output_folder;            ///< alerts and relative output files go here
    std::vector<std::string> port_names;  ///< by port number, in the order of the file, taps of `linux:` behind them
    std::optional<Config> ports;          ///< the `ports:` map and these taps, for io::make_ports
    std::vector<LinuxPort> linux_ports;   ///< ports with `linux:`
    std::shared_ptr<FileLedger> files;    ///< that it reads and writes, those of `ports` once they are planned in its
                                          ///< scope
    std::vector<std::shared_ptr<const Program>> chains;
    std::vector<Promise> promises;                           ///< by chain
    std::vector<Tenant> tenants;                             ///< who may attach
    schedule::Sharing sharing = schedule::Sharing::spatial;  ///< how chains share a device's multiprocessors
    Admission admission = Admission::refuse;
    Classification classification;
    std::shared_ptr<SiblingPlaces> siblings;  ///< its NFs' and those of the generations behind it
    /// The chains that headers decide between, as one program, where a device can hold it (classified.hpp); or null.
    std::shared_ptr<const Program> classified;
    std::vector<Diagnostic> warnings;  ///< of loading it
    Reporter reporter;                 ///< what its NFs tell while they work; all generations share it
    uint64_t generation = 1;

    const Program* find_chain(std::string_view name) const;
};

/// What the command line may override, and what the generation before hands on.
struct LoadOptions {
    std::string device;                       ///< see parse_device_names; empty: as the file says
    std::string output_folder;                ///< empty: as the file says
    bool live = false;                        ///< packets will flow (nf::Environment::live)
    bool load_plugins = true;                 ///< whether code of plugins that the file names may run
    unsigned lanes = 0;                       ///< 0: as each NF prefers; else one of nf::kLaneCounts for all
    const Configuration* previous = nullptr;  ///< its NFs of the same chain, name and kind hand their state on
    std::function<void(const std::string& what, size_t done, size_t of)> progress;  ///< while NFs load
};

/// Reads and checks a configuration file and makes every NF. Throws ConfigError with every mistake
/// that was found, not only the first.
Configuration load_configuration(const std::string& path, const LoadOptions& options = {});
/// The same from a text; `file` names it in errors and anchors relative paths.
Configuration parse_configuration(const std::string& text, const std::string& file, const LoadOptions& options = {});

}  // namespace millrace::chain
