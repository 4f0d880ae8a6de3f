// The load balancer's options.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "millrace/base/text/config.hpp"

namespace millrace::nf::balancer {

struct BackEndOptions {
    std::string name;
    std::optional<Prefix> address;  ///< a single one; nothing: the service's way is `mac`
    uint16_t port = 0;              ///< 0: the service's
    std::optional<std::array<uint8_t, 6>> mac;
    uint16_t out_port;  ///< kNoPort: the chain's output
    unsigned weight = 1;
};

struct ServiceOptions {
    Prefix address;
    uint8_t protocol = 0;  ///< 0: any
    uint16_t port = 0;     ///< 0: any
    bool to_mac = false, by_source = false;
    uint32_t slots = 0;
    std::vector<BackEndOptions> back_ends;
    Location where;

    std::string text() const;  ///< "192.0.2.1:80/tcp"
};

struct Options {
    std::vector<ServiceOptions> services;
    bool follows_errors = true;
    Location where;
};

inline constexpr size_t kMaxServices = 65536, kMaxBackEnds = 65535, kMaxSlots = 1u << 26;
inline constexpr unsigned kMaxWeight = 1000;

/// `ports` are names by number. Throws ConfigError.
Options read_options(const Config& options, const std::vector<std::string>& ports);

}  // namespace millrace::nf::balancer
