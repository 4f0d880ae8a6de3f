// Network functions that judge whole packets, and not fragments of them.
#pragma once

namespace millrace::nf {

/// A NetworkFunction derives from it, too, when what it looks for may lie in any fragment of a packet: ports, payload.
/// Chains with such functions put fragments together where `reassemble:` asks for it.
class WantsWholePackets {
public:
    virtual ~WantsWholePackets() = default;
    /// Whether it does with these tables.
    virtual bool needs_whole_packets() const { return true; }
};

}  // namespace millrace::nf
