// What benchmarks work on: the tables of the built-in chains, and their traffic.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "millrace/io/source/traffic.hpp"

namespace millrace::lab {

/// Of the IPsec gateway. Those of 256 bits come with HMAC-SHA-256-128, those of GCM with extended sequence numbers.
inline const std::vector<std::string> kCiphers = {"aes-128-ctr", "aes-256-ctr", "aes-128-cbc",
                                                  "aes-256-cbc", "aes-128-gcm", "aes-256-gcm"};

struct WorkloadOptions {
    std::string data = {};      ///< a folder as docs/data.md describes; what it lacks is made up. Empty: all is
    std::string examples = {};  ///< the folder of the examples, for their smaller rule set and routes in place of
                                ///< `data`'s; or empty
    std::string scratch = {};   ///< a folder for the files that are made
    bool many_rules = false;    ///< about 10,000 rules for the firewall in place of about 1,000
    size_t patterns = 0;        ///< of the NIDS, at most; 0: all of about 3,000
    std::vector<std::string> nids_rules = {};  ///< files of Snort and Suricata rules for the NIDS in place of patterns
    std::string nids_flows = "none";  ///< what the NIDS keeps of flows: none, flows, streams, as it does unless
                                      ///< told otherwise, or messages
    std::string payload = "http";     ///< http, capture or random
    uint32_t flows = 65536;
    std::string popularity = "even";  ///< of the flows: even or zipf
    uint32_t tunnels = 1;             ///< of the IPsec gateway, by destination: a power of two, up to kMaxTunnels
    std::string cipher = kCiphers[0];
};
inline constexpr uint32_t kMaxTunnels = 16384;

/// A next hop of the router.
struct Hop {
    std::string name;
    std::array<uint8_t, 6> mac;
    std::array<uint8_t, 6> src_mac;
};

/// The built-in chains' tables as plain facts, so that others can build the same from them.
struct Workload {
    std::string scratch;
    std::string rules_file;               ///< of the firewall, whose default is to permit
    bool classbench = false;              ///< the file's format, and all rules permit; else text
    std::vector<std::string> patterns;    ///< of the NIDS, one a rule: raw bytes, found in either case
    std::vector<bool> pattern_drops;      ///< whether it drops packets that hold no other; else it lets them pass
    std::vector<std::string> nids_rules;  ///< the files of its rules: those of the patterns, or the user's
    std::string nids_flows;               ///< as in the options
    std::string route_file;  ///< prefixes, each with the name of a hop, or without: hops are then chosen by hash
    std::vector<Hop> hops;
    std::string default_hop;
    std::string cipher;           ///< one of kCiphers
    std::array<uint8_t, 16> key;  ///< of the tunnels: AES-128-CTR and HMAC-SHA1
    std::array<uint8_t, 20> auth_key;
    std::array<uint8_t, 4> nonce;
    std::array<uint8_t, 32> long_key, long_auth_key;  ///< in place of them where ciphers want more
    std::array<uint8_t, 4> local, remote;
    uint32_t spi = 0x1001;  ///< of the first tunnel; each further one's is one more, and its nonce's last bytes differ
                            ///< by its number
    uint32_t tunnels = 1;
    std::string payload;              ///< as a source port's `payload:`
    std::array<uint8_t, 4> dst_from;  ///< the prefix of destinations: its first address
    unsigned dst_bits = 0;            ///< and its length
    uint32_t flows = 0;
    std::string popularity;
    std::string rules_name, pattern_name, route_name, payload_name;  ///< for people
};

/// The same on every call with the same options. Writes the NIDS rules, and what it makes up, into the scratch folder.
/// Throws std::invalid_argument for tunnels that are no power of two up to kMaxTunnels.
Workload make_workload(const WorkloadOptions& options);

/// What a source sends: frames of one size (`64`), `imix`, or those of a capture.
struct Traffic {
    std::string size = "64";
    std::string replay = {};  ///< a capture's file; empty: frames are made
    double rate = 0;          ///< packets a second; 0: as fast as it is asked
    std::string text() const { return replay.empty() ? size : replay; }
};

/// The `source` port's own options, on one line.
std::string source_options(const Workload& workload, const Traffic& traffic);
/// The frames that a source port with `queues` queues makes of them for one.
io::TrafficFrames frames_of(const Workload& workload, const Traffic& traffic, unsigned queue = 0, unsigned queues = 1);

/// A chain of `kinds` ("firewall", "nids", "router", "ipsec", "mirror", "crc") from port `in` to port `out`, with the
/// ports that `ports` is the YAML of. Throws std::invalid_argument for a kind without built-in tables.
struct ChainOptions {
    std::vector<std::string> kinds;
    std::string device = "cpu";
    uint32_t max_batch = 16384;
    std::string max_delay = "100us";
    unsigned chains = 1;  ///< equal ones; more than one share the packets by their source ports
};
std::string chain_yaml(const Workload& workload, const ChainOptions& options, const std::string& ports);

}  // namespace millrace::lab
