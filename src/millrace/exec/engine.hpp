// What a worker runs chains with: in place on its own core, or on a device.
#pragma once

#include <rte_mbuf.h>

#include <memory>
#include <span>

#include "millrace/exec/counters.hpp"
#include "millrace/exec/fate.hpp"

namespace millrace::exec {

/// What every NF that saw a packet decided, in order, for those who want to know (`--verdicts`).
struct Visit {
    uint16_t node;
    Decision decision;
};

/// Takes the packets that have gone through a chain. Called by the engine, on the worker's thread.
class Delivery {
public:
    virtual ~Delivery() = default;
    /// `fates[i]` belongs to `mbufs[i]`; owns the mbufs from here on.
    virtual void deliver(const chain::Program& program, ChainCounters& counters, rte_mbuf* const* mbufs, const Fate* fates,
                         size_t count) = 0;
    /// Whether `visits` is to be called.
    virtual bool wants_visits() const { return false; }
    /// Before `deliver`: who saw the packet.
    virtual void visits(const chain::Program&, rte_mbuf*, std::span<const Visit>, const Fate&) {}
};

/// Runs programs. One object per worker; all calls on the worker's thread.
class Engine {
public:
    virtual ~Engine() = default;
    /// Takes `count` packets into a chain. They reach `Delivery` in this order, now or in a later call.
    virtual void submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                        size_t count) = 0;
    /// Moves on what is under way. Never blocks.
    virtual void poll() = 0;
    /// Packets taken in and not delivered.
    virtual size_t in_flight() const = 0;
    /// Finishes everything that is under way, waiting if need be.
    virtual void drain() = 0;
    virtual std::string describe() const = 0;
};

/// Frame bytes of an mbuf as a packet; the mbuf is one segment.
inline void attach_mbuf(Packet& packet, rte_mbuf* mbuf) {
    packet.attach(rte_pktmbuf_mtod(mbuf, uint8_t*), mbuf->data_len, mbuf->data_len, rte_pktmbuf_headroom(mbuf),
                  rte_pktmbuf_tailroom(mbuf));
    packet.set_in_port(mbuf->port);
    packet.set_out_port(kNoPort);
}

/// Makes the mbuf what the packet has become.
inline void update_mbuf(rte_mbuf* mbuf, const Packet& packet) {
    mbuf->data_off = static_cast<uint16_t>(packet.data() - static_cast<uint8_t*>(mbuf->buf_addr));
    mbuf->data_len = static_cast<uint16_t>(packet.length());
    mbuf->pkt_len = packet.length();
}

}  // namespace millrace::exec
