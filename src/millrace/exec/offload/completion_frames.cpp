// What comes back of frames without mbufs: runs that ports have received side by side.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "millrace/exec/offload/completion.hpp"

namespace millrace::exec {

/// Delivers the batch's frames, and gives back what they were received in.
void Completion::pass_on_frames(Batch& batch) {
    size_t first = 0;
    for (const io::FrameRun& run : batch.frame_runs) {
        // A few at a time, while the CPU has them in its nearest caches.
        for (uint32_t from = 0; from < run.count; from += kFramesAtOnce)
            pass_on_frames(batch, first + from, run, from, std::min(kFramesAtOnce, run.count - from));
        first += run.count;
        frame_delivery_->give_back(run);
    }
}

namespace {

/// What tells packets' fates apart, but for details: port, node and outcome.
uint32_t fate_bits(const device::PacketResult& result) {
    using Result = device::PacketResult;
    constexpr size_t kAt = offsetof(Result, out_port);
    static_assert(offsetof(Result, node) == kAt + 2 && offsetof(Result, outcome) == kAt + 3);
    uint32_t bits = 0;
    std::memcpy(&bits, reinterpret_cast<const uint8_t*>(&result) + kAt, sizeof bits);
    return bits;
}

}  // namespace

/// Frames [from, from + count) of the run, which are those of the batch from `first` on. What a chain has not changed
/// of them lies where it was received.
void Completion::pass_on_frames(Batch& batch, size_t first, const io::FrameRun& run, uint32_t from, uint32_t count) {
    const device::PacketResult* const results = batch.results() + first;
    const uint32_t prefix_back = batch.chain->prefixes.back;
    const bool whole = prefix_back == chain::kWholeFrame;
    const uint8_t* const frames = batch.back(batch.piece.frames_at);
    const device::FrameDescriptor* const descriptors = batch.descriptors() + first;
    const uint8_t* const heads = batch.back(batch.piece.heads_at) + first * prefix_back;
    io::FramePieces* const pieces = pieces_.data();
    for (uint32_t k = 0; k < count;) {
        const device::PacketResult& leader = results[k];
        if (leader.node == device::kHostDecides) {
            cpu_.run_one(batch.chain->program, *batch.chain->counters, run, from + k++);
            continue;
        }
        const Fate fate = fate_of(*batch.chain->program, leader);
        const uint32_t alike = fate_bits(leader);
        uint32_t n = 0;
        const auto add = [&](const auto& piece_of) {
            for (; k < count && fate_bits(results[k]) == alike; ++k) pieces[n++] = piece_of(results[k]);
        };
        if (whole)
            add([&](const device::PacketResult& result) {
                return io::FramePieces{frames + result.offset, nullptr, result.length, 0, from + k};
            });
        else
            add([&](const device::PacketResult& result) {
                const auto head = static_cast<uint16_t>(
                    std::min<uint32_t>({prefix_back, result.length, descriptors[k].present}));
                return io::FramePieces{heads + size_t{k} * prefix_back, run.data(from + k) + head, head,
                                       static_cast<uint16_t>(run.spots[from + k].length - head), from + k};
            });
        if (leader.node == kParserNode && leader.outcome < kMalformedCount && fate.target.kind == Target::Kind::drop)
            batch.chain->counters->malformed[leader.outcome].add(n);
        frame_delivery_->deliver_frames(*batch.chain->program, *batch.chain->counters, run, {pieces, n}, fate, &leader);
    }
}

}  // namespace millrace::exec
