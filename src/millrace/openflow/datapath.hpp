// What an OpenFlow agent works on: a switch, and the ports and workers around it.
#pragma once

#include <array>
#include <memory>

#include "millrace/nf/switch/control/control.hpp"
#include "millrace/openflow/wire/bytes.hpp"

namespace millrace::openflow {

namespace flow_switch = nf::flow_switch;

/// A port as OpenFlow describes it, with what it has counted.
struct PortView {
    uint32_t number = 0;
    std::string name;
    std::array<uint8_t, 6> mac{};
    bool up = true;
    uint32_t speed_mbps = 0;  ///< 0: not known
    uint64_t received_packets = 0, received_bytes = 0, sent_packets = 0, sent_bytes = 0;
    uint64_t receive_drops = 0, send_drops = 0, receive_errors = 0, send_errors = 0;
};

/// Packets that were looked up, and those that a flow matched.
struct Lookups {
    uint64_t all = 0, matched = 0;
};

class Datapath {
public:
    virtual ~Datapath() = default;
    virtual flow_switch::Control& control() = 0;
    /// Those with a number, in its order.
    virtual std::vector<PortView> ports() const = 0;
    virtual Lookups lookups() const = 0;
    /// A controller waits for its changes to be at work: brings them in where it can, else has another thread do it.
    /// Throws nothing.
    virtual void hurry() {}
    /// Sends a packet by a port or a set of them; or, by kNoPort, runs it through the chain as if it had come in by
    /// `in_port`, an index or kNoPort. False when there is no room.
    virtual bool inject(ByteView frame, uint16_t in_port, uint16_t out_port) = 0;
};

}  // namespace millrace::openflow
