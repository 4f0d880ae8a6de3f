// What `millrace profile --chain` has measured of chains on a model of GPU, kept from one run to the next.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "millrace/schedule/plan.hpp"

namespace millrace::schedule {

struct ChainProfile {
    std::string functions;   ///< the chain's `nfs:`, as Config::written() has it: what it was measured with
    double frame_bytes = 0;  ///< of the packets
    Model model;
    std::vector<ProfilePoint> points;
};

struct Profile {
    std::string device;  ///< device::Device::model()
    std::string source;  ///< the file that it was read from
    Gpu gpu;
    std::vector<ChainProfile> chains;

    /// Null where nobody has measured it.
    const ChainProfile* find(const std::string& functions) const;
    /// In place of an earlier one of the same chain.
    void put(ChainProfile chain);
};

std::string profile_json(const Profile& profile);

/// Throws ConfigError, with line and column, when the file is malformed or of another device.
Profile read_profile(const std::string& path, const std::string& model);

/// The file that is kept of `model`; empty without a home.
std::string profile_path(const std::string& model);

/// What is kept of `model`, if anything is. Throws as read_profile does.
std::optional<Profile> profile_of(const std::string& model);

}  // namespace millrace::schedule
