// What comes back of frames without mbufs: receive blocks.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "millrace/exec/offload/completion.hpp"

namespace millrace::exec {

namespace {

/// What tells packets' verdicts apart, but for details: port, node and outcome.
uint32_t verdict_bits(const device::PacketResult& result) {
    using Result = device::PacketResult;
    constexpr size_t kAt = offsetof(Result, out_port);
    static_assert(offsetof(Result, decided) == kAt + 2);
    uint32_t bits = 0;
    std::memcpy(&bits, reinterpret_cast<const uint8_t*>(&result) + kAt, sizeof bits);
    return bits;
}

/// Has the results of frames [from, end) on their way from where the device has written them, while others are worked
/// on.
void prefetch(const device::PacketResult* results, uint32_t from, uint32_t end) {
    constexpr size_t kLine = 64;
    const auto* const last = reinterpret_cast<const uint8_t*>(results + end);
    for (const auto* at = reinterpret_cast<const uint8_t*>(results + from); at < last; at += kLine)
        __builtin_prefetch(at);
}

/// The first of the frames [from, end) that the host decides on; `end`: there is none.
uint32_t host_decides_from(const device::PacketResult* results, uint32_t from, uint32_t end) {
    const auto* const found = std::find_if(results + from, results + end, [](const device::PacketResult& result) {
        return result.node() == device::kHostDecides;
    });
    return static_cast<uint32_t>(found - results);
}

}  // namespace

/// Delivers the batch's frames, and gives back what they were received in.
void Completion::pass_on_frames(Batch& batch) {
    size_t first = 0;
    const chain::Program& program = *batch.input().chain->program;
    const auto chains = static_cast<uint32_t>(program.parts.size());
    const uint32_t at_once = std::clamp(chains * kFramesOfChain, kFramesAtOnce, kMaxFramesAtOnce);
    for (const io::ReceiveBlock& block : batch.input().receive_blocks) {
        const device::PacketResult* const results = batch.results().packets() + first;
        for (uint32_t from = 0, end = 0; from < block.count; from = end) {
            end = std::min(from + at_once, block.count);
            // The chain of a frame that the host decides on is not known: no other passes it.
            if (program.classifier != nullptr) end = std::max(from + 1, host_decides_from(results, from, end));
            prefetch(results, end, std::min(end + at_once, block.count));
            pass_on_frames(batch, first + from, block, from, end - from);
        }
        first += block.count;
        frame_delivery_->give_back(block);
    }
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
    std::span<const uint32_t> order;
    const bool sorted = classified && results[0].node() != device::kHostDecides;
    if (sorted)
        order = order_.sort(
            count, program.parts.size(),
            [results, nodes = program.nodes.size(), chain_of_node = program.chain_of_node.data()](uint32_t k) {
                const uint16_t node = results[k].node();
                return node < nodes ? chain_of_node[node] : results[k].detail;
            },
            [descriptors](uint32_t k) { return descriptors[k].length; },
            [&](uint16_t chain, uint64_t packets, uint64_t bytes) {
                input.chain->counters->classified(chain, packets, bytes);
            });
    const auto at = [&](uint32_t place) { return sorted ? order[place] : place; };
    for (uint32_t place = 0; place < count;) {
        const device::PacketResult& leader = results[at(place)];
        if (leader.node() == device::kHostDecides) {
            cpu_.run_one(input.chain->program, *input.chain->counters, block, from + at(place++));
            continue;
        }
        const Verdict verdict = verdict_of(program, leader);
        const uint32_t alike = verdict_bits(leader);
        // What no function decided on has its chain for a detail.
        const bool by_detail = classified && leader.node() >= program.nodes.size();
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
        if (leader.node() == kParserNode && leader.outcome() < kMalformedCount &&
            verdict.target.kind == Target::Kind::drop)
            input.chain->counters->of_chain(verdict.decision.detail).malformed[leader.outcome()].add(n);
        frame_delivery_->deliver_frames(program, *input.chain->counters, block, {pieces, n}, verdict, results - from);
    }
}

}  // namespace millrace::exec
