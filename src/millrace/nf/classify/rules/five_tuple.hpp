// A match on the five-tuple as people write it: lists of prefixes, ports and protocols.
#pragma once

#include <vector>

#include "millrace/base/text/config.hpp"
#include "millrace/nf/classify/key.hpp"
#include "millrace/nf/classify/rules/words.hpp"

namespace millrace::nf::classify {

/// Matches a packet that is in one of the prefixes, ports and protocols of every list; an empty list
/// matches anything. IPv4 prefixes match IPv4 packets only, IPv6 prefixes IPv6 packets only. Packets
/// without ports (ICMP, later fragments, …) match only where all ports match. A packet that is not
/// IP matches only when every list is empty.
struct FiveTupleMatch {
    std::vector<Prefix> src, dst;
    std::vector<PortRange> src_ports, dst_ports;
    std::vector<ByteMatch> protocols;

    /// The keys that `parse` reads: src, dst, protocol, src-port, dst-port. Each takes one value or a list.
    static const std::vector<std::string>& keys();
    /// Reads those keys of a YAML map, and leaves other keys to the caller. Throws ConfigError.
    static FiveTupleMatch parse(const Config& map);

    bool empty() const {
        return src.empty() && dst.empty() && src_ports.empty() && dst_ports.empty() && protocols.empty();
    }
    bool matches(const HeaderKey& key) const;
    /// The packet must have been parsed.
    bool matches(const Packet& packet) const { return matches(key_of(packet)); }
};

/// Whether an address, given as HeaderKey holds it, lies in `prefix`. The families must be the same.
bool contains(const Prefix& prefix, uint64_t high, uint64_t low);
/// The first and the last eight bytes of a prefix as numbers, as HeaderKey holds addresses.
uint64_t high_half(const Prefix& prefix);
uint64_t low_half(const Prefix& prefix);

}  // namespace millrace::nf::classify
