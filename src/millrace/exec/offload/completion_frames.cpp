// What comes back of frames without mbufs: receive blocks.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "millrace/exec/offload/completion.hpp"

namespace millrace::exec {

/// Delivers the batch's frames, and gives back what they were received in.
void Completion::pass_on_frames(Batch& batch) {
    size_t first = 0;
    for (const io::ReceiveBlock& block : batch.input().receive_blocks) {
        // A few at a time, while the CPU has them in its nearest caches.
        for (uint32_t from = 0; from < block.count; from += kFramesAtOnce)
            pass_on_frames(batch, first + from, block, from, std::min(kFramesAtOnce, block.count - from));
        first += block.count;
        frame_delivery_->give_back(block);
    }
}

namespace {

/// What tells packets' verdicts apart, but for details: port, node and outcome.
uint32_t verdict_bits(const device::PacketResult& result) {
    using Result = device::PacketResult;
    constexpr size_t kAt = offsetof(Result, out_port);
    static_assert(offsetof(Result, node) == kAt + 2 && offsetof(Result, outcome) == kAt + 3);
    uint32_t bits = 0;
    std::memcpy(&bits, reinterpret_cast<const uint8_t*>(&result) + kAt, sizeof bits);
    return bits;
}

}  // namespace

/// Lists frames [0, count) in order_: chain by chain, those of a chain as they came. The chain of one that the host
/// decides on is not known: it stays behind those before it.
void Completion::sort_by_chain(const chain::Program& program, const device::PacketResult* results, uint32_t count) {
    constexpr uint16_t kLast = 0xffff;
    std::array<uint16_t, kFramesAtOnce> next;
    uint32_t chains = 0, n = 0;
    const auto list = [&] {
        for (uint32_t i = 0; i < chains; ++i)
            for (uint16_t k = frames_of_chains_[i].first; k != kLast; k = next[k]) order_[n++] = k;
        chains = 0;
    };
    for (uint16_t k = 0; k < count; ++k) {
        const device::PacketResult& result = results[k];
        if (result.node == device::kHostDecides) {
            list();
            order_[n++] = k;
            continue;
        }
        const uint16_t chain = chain_of(program, result);
        uint32_t own = 0;
        while (own < chains && frames_of_chains_[own].chain != chain) ++own;
        if (own == chains) frames_of_chains_[chains++] = {chain, k, k};
        else next[std::exchange(frames_of_chains_[own].last, k)] = k;
        next[k] = kLast;
    }
    list();
}

/// Frames [from, from + count) of the block, which are those of the batch from `first` on. What a chain has not changed
/// of them lies where it was received.
void Completion::pass_on_frames(Batch& batch, size_t first, const io::ReceiveBlock& block, uint32_t from,
                                uint32_t count) {
    const BatchInput& input = batch.input();
    const chain::Program& program = *input.chain->program;
    const device::PacketResult* const results = batch.results().packets() + first;
    const uint32_t prefix_back = input.chain->prefixes.back;
    const bool whole = prefix_back == chain::kWholeFrame;
    const uint8_t* const frames = batch.results().at(input.piece.frames_at);
    const device::FrameDescriptor* const descriptors = batch.buffers().descriptors() + first;
    const uint8_t* const heads = batch.results().at(input.piece.heads_at) + first * prefix_back;
    io::FramePieces* const pieces = pieces_.data();
    const bool classified = program.classifier != nullptr;
    if (classified) sort_by_chain(program, results, count);
    const auto at = [&](uint32_t place) { return classified ? order_[place] : place; };
    for (uint32_t place = 0; place < count;) {
        const device::PacketResult& leader = results[at(place)];
        if (leader.node == device::kHostDecides) {
            cpu_.run_one(input.chain->program, *input.chain->counters, block, from + at(place++));
            continue;
        }
        const Verdict verdict = verdict_of(program, leader);
        const uint32_t alike = verdict_bits(leader);
        // What no function decided on has its chain for a detail.
        const bool by_detail = classified && leader.node >= program.nodes.size();
        uint32_t n = 0;
        const auto add = [&](const auto& piece_of) {
            for (; place < count; ++place) {
                const uint32_t k = at(place);
                if (verdict_bits(results[k]) != alike || (by_detail && results[k].detail != leader.detail)) break;
                pieces[n++] = piece_of(k, results[k]);
            }
        };
        if (whole)
            add([&](uint32_t k, const device::PacketResult& result) {
                return io::FramePieces{frames + result.offset, nullptr, result.length, 0, from + k};
            });
        else
            add([&](uint32_t k, const device::PacketResult& result) {
                const auto head = static_cast<uint16_t>(
                    std::min<uint32_t>({prefix_back, result.length, descriptors[k].present}));
                return io::FramePieces{heads + size_t{k} * prefix_back, block.data(from + k) + head, head,
                                       static_cast<uint16_t>(block.spots[from + k].length - head), from + k};
            });
        if (leader.node == kParserNode && leader.outcome < kMalformedCount && verdict.target.kind == Target::Kind::drop)
            input.chain->counters->of_chain(verdict.decision.detail).malformed[leader.outcome].add(n);
        frame_delivery_->deliver_frames(program, *input.chain->counters, block, {pieces, n}, verdict, results - from);
    }
}

}  // namespace millrace::exec
