// Names in a configuration: what may be one, and what one stands for. All throw ConfigError where that is nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/base/text/config.hpp"
#include "millrace/chain/program.hpp"

namespace millrace::chain {

/// The name that `config` gives to `what`, such as "a port".
std::string name_of(const Config& config, const char* what);
/// `where` gives this name to another network function of the chain.
void check_name(const Program& program, const std::string& name, const Config& where);
/// Which of `known` is `name`; a mistake at `value` if none is.
uint16_t index_of(const Config& value, const std::string& name, const std::string& what,
                  const std::vector<std::string>& known);
/// A hint for a name that nothing has: one that is written much like it, or all that there are.
std::string near_or_all(const std::string& word, const std::vector<std::string>& known);

struct KnownNames {
    const std::vector<std::string>& ports;
    const std::vector<std::string>& chains;
};
/// Where `where`, a line under `on:` of the function at `index`, leads. `next`: where packets go on to from there.
Target read_target(const Program& program, size_t index, const Config& where, Target next, const KnownNames& names);

}  // namespace millrace::chain
