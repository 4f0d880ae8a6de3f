// The SAs among the options, read from YAML and checked.
#pragma once

#include "millrace/nf/ipsec/sa/known_sas.hpp"

namespace millrace::nf::ipsec {

/// Reads `sas` and the file of their keys. Throws ConfigError; no error shows key material.
void read_sas(Options& result, KnownSas& known, const Config& options, const Environment& environment);

Address address_of(const Prefix& prefix);

}  // namespace millrace::nf::ipsec
