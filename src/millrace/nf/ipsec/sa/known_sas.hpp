// What no two security associations of a gateway may share.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "millrace/nf/ipsec/options.hpp"

namespace millrace::nf::ipsec {

/// The SAs that were read so far: by name, and by all that a packet or a keystream tells them apart by.
class KnownSas {
public:
    KnownSas() = default;
    ~KnownSas();
    KnownSas(const KnownSas&) = delete;
    KnownSas& operator=(const KnownSas&) = delete;

    /// Refuses the last of `sas` if an earlier one clashes with it (ConfigError); else it counts as known.
    void add(const std::vector<SaOptions>& sas);
    /// Indexes by name.
    const std::unordered_map<std::string, uint32_t>& by_name() const { return by_name_; }

private:
    std::unordered_map<std::string, uint32_t> marks_, by_name_;
};

}  // namespace millrace::nf::ipsec
