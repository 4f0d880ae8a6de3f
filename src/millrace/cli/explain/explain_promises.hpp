// How chains with promises share a device.
#pragma once

#include <memory>
#include <string>

#include "millrace/chain/configuration.hpp"

namespace millrace::cli {

/// What was measured of chains on the device that a configuration names; null where it has no promises, or no device,
/// or nobody has measured.
std::shared_ptr<const schedule::Profile> known_profile(const chain::Configuration& configuration);

/// What is planned for the chains of a configuration, by what was measured of them on the device that it names. Throws
/// ConfigError for promises that can't be kept; warns of those that nobody knows of.
chain::SharedDevice planned(const chain::Configuration& configuration);

/// The same as a table; empty where nothing was promised.
std::string promises_text(const chain::Configuration& configuration);

}  // namespace millrace::cli
