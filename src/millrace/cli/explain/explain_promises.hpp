// How chains with promises share a device.
#pragma once

#include <memory>
#include <string>

#include "millrace/chain/promises/shared_device.hpp"
#include "millrace/schedule/profile.hpp"

namespace millrace::cli {

/// What was measured of chains on the device that a configuration names; null where it has no promises, or no device,
/// or nobody has measured.
std::shared_ptr<const schedule::Profile> known_profile(const chain::Configuration& configuration);

/// The workers of a run: as many as were asked for, and one for each device at least.
unsigned workers_of(const chain::Configuration& configuration, unsigned asked);

/// How the chains of a configuration share the device that it names, by what was measured of them there, with those
/// tenants. Throws ConfigError for promises that have no room; warns of those that nobody knows of, and of those that
/// the file admits all the same. `workers`: of the run.
chain::SharedDevice planned(const chain::Configuration& configuration, unsigned workers,
                            const chain::TenantsOnDevice& present = {});

/// The same as a table; empty where nothing was promised.
std::string promises_text(const chain::Configuration& configuration, unsigned workers);

}  // namespace millrace::cli
