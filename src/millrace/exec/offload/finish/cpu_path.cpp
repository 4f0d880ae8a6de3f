#include "millrace/exec/offload/finish/cpu_path.hpp"

#include <rte_cycles.h>

#include <algorithm>
#include <optional>

namespace millrace::exec {

CpuPath::CpuPath(Delivery& delivery, FrameDelivery* frames, const OffloadOptions& options)
    : delivery_(delivery), frames_(frames), shares_(options.placement != nullptr),
      engine_(delivery, {.track = options.track, .events = options.events}),
      one_by_one_(delivery, {.use_cpu_halves = false, .track = options.track, .events = options.events}),
      verdicts_(nf::kCpuVector) {
    bursts_.reserve(Placement::Member::kMaxAtOnce);
}

void CpuPath::prepare(const ProgramPointer& program) {
    one_by_one_.prepare(program);
    // A device alone may never need them, and they may take seconds to make: it is when it is lost that they are made.
    if (shares_) engine_.prepare(program);
}

void CpuPath::run(const ProgramPointer& program, ChainCounters& counters, std::span<rte_mbuf* const> mbufs) {
    for (size_t i = 0; i < mbufs.size(); i += nf::kCpuVector) {
        const size_t n = std::min(nf::kCpuVector, mbufs.size() - i);
        engine_.decide(program, counters, mbufs.data() + i, n, verdicts_.data());
        counters.retried_on_cpu.add(n);
        delivery_.deliver(*program, counters, mbufs.data() + i, verdicts_.data(), n);
    }
}

void CpuPath::run(const ProgramPointer& program, ChainCounters& counters, const io::ReceiveBlock& block) {
    rte_mbuf* copies[nf::kCpuVector];
    for (uint32_t from = 0; from < block.count; from += nf::kCpuVector) {
        const auto n = static_cast<uint32_t>(std::min<size_t>(nf::kCpuVector, block.count - from));
        this->run(program, counters, std::span(copies, copy_frames(block.part(from, n), counters, copies)));
    }
    frames_->give_back(block);
}

void CpuPath::run_all(ChainQueue& queue) {
    if (queue.waiting() == 0) return;
    const LoadedChain& chain = *queue.chain;
    for (const io::ReceiveBlock& each : queue.runs()) run(chain.program, *chain.counters, each);
    queue.write_metadata(queue.waiting());
    run(chain.program, *chain.counters, queue.mbufs());
    queue.take(queue.waiting(), bursts_);
}

Verdict CpuPath::decide(const ProgramPointer& program, ChainCounters& counters, rte_mbuf* mbuf) {
    Verdict verdict;
    one_by_one_.decide(program, counters, &mbuf, 1, &verdict);
    counters.retried_on_cpu.add(1);
    return verdict;
}

void CpuPath::run_one(const ProgramPointer& program, ChainCounters& counters, const io::ReceiveBlock& block,
                      uint32_t index) {
    rte_mbuf* copy = nullptr;
    if (copy_frames(block.part(index, 1), counters, &copy) == 0) return;
    const Verdict verdict = decide(program, counters, copy);
    delivery_.deliver(*program, counters, &copy, &verdict, 1);
}

size_t CpuPath::run_some(ChainQueue& queue, Placement::Member& member, OrderedState& states, device::StreamId stream) {
    constexpr size_t kAtOnce = Placement::Member::kMaxAtOnce;
    static_assert(kAtOnce <= nf::kCpuVector);
    if (queue.waiting() == 0 || !member.begin_on_cpu()) return 0;
    if (const uint64_t returns = member.all().returns(); queue.returns != returns) {
        queue.returns = returns;
        states.take_back(*queue.chain, stream);
    }
    size_t n = std::min(queue.waiting(), kAtOnce);
    const uint64_t from = rte_rdtsc();
    rte_mbuf* mbufs[kAtOnce];
    const LoadedChain& chain = *queue.chain;
    std::optional<io::ReceiveBlock> block;
    size_t left = 0;  // that there was no buffer for
    if (queue.of_blocks()) {
        block = queue.runs().front().part(0, static_cast<uint32_t>(std::min<size_t>(n, queue.runs().front().count)));
        n = block->count;
        left = n - copy_frames(*block, *chain.counters, mbufs);
    } else {
        queue.write_metadata(n);
        std::copy_n(queue.mbufs().begin(), n, mbufs);
    }
    queue.take(n, bursts_);
    engine_.decide(chain.program, *chain.counters, mbufs, n - left, verdicts_.data());
    const uint64_t now = rte_rdtsc();
    member.end_on_cpu(n, now - from);
    chain.counters->kept_on_cpu.add(n);
    for (const auto& [arrival, packets] : bursts_)
        chain.counters->latency.record(to_nanoseconds(now - arrival), packets);
    delivery_.deliver(*chain.program, *chain.counters, mbufs, verdicts_.data(), n - left);
    if (block) frames_->give_back(*block);
    return n;
}

/// Makes packets that hold the block's frames; how many. Those that there is no buffer for are counted as dropped.
size_t CpuPath::copy_frames(const io::ReceiveBlock& block, ChainCounters& counters, rte_mbuf** copies) {
    size_t made = 0;
    for (uint32_t i = 0; i < block.count; ++i) {
        copies[made] = frames_->copy_of(block, {block.data(i), nullptr, block.spots[i].length, 0, i});
        if (copies[made] != nullptr) ++made;
    }
    counters.exit_drops[static_cast<size_t>(ExitDrop::no_buffer)].add(block.count - made);
    return made;
}

}  // namespace millrace::exec
