// The NF's options in YAML.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "millrace/nf/nf.hpp"
#include "millrace/nf/nids/flows/options.hpp"
#include "millrace/nf/nids/pattern/cpu/matcher.hpp"
#include "millrace/nf/nids/rules/rule_files.hpp"

namespace millrace::nf::nids {

struct Options {
    std::vector<Rule> rules;         ///< of all files and texts, in their order, those that are disabled left out
    std::vector<Diagnostic> broken;  ///< rules left out as `on-error: skip` asks
    size_t disabled = 0;
    Classifications classes;
    bool ips = false;
    pattern::Engine engine = pattern::Engine::automatic;
    std::string eve;     ///< path
    std::string report;  ///< path; empty: none
    FlowOptions flows;
};

/// Reads the options and all files that they name. Throws ConfigError with every mistake that was found.
Options read_options(const Config& options, const Environment& environment);

}  // namespace millrace::nf::nids
