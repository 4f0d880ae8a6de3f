// Cuts packets into fragments, by the RFCs' text and not by the product's code, and drives a Reassembler.
#pragma once

#include <memory>
#include <vector>

#include "millrace/exec/fragments/reassembler.hpp"
#include "support/engine_runner.hpp"

namespace millrace::test {

/// A UDP packet over IPv4 or IPv6 without options, with `payload` bytes, no two packets' alike.
Frame udp_packet(bool ipv6, size_t payload, uint32_t seed);

/// The bytes [from, to) of what follows the IP header, as a fragment. The packet has no VLAN tag, options or extension
/// headers.
Frame fragment_of(const Frame& packet, size_t from, size_t to, uint32_t id);
/// All of it, cut at these places (multiples of 8, rising).
std::vector<Frame> fragments_of(const Frame& packet, const std::vector<size_t>& cuts, uint32_t id);
/// The same with `each` bytes a fragment.
std::vector<Frame> fragments_of(const Frame& packet, size_t each, uint32_t id);
/// Bytes behind the IP header.
size_t fragmentable_bytes(const Frame& packet);

/// A Reassembler with counters and buffers of its own; checks after every step that it conserves packets.
class ReassemblyRun {
public:
    explicit ReassemblyRun(chain::Reassembly limits = {}, uint32_t buffers = 0);
    ~ReassemblyRun();
    /// The whole packet if this completes one, else nothing. The frame must be a fragment.
    Frame add(const Frame& fragment, uint64_t at_ns = 1, uint16_t port = 0);
    /// All whole packets, in the order in which they became so.
    std::vector<Frame> add_all(const std::vector<Frame>& fragments);
    uint64_t dropped(exec::FragmentDrop reason) const {
        return counters->fragment_drops[static_cast<size_t>(reason)].get();
    }
    uint64_t dropped() const;
    void check() const;

    chain::Configuration configuration;
    std::unique_ptr<exec::ChainCounters> counters;
    std::unique_ptr<exec::WholePackets> buffers;
    std::unique_ptr<exec::Reassembler> reassembler;
    uint64_t added = 0, whole = 0, added_bytes = 0, whole_bytes = 0;
    exec::WholeMark last_mark;
};

}  // namespace millrace::test
