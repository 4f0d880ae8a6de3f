// What both sides of the framework benchmark work on: the chain, its tables and its traffic.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/io/traffic.hpp"

namespace millrace::bench {

struct Hop {
    const char* name;
    std::array<uint8_t, 6> mac;
    std::array<uint8_t, 6> src_mac;
};

/// The chain firewall -> NIDS -> router -> IPsec as plain facts. The chain under test gets them as YAML, the bare
/// loop as they are.
struct Workload {
    std::string folder;                 ///< of the examples
    std::string scratch;                ///< a folder for the files that are made
    std::string text_file;              ///< what payloads are made of
    std::string text_name, pattern_name;///< for people
    std::vector<std::string> patterns;  ///< raw bytes, found in either case
    std::vector<bool> pattern_drops;    ///< whether it drops packets that hold no other; else it lets them pass
    std::vector<Hop> hops;
    std::string default_hop;
    std::array<uint8_t, 16> key;
    std::array<uint8_t, 20> auth_key;
    std::array<uint8_t, 4> nonce;
    std::array<uint8_t, 4> local, remote;  ///< tunnel addresses
    uint32_t spi = 0x1001;

    std::string firewall_file() const { return folder + "/firewall.rules"; }
    std::string route_file() const { return folder + "/routes.txt.xz"; }
};

/// The same on every call. Real patterns and payload from `data` where it is there, else generated ones.
/// Writes the NIDS rules (and generated payload) into `scratch`.
Workload make_workload(const std::string& examples, const std::string& data, const std::string& scratch);

/// The `source` port's options for frames of `bytes`, on one line.
std::string source_options(const Workload& workload, uint32_t bytes);
/// The same frames as the source port makes of them.
io::TrafficFrames traffic(const Workload& workload, uint32_t bytes);

/// A configuration of source, sink and the chain, or of an empty chain. `keep` frames stay in the sink.
std::string chain_yaml(const Workload& workload, uint32_t bytes, bool empty, size_t keep);

}  // namespace millrace::bench
