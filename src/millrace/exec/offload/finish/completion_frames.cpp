// What comes back of frames without mbufs: receive blocks.
#include <algorithm>
#include <utility>

#include "millrace/exec/offload/finish/completion.hpp"

namespace millrace::exec {

namespace {

/// Has the results of frames [from, end) on their way from where the device has written them, while others are worked
/// on.
void prefetch(const device::PacketResult* results, uint32_t from, uint32_t end) {
    constexpr size_t kLine = 64;
    const auto* const last = reinterpret_cast<const uint8_t*>(results + end);
    for (const auto* at = reinterpret_cast<const uint8_t*>(results + from); at < last; at += kLine)
        __builtin_prefetch(at);
}

/// The chain that packets with the verdict have been classified into; kNoChain: into none, or nothing is classified.
uint16_t chain_number(const chain::Program& program, const Verdict& verdict) {
    return program.classifier != nullptr ? chain_of(program, verdict) : chain::kNoChain;
}

void count_malformed(ChainCounters& counters, const Verdict& verdict, uint64_t packets) {
    if (verdict.node == kParserNode && verdict.target.kind == Target::Kind::drop &&
        verdict.decision.outcome < kMalformedCount)
        counters.malformed[verdict.decision.outcome].add(packets);
}

}  // namespace

/// The frames of a block, and what has come back of them. What a chain has not changed of a frame lies where it was
/// received.
struct Completion::BlockResults {
    const chain::Program& program;
    ChainCounters& counters;
    VerdictTable& verdicts;
    VerdictKey key;
    const io::ReceiveBlock& block;
    const device::PacketResult* results;
    const uint8_t* frames;   ///< whole ones, where those came back
    const uint8_t* heads;    ///< where only heads did, `back` bytes of each
    uint32_t back = 0;       ///< bytes of a frame that came back at most
    uint32_t most_head = 0;  ///< of these, that had gone forth

    template <bool whole>
    io::FramePieces piece(uint32_t k) const {
        const device::PacketResult& result = results[k];
        if constexpr (whole) return {frames + result.offset, nullptr, result.length, 0, k};
        const io::FrameSpot& spot = block.spots[k];
        const uint32_t head = std::min({most_head, uint32_t{result.length}, uint32_t{spot.length}});
        return {heads + size_t{k} * back, block.memory + spot.offset + head, static_cast<uint16_t>(head),
                static_cast<uint16_t>(spot.length - head), k};
    }
    io::FramePieces piece_of(uint32_t k) const { return back == chain::kWholeFrame ? piece<true>(k) : piece<false>(k); }
};

/// Delivers the batch's frames, and gives back what they were received in.
void Completion::pass_on_frames(Batch& batch) {
    const BatchInput& input = batch.input();
    size_t first = 0;
    for (const io::ReceiveBlock& block : input.receive_blocks) {
        const uint32_t back = input.prefixes.back;
        const BlockResults results{.program = *input.chain->program,
                                   .counters = *input.chain->counters,
                                   .verdicts = *input.chain->verdicts,
                                   .key = VerdictKey(input.chain->program->nodes.size()),
                                   .block = block,
                                   .results = batch.results().packets() + first,
                                   .frames = batch.results().at(input.piece.frames_at),
                                   .heads = batch.results().at(input.piece.heads_at) + first * back,
                                   .back = back,
                                   .most_head = std::min(back, input.frames.room.prefix)};
        for (uint32_t from = 0, end = 0; from < block.count; from = end) {
            end = std::min(from + kFramesAtOnce, block.count);
            prefetch(results.results, end, std::min(end + kFramesAtOnce, block.count));
            pass_on_frames(results, input.chain->program, from, end);
        }
        first += block.count;
        frame_delivery_->give_back(block);
    }
    settle(*input.chain->program, *input.chain->counters, *input.chain->verdicts);
}

/// Frames [from, end) of a block: they leave in their order, of whatever chains they are.
void Completion::pass_on_frames(const BlockResults& back, const std::shared_ptr<const chain::Program>& program,
                                uint32_t from, uint32_t end) {
    while (from < end) {
        from = back.back == chain::kWholeFrame ? gather<true>(back, from, end) : gather<false>(back, from, end);
        send_lists(back);
        if (from == end) break;
        // A frame that can't be gathered: it comes behind those that were.
        if (back.results[from].node() == device::kHostDecides) {
            cpu_.run_one(program, back.counters, back.block, from++);
            continue;
        }
        VerdictTable::Entry* entry = back.verdicts.finder().find_any(back.key(back.results[from]));
        if (entry == nullptr) entry = &learn(back, back.results[from]);
        if (entry->list == VerdictTable::kAlone) from = deliver_alone(back, *entry, from, end);
    }
}

/// Puts frames [from, end) into the lists of the ports that they leave by, and adds them up by their verdicts; stops at
/// the first for which there is no list. Returns the first that it has not put there.
template <bool whole>
uint32_t Completion::gather(const BlockResults& back, uint32_t from, uint32_t end) {
    // Copies: nothing that is written here changes them, which the compiler can't know.
    const BlockResults own = back;
    const io::FrameSpot* const spots = own.block.spots;
    const VerdictTable::Finder finder = own.verdicts.finder();
    io::FramePieces* const lists = lists_.data();
    uint32_t* const listed = listed_.data();
    const auto count_growth = [&](VerdictTable::Entry& entry, uint32_t k) {
        const int more = int{own.results[k].length} - int{spots[k].length};
        if (more != 0) own.verdicts.of(entry).more_bytes += more;
    };
    // Most neighbours share their verdict: what is counted of them is in registers meanwhile.
    constexpr uint32_t kTogether = 16;
    while (from < end) {
        const uint32_t until = std::min(from + kTogether, end);
        const uint64_t first = own.key(own.results[from]);
        uint64_t others = 0;
        for (uint32_t k = from + 1; k < until; ++k) others |= own.key(own.results[k]) ^ first;
        if (others == 0) {
            VerdictTable::Entry* const entry = finder.find(first);
            if (entry == nullptr) return from;
            io::FramePieces* to = lists + size_t{entry->list} * kFramesAtOnce + listed[entry->list];
            listed[entry->list] += until - from;
            uint64_t received = (until - from) * VerdictTable::kPacket;
            for (; from < until; ++from) {
                received += spots[from].length;
                count_growth(*entry, from);
                *to++ = own.piece<whole>(from);
            }
            entry->received += received;
            continue;
        }
        for (; from < until; ++from) {
            VerdictTable::Entry* const entry = finder.find(own.key(own.results[from]));
            if (entry == nullptr) return from;
            entry->received += VerdictTable::kPacket + spots[from].length;
            count_growth(*entry, from);
            const uint32_t list = entry->list;
            lists[size_t{list} * kFramesAtOnce + listed[list]++] = own.piece<whole>(from);
        }
    }
    return end;
}

/// Takes a verdict into the table, after others have left it if it is full.
VerdictTable::Entry& Completion::learn(const BlockResults& back, const device::PacketResult& result) {
    if (back.verdicts.full()) {
        settle(back.program, back.counters, back.verdicts);
        back.verdicts.clear();
    }
    const Verdict verdict = verdict_of(back.program, result);
    const FrameWay way = frame_delivery_->way_of(back.program, verdict);
    const uint32_t list = way.kind == FrameWay::Kind::by_port   ? way.port + 1u
                          : way.kind == FrameWay::Kind::dropped ? VerdictTable::kDropped
                                                                : VerdictTable::kAlone;
    return back.verdicts.add(back.key(result), verdict, list);
}

/// Delivers frames from `from` on that share a verdict for which there is no list. Returns the first that it has not
/// delivered.
uint32_t Completion::deliver_alone(const BlockResults& back, const VerdictTable::Entry& entry, uint32_t from,
                                   uint32_t end) {
    io::FramePieces* const frames = list(VerdictTable::kDropped);  // nobody's now
    const uint64_t key = back.key(back.results[from]);
    uint64_t bytes = 0;
    uint32_t k = from;
    for (; k < end && back.key(back.results[k]) == key; ++k) {
        bytes += back.block.spots[k].length;
        frames[k - from] = back.piece_of(k);
    }
    const Verdict& verdict = back.verdicts.of(entry).verdict;
    const uint16_t chain = chain_number(back.program, verdict);
    if (back.program.classifier != nullptr) back.counters.classified(chain, k - from, bytes);
    count_malformed(back.counters.of_chain(chain), verdict, k - from);
    frame_delivery_->deliver_frames(back.program, back.counters, back.block, {frames, k - from}, verdict, back.results);
    return k;
}

/// Sends what has been put into the lists.
void Completion::send_lists(const BlockResults& back) {
    listed_[VerdictTable::kDropped] = 0;
    for (size_t number = 1; number < listed_.size(); ++number) {
        if (listed_[number] == 0) continue;
        const auto port = static_cast<uint16_t>(number - 1);
        const std::span<const io::FramePieces> frames{list(number), std::exchange(listed_[number], 0)};
        const size_t sent = frame_delivery_->send_frames(port, back.block, frames);
        if (sent < frames.size()) hold(back, port, frames.subspan(sent));
    }
}

/// Leaves frames that a port has not taken to the delivery, chain by chain.
void Completion::hold(const BlockResults& back, uint16_t port, std::span<const io::FramePieces> frames) {
    const auto known_of = [&](const io::FramePieces& frame) -> VerdictTable::Known& {
        return back.verdicts.of(*back.verdicts.finder().find(back.key(back.results[frame.index])));
    };
    for (const io::FramePieces& frame : frames) {
        VerdictTable::Known& known = known_of(frame);
        ++known.unsent;
        known.more_bytes -= frame.bytes();
    }
    settle(back.program, back.counters, back.verdicts);  // a frame is received before it is dropped
    for (const io::FramePieces& frame : frames)
        frame_delivery_->hold_frames(port, back.block, {&frame, 1},
                                     back.counters.of_chain(chain_number(back.program, known_of(frame).verdict)));
}

/// Counts what has been added up, as received by the chains, sent and dropped.
void Completion::settle(const chain::Program& program, ChainCounters& counters, VerdictTable& verdicts) {
    for (VerdictTable::Known& known : verdicts.verdicts()) {
        VerdictTable::Entry& entry = *known.entry;
        const uint64_t received = std::exchange(entry.received, 0), packets = received / VerdictTable::kPacket,
                       bytes = received % VerdictTable::kPacket;
        if (packets == 0) continue;
        const uint64_t unsent = std::exchange(known.unsent, 0);
        const int64_t more_bytes = std::exchange(known.more_bytes, 0);
        const Verdict& verdict = known.verdict;
        const uint16_t chain = chain_number(program, verdict);
        if (program.classifier != nullptr) {
            counters.classified(chain, packets, bytes);
            if (chain == chain::kNoChain) continue;
        }
        ChainCounters& own = counters.of_chain(chain);
        if (entry.list != VerdictTable::kDropped) {
            own.sent_packets.add(packets - unsent);
            own.sent_bytes.add(bytes + static_cast<uint64_t>(more_bytes));
        } else {
            count_malformed(own, verdict, packets);
            own.count_drops(verdict, packets);
        }
    }
}

}  // namespace millrace::exec
