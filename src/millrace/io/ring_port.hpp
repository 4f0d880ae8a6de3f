// Two ports that are wired to each other inside the process.
#pragma once

#include <rte_ring.h>

#include <atomic>
#include <memory>
#include <vector>

#include "millrace/io/port.hpp"
#include "millrace/io/wake_event.hpp"

namespace millrace::io {

/// The wire between the two ends: a lock-free ring per queue and direction.
class RingWire {
public:
    /// `slots` packets fit into each ring (a power of two).
    RingWire(uint16_t queues, uint32_t slots);
    ~RingWire();
    RingWire(const RingWire&) = delete;
    RingWire& operator=(const RingWire&) = delete;
    /// The ring that the end `to` (0 or 1) reads on `queue`.
    rte_ring* ring(unsigned to, uint16_t queue) const { return rings_[to * queues_ + queue]; }
    /// Wakes who reads there.
    WakeEvent& reader(unsigned to, uint16_t queue) { return readers_[to * queues_ + queue]; }
    /// That end sends no more.
    void close(unsigned end);
    bool is_closed(unsigned end) const { return closed_[end].load(std::memory_order_acquire); }

private:
    uint16_t queues_;
    std::vector<rte_ring*> rings_;
    std::unique_ptr<WakeEvent[]> readers_;
    std::atomic<bool> closed_[2]{};
};

/// One end. What one end sends the other receives, in order, as the same mbuf with the same metadata
/// (nothing is copied). An end is exhausted once the other is closed and all it sent was received.
/// Packets that nobody fetched are freed with the wire.
class RingPort : public Port {
public:
    RingPort(PortInfo info, std::shared_ptr<RingWire> wire, unsigned end);
    ~RingPort() override { close(); }
    uint16_t receive(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    uint16_t send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    void begin_sleep(uint16_t queue, WakeUps& wake_ups) override { wake_ups.on(wire_->reader(end_, queue).prepare()); }
    void end_sleep(uint16_t queue) override { wire_->reader(end_, queue).done(); }
    bool exhausted() const override;
    LinkState link() const override { return {.up = !wire_->is_closed(1 - end_)}; }
    void close() override { wire_->close(end_); }

private:
    std::shared_ptr<RingWire> wire_;
    unsigned end_;
};

}  // namespace millrace::io
