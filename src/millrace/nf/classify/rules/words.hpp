// The words of rules (addresses, ports, protocols, TCP flags, connections), from text and back.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/base/text/prefix.hpp"
#include "millrace/nf/classify/key.hpp"

namespace millrace::nf::classify {

/// A word that does not say what it should. `offset` is the place in the text that was handed over.
struct WordMistake {
    size_t offset = 0;
    std::string message;
    std::string hint;
};

/// Ports from `low` to `high`, both included.
struct PortRange {
    uint16_t low = 0;
    uint16_t high = 0xffff;

    /// All ports: the only range that a packet without ports is in.
    bool any() const { return low == 0 && high == 0xffff; }
    bool contains(uint16_t port) const { return low <= port && port <= high; }
    friend bool operator==(const PortRange&, const PortRange&) = default;
};

/// The bytes `b` with `(b & mask) == value`. Bits of `value` outside of `mask` are zero.
struct ByteMatch {
    uint8_t value = 0;
    uint8_t mask = 0;

    bool any() const { return mask == 0; }
    bool contains(uint8_t byte) const { return (byte & mask) == value; }
    friend bool operator==(const ByteMatch&, const ByteMatch&) = default;
};

/// Kinds of connections, a bit for each (Connection).
struct ConnectionSet {
    static constexpr uint8_t kAll = (1u << kConnections) - 1;
    uint8_t bits = kAll;

    bool any() const { return bits == kAll; }
    bool contains(Connection connection) const { return (bits >> static_cast<uint8_t>(connection) & 1) != 0; }
    friend bool operator==(const ConnectionSet&, const ConnectionSet&) = default;
};

/// `a.b.c.d/n`, `x::y/n` or an address. Throws WordMistake, also for bits set behind the length.
Prefix parse_address(std::string_view word);
/// `any`, `80` or `8000-8099`. Throws WordMistake.
PortRange parse_ports(std::string_view word);
/// `any`, `ip`, a name such as `tcp`, or a number from 0 to 255. Throws WordMistake.
ByteMatch parse_protocol(std::string_view word);
/// `SET/MASK` in the letters FSRPAUEW, such as `S/SA`: of the flags SYN and ACK, SYN alone is set.
/// Throws WordMistake.
ByteMatch parse_tcp_flags(std::string_view word);
/// `new`, `established`, `related`, `invalid` or `untracked`. Throws WordMistake.
Connection parse_connection(std::string_view word);
/// The set of those in the list; of none, any.
ConnectionSet set_of(const std::vector<Connection>& connections);

std::string ports_text(const PortRange& ports);
std::string protocol_text(const ByteMatch& protocol);
std::string tcp_flags_text(const ByteMatch& flags);
std::string connections_text(const ConnectionSet& connections);

}  // namespace millrace::nf::classify
