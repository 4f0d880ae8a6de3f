// Network functions that choose the port that a packet leaves by.
#pragma once

namespace millrace::nf {

/// A NetworkFunction derives from it, too, when it may name a port (Packet::set_out_port): packets that reach their
/// chain's output leave by that port.
class NamesPorts {
public:
    virtual ~NamesPorts() = default;
    /// Whether it may with these tables.
    virtual bool names_ports() const { return true; }
};

}  // namespace millrace::nf
