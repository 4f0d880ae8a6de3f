#include "millrace/io/ring_port.hpp"

#include <rte_errno.h>

#include <bit>
#include <optional>
#include <stdexcept>

#include "millrace/io/port_plan.hpp"

namespace millrace::io {

RingWire::RingWire(uint16_t queues, uint32_t slots)
    : queues_(queues), readers_(std::make_unique<WakeEvent[]>(size_t{2} * queues)) {
    static std::atomic<unsigned> number{0};
    for (unsigned i = 0; i < 2u * queues; ++i) {
        const std::string name = "wire." + std::to_string(number++);
        rte_ring* ring = rte_ring_create(name.c_str(), slots, SOCKET_ID_ANY,
                                         RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
        if (ring == nullptr) throw std::runtime_error(std::string("no ring: ") + rte_strerror(rte_errno));
        rings_.push_back(ring);
    }
}

RingWire::~RingWire() {
    for (rte_ring* ring : rings_) {
        void* mbuf = nullptr;
        while (rte_ring_dequeue(ring, &mbuf) == 0) rte_pktmbuf_free(static_cast<rte_mbuf*>(mbuf));
        rte_ring_free(ring);
    }
}

void RingWire::close(unsigned end) {
    closed_[end].store(true, std::memory_order_release);
    for (uint16_t queue = 0; queue < queues_; ++queue) reader(1 - end, queue).wake();
}

RingPort::RingPort(PortInfo info, std::shared_ptr<RingWire> wire, unsigned end)
    : Port(std::move(info)), wire_(std::move(wire)), end_(end) {}

uint16_t RingPort::receive(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
    const auto n = static_cast<uint16_t>(
        rte_ring_sc_dequeue_burst(wire_->ring(end_, queue), reinterpret_cast<void**>(mbufs), count, nullptr));
    uint64_t bytes = 0;
    for (uint16_t i = 0; i < n; ++i) {
        bytes += rte_pktmbuf_pkt_len(mbufs[i]);
        mbufs[i]->port = info_.index;
    }
    if (n != 0) receiving(queue).count(n, bytes);
    return n;
}

uint16_t RingPort::send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
    rte_ring* ring = wire_->ring(1 - end_, queue);
    const auto room = static_cast<uint16_t>(std::min<unsigned>(rte_ring_free_count(ring), count));
    uint64_t bytes = 0;
    for (uint16_t i = 0; i < room; ++i) bytes += rte_pktmbuf_pkt_len(mbufs[i]);
    // One producer: what was free a moment ago is free still.
    rte_ring_sp_enqueue_bulk(ring, reinterpret_cast<void* const*>(mbufs), room, nullptr);
    if (room == 0) return 0;
    wire_->reader(1 - end_, queue).wake();
    sending(queue).count(room, bytes);
    return room;
}

bool RingPort::exhausted() const {
    // The order matters: a peer that is seen closed has enqueued all it ever will.
    if (!wire_->is_closed(1 - end_)) return false;
    for (uint16_t q = 0; q < info_.receive_queues; ++q)
        if (rte_ring_empty(wire_->ring(end_, q)) == 0) return false;
    return true;
}

struct RingPlans::State {
    struct Ring {
        std::vector<Config> ends;
        uint16_t queues = 0;
        uint32_t slots = 0;
        std::weak_ptr<RingWire> wire;
    };
    std::map<std::string, Ring> rings;
};

RingPlans::RingPlans() : state_(std::make_shared<State>()) {}
RingPlans::~RingPlans() = default;

OpenPort RingPlans::plan(const PortPlan& plan) {
    plan.only({"slots", "linux"});
    const std::string ring_name = plan.value.text();
    State::Ring& ring = state_->rings[ring_name];
    if (ring.ends.size() == 2)
        plan.value.fail("the ring '" + ring_name + "' has two ends already", "give this pair a name of its own");
    const auto slots = static_cast<uint32_t>(plan.options.integer_or("slots", 4096, 1, 1 << 20));
    if (ring.ends.size() == 1 && (ring.queues != plan.queues || ring.slots != slots))
        plan.value.fail("the two ends of ring '" + ring_name + "' differ in queues or slots", "give both the same");
    ring.queues = plan.queues;
    ring.slots = slots;
    const auto end = static_cast<unsigned>(ring.ends.size());
    ring.ends.push_back(plan.value);
    PortInfo info = plan.info;
    info.detail = ring_name;
    info.receive_queues = info.send_queues = plan.queues;
    info.mtu = 65535;
    return [state = state_, info, ring_name, end]() -> std::unique_ptr<Port> {
        State::Ring& made = state->rings.at(ring_name);
        std::shared_ptr<RingWire> wire = made.wire.lock();
        if (!wire) {
            wire = std::make_shared<RingWire>(made.queues, made.slots);
            made.wire = wire;
        }
        return std::make_unique<RingPort>(info, wire, end);
    };
}

void RingPlans::check_pairs() const {
    for (const auto& [name, ring] : state_->rings)
        if (ring.ends.size() == 1)
            ring.ends[0].fail("the ring '" + name + "' has one end only",
                              "give a second port the line 'ring: " + name + "'");
}

}  // namespace millrace::io
