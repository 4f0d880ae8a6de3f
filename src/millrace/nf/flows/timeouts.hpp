// How long connections are remembered, by kind, as a configuration says it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "millrace/base/text/config.hpp"

namespace millrace::nf::flows {

struct Timeout {
    const char* name;  ///< of the option
    uint32_t kind;
    uint64_t seconds;  ///< unless it is given
};

/// Fills `kept_ns`, by kind, with the time-outs that a map gives, and with the usual ones.
void read_timeouts(const std::optional<Config>& given, std::span<const Timeout> all, uint64_t* kept_ns);

}  // namespace millrace::nf::flows
