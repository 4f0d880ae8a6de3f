// What comes back of packets with mbufs.
#include <rte_eal.h>

#include <algorithm>
#include <cstring>

#include "millrace/exec/offload/finish/completion.hpp"

namespace millrace::exec {

namespace {

/// Copies a frame into its mbuf's own buffer; false when it has no room for it.
bool bring_home(rte_mbuf* mbuf, const uint8_t* frame, uint16_t length, int32_t data_off) {
    if (RTE_MBUF_HAS_EXTBUF(mbuf)) {
        // The buffer is empty, so the frame may lie anywhere in it.
        const uint16_t segment_bytes = io::segment_bytes(mbuf);
        rte_pktmbuf_detach(mbuf);
        if (segment_bytes != 0) io::set_segment_bytes(mbuf, segment_bytes);
        data_off = (mbuf->buf_len - length) / 2;
    }
    if (data_off < 0 || data_off + length > mbuf->buf_len) return false;
    mbuf->data_off = static_cast<uint16_t>(data_off);
    mbuf->data_len = length;
    mbuf->pkt_len = length;
    std::memcpy(rte_pktmbuf_mtod(mbuf, uint8_t*), frame, length);
    return true;
}

}  // namespace

/// Lends the batch's result buffer to all of its packets, if another one is there for the next batch, which it returns;
/// null if all are out, with packets that wait to be sent: then frames are copied home.
ResultBuffer* Completion::lend_buffer(Batch& batch) {
    const BatchInput& input = batch.input();
    // A NIC that wants physical addresses could not send from a result buffer.
    if (input.prefixes.back != chain::kWholeFrame || rte_eal_iova_mode() != RTE_IOVA_VA) return nullptr;
    ResultBuffer* fresh = batch.buffers().spare_buffer();
    if (fresh != nullptr) batch.buffers().result_buffer().lend(static_cast<uint16_t>(input.frames.count));
    return fresh;
}

/// Makes packets [first, first + count) what the device has made of them, and tells their verdicts; those that the host
/// must decide on are put down in retries_.
template <Completion::Return way>
void Completion::apply(Batch& batch, size_t first, size_t count) {
    const BatchInput& input = batch.input();
    constexpr size_t kAhead = 16;  // the last-level cache takes as long as a dozen packets
    const device::PacketResult* const results = batch.results().packets();
    const device::FrameDescriptor* const descriptors = batch.buffers().descriptors();
    rte_mbuf* const* const mbufs = input.mbufs.data();
    const chain::Program& program = *input.chain->program;
    ResultBuffer& buffer = batch.buffers().result_buffer();
    const size_t frames_at = input.piece.frames_at - input.piece.head_at;  // in the result buffer, if whole frames came
                                                                           // back
    const uint32_t headroom = input.frames.room.headroom, tailroom = input.frames.room.tailroom;
    const uint8_t* const heads = batch.results().at(input.piece.heads_at);
    const uint32_t prefix_back = input.prefixes.back;
    BatchInput::Metadata metadata(input, first);
    uint32_t gone = 0;
    Verdict verdict;
    const device::PacketResult* alike = nullptr;  // the result that `verdict` is of
    for (size_t i = first; i < first + count; ++i) {
        if (i + kAhead < input.frames.count) {
            __builtin_prefetch(mbufs[i + kAhead], 1);
            __builtin_prefetch(reinterpret_cast<const uint8_t*>(mbufs[i + kAhead]) + 64, 1);
        }
        const device::PacketResult& result = results[i];
        if (alike == nullptr || !alike->same_verdict(result)) {
            verdict = verdict_of(program, result);
            alike = &result;
        }
        Verdict& own = verdicts_[i - first] = verdict;
        if (result.node() == device::kHostDecides) {
            retries_.push_back(static_cast<uint32_t>(i - first));
            ++gone;
            continue;
        }
        if (verdict.target.kind == Target::Kind::drop) {
            if (result.node() == kParserNode && result.outcome() < kMalformedCount)
                input.chain->counters->of_chain(verdict.decision.detail).malformed[result.outcome()].add(1);
            ++gone;
            continue;
        }
        rte_mbuf* const mbuf = mbufs[i];
        const auto [run, at] = metadata.of(i);
        if (!run->notes.written) io::set_packet_metadata(mbuf, run->notes.timestamp_ns(at), run->notes.number(at));
        const device::FrameDescriptor& descriptor = descriptors[i];
        const int32_t moved = static_cast<int32_t>(result.offset - descriptor.offset);
        if constexpr (way == Return::lent) {
            const int32_t behind = static_cast<int32_t>(descriptor.length + tailroom) - moved -
                                   static_cast<int32_t>(result.length);
            buffer.attach(mbuf, frames_at + result.offset, result.length,
                          static_cast<uint16_t>(static_cast<int32_t>(headroom) + moved),
                          static_cast<uint16_t>(std::max(behind, 0)));
        } else if constexpr (way == Return::home) {
            // The port's buffers are smaller than the chain's growth; make_ports was told of it, so this is a slip of
            // ours.
            if (!bring_home(mbuf, buffer.data() + frames_at + result.offset, result.length, mbuf->data_off + moved))
                own = Verdict{{Target::Kind::drop, 0},
                              kNoNode,
                              kNoPort,
                              {program.classifier != nullptr ? chain_of(program, verdict) : kNoDetail,
                               static_cast<uint32_t>(ExitDrop::device_failed)}};
        } else if constexpr (way == Return::heads) {
            std::memcpy(rte_pktmbuf_mtod(mbuf, uint8_t*), heads + i * prefix_back,
                        std::min<size_t>({prefix_back, result.length, descriptor.present}));
        }
    }
    if constexpr (way == Return::lent) buffer.take_back(static_cast<uint16_t>(gone));
}

/// Applies the results of packets [first, first + count) and delivers them.
void Completion::pass_on(Batch& batch, size_t first, size_t count, Return way) {
    const BatchInput& input = batch.input();
    ChainCounters& counters = *input.chain->counters;
    rte_mbuf* const* const mbufs = input.mbufs.data() + first;
    retries_.clear();
    switch (way) {
        case Return::lent: apply<Return::lent>(batch, first, count); break;
        case Return::home: apply<Return::home>(batch, first, count); break;
        case Return::heads: apply<Return::heads>(batch, first, count); break;
        case Return::nothing: apply<Return::nothing>(batch, first, count); break;
    }
    if (batch.buffers().visits() != nullptr) {
        for (size_t i = 0; i < count; ++i) input.write_metadata(first + i);
        tell_visits(batch);
    }
    for (const uint32_t i : retries_) {
        input.write_metadata(first + i);
        verdicts_[i] = cpu_.decide(input.chain->program, counters, mbufs[i]);
    }
    delivery_.deliver(*input.chain->program, counters, mbufs, verdicts_.data(), count);
}

/// Packets [first, end) of a batch whose buffers nobody else has: what is sent goes on in carriers, and its buffers go
/// back at once, without a look at their mbufs. The result buffer is lent to the packets.
void Completion::pass_on_carried(Batch& batch, size_t first, size_t end) {
    const BatchInput& input = batch.input();
    const chain::Program& program = *input.chain->program;
    const VerdictKey key(program.nodes.size());
    const device::PacketResult* const results = batch.results().packets();
    size_t home = first;  // those from there to before the present ones may go back
    const auto give_back = [&](size_t until) {
        if (until > home)
            rte_mempool_put_bulk(input.pool, reinterpret_cast<void* const*>(input.mbufs.data() + home),
                                 static_cast<unsigned>(until - home));
    };
    for (size_t from = first, next = first; from < end; from = next) {
        const uint64_t own = key(results[from]);
        for (++next; next < end && key(results[next]) == own;) ++next;
        const Verdict verdict = verdict_of(program, results[from]);
        const std::span<rte_mbuf* const> carriers = leaves_by_port(verdict) ? carriers_->offer(next - from)
                                                                            : std::span<rte_mbuf* const>();
        if (carriers.empty()) {
            give_back(from);
            home = next;
            pass_on(batch, from, next - from, Return::lent);
            continue;
        }
        load(batch, from, carriers);
        carriers_->used(carriers.size());
        delivery_.deliver_alike(program, *input.chain->counters, carriers, verdict, results + from);
    }
    give_back(end);
}

/// Whether packets with this verdict are sent by one port, and nothing else is done with them.
bool Completion::leaves_by_port(const Verdict& verdict) {
    return verdict.target.kind == Target::Kind::port ||
           (verdict.target.kind == Target::Kind::output && !is_port_set(verdict.out_port));
}

/// Gives the carriers the frames and the metadata of the packets from `first` on.
void Completion::load(Batch& batch, size_t first, std::span<rte_mbuf* const> carriers) {
    const BatchInput& input = batch.input();
    const device::PacketResult* const results = batch.results().packets() + first;
    const device::FrameDescriptor* const descriptors = batch.buffers().descriptors() + first;
    ResultBuffer& buffer = batch.buffers().result_buffer();
    const size_t frames_at = input.piece.frames_at - input.piece.head_at;
    const auto headroom = static_cast<int32_t>(input.frames.room.headroom),
               tailroom = static_cast<int32_t>(input.frames.room.tailroom);
    BatchInput::Metadata metadata(input, first);
    for (size_t k = 0; k < carriers.size();) {
        const auto [run, at] = metadata.of(first + k);
        const io::BurstNotes notes = run->notes.from(at);
        uint64_t number = notes.first_number, timestamp_ns = notes.first_ns;
        const size_t until = std::min(carriers.size(), k + run->packets - at);
        for (; k < until; ++k) {
            const device::PacketResult& result = results[k];
            const device::FrameDescriptor& descriptor = descriptors[k];
            const auto moved = static_cast<int32_t>(result.offset - descriptor.offset);
            const int32_t behind = int32_t{descriptor.length} + tailroom - moved - int32_t{result.length};
            rte_mbuf* const carrier = carriers[k];
            buffer.load(carrier, frames_at + result.offset, result.length, static_cast<uint16_t>(headroom + moved),
                        static_cast<uint16_t>(std::max(behind, 0)), descriptor.in_port);
            if (notes.written) {
                const rte_mbuf* const received = input.mbufs[first + k];
                timestamp_ns = io::packet_timestamp_ns(received);
                number = io::packet_number(received);
            }
            io::set_packet_metadata(carrier, timestamp_ns, number);
            timestamp_ns += notes.interval_ns;
            number += notes.number_step;
        }
    }
}

}  // namespace millrace::exec
