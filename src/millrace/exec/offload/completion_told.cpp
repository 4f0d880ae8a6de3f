// What others are told of the packets of a batch that has come back: events, and what every NF decided.
#include "millrace/exec/offload/completion.hpp"

namespace millrace::exec {

Fate Completion::fate_of(const chain::Program& program, const device::PacketResult& result) {
    const bool known = result.node < program.nodes.size();
    return {target_of(program, result),
            result.node,
            result.out_port,
            {known ? detail_of(result.detail) : kNoDetail, result.outcome}};
}

/// Hands on the batch's events, while the packets are still as they were received.
void Completion::tell_events(const Batch& batch) {
    for (size_t i = 0; i < batch.frames.count; ++i) fates_[i] = fate_of(*batch.chain->program, batch.results()[i]);
    EventPackets packets{fates_.data(), [&](uint32_t i) { return origin_of(batch.mbufs[i]); }, {}};
    if (!batch.frame_runs.empty())
        packets.origin = [&](uint32_t i) {
            auto run = batch.frame_runs.begin();
            for (; i >= run->count; ++run) i -= run->count;
            return Origin{run->number(i), run->timestamp_ns(i), run->port};
        };
    packets.as_seen = [&](const LeftEvents& left) {
        Packet packet;
        uint8_t* const frame = left.offset != LeftEvents::kNotKept
                                   ? batch.kept + left.offset
                                   : reinterpret_cast<uint8_t*>(batch.source_of(left.packet));
        packet.attach(frame, left.length, left.present, 0, 0);
        packet.set_in_port(batch.descriptors()[left.packet].in_port);
        packet.parse();
        return packet;
    };
    batch.chain->teller->deliver({batch.events(), batch.stored_events()}, {batch.left, batch.left_count()},
                                 *batch.chain->counters, packets);
}

/// Tells what every NF decided on each packet of the batch.
void Completion::tell_visits(const Batch& batch) {
    const size_t n = batch.frames.count;
    for (size_t i = 0; i < n; ++i) {
        if (batch.results()[i].node == device::kHostDecides) continue;
        visits_.clear();
        for (uint16_t node = 0; node < batch.chain->program->nodes.size(); ++node) {
            const Decision decision = batch.visits[size_t{node} * n + i];
            if (decision.outcome != device::kNotVisited) visits_.push_back({node, decision});
        }
        if (!visits_.empty()) fates_[i].decision.detail = visits_.back().decision.detail;
        delivery_.visits(*batch.chain->program, batch.mbufs[i], visits_, fates_[i]);
    }
}

}  // namespace millrace::exec
