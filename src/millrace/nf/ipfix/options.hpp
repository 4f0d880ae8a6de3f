// What a configuration says of an `ipfix`.
#pragma once

#include <string>

#include "millrace/nf/state/keyed_table.hpp"

namespace millrace::nf::ipfix {

/// Where messages go, and how often collectors are told what their records mean.
struct ExportOptions {
    std::string host, port;  ///< of the collector; empty: there is none
    std::string file;        ///< in its place
    uint32_t domain = 0;     ///< observation domain
    uint64_t template_refresh_ns = 60'000'000'000;
    uint64_t template_messages = 1000;  ///< at least every so many messages
    uint32_t mtu = 1500;                ///< of the way to the collector: no packet is longer
    Location where;                     ///< of the collector or file
    bool same_as(const ExportOptions& other) const;
    std::string target() const;  ///< for people: the collector or the file
};

struct Options {
    KeyedOptions flows;  ///< its time-out is that of idle flows
    uint64_t active_ns = 0;
    ExportOptions to;
};

/// Throws ConfigError. `output_folder`: of files.
Options read_options(const Config& options, const std::string& output_folder);

}  // namespace millrace::nf::ipfix
