// What chains and tenants are promised. Whether a device has room for it: shared_device.hpp.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "millrace/base/text/config.hpp"

namespace millrace::chain {

struct Program;

/// `rate:`, `latency:` and `weight:` of a chain.
struct Promise {
    double rate = 0;                     ///< packets a second; 0: none
    std::chrono::nanoseconds latency{};  ///< from arrival to departure, up to that rate; 0: none
    unsigned weight = 1;                 ///< its part of what promises leave over
    std::optional<Config> nfs;           ///< the chain's `nfs:`
    Location where;                      ///< of the rate

    bool made() const { return rate > 0; }
    /// The chain's `nfs:` as Config::written() has it, by which profiles know it. Takes long where tables are large.
    std::string functions() const { return nfs ? nfs->written() : std::string(); }
    /// "20000 packets a second within 200 ms"
    std::string text() const;
};

/// Reads the keys of a chain's options. Throws ConfigError.
Promise read_promise(const Config& chain);

/// Throws ConfigError where what a chain's tenants were promised, or the patience with them, makes it break its own
/// promise.
void check_tenants_promises(const Promise& promise, const Program& chain);

}  // namespace millrace::chain
