#include "support/engine_runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include "millrace/io/memory/frame_ring.hpp"
#include "millrace/io/metadata.hpp"

namespace millrace::test {

std::string Outcome::text() const {
    std::string text = "packet " + std::to_string(number) + " target " +
                       std::to_string(static_cast<int>(verdict.target.kind)) + ":" +
                       std::to_string(verdict.target.value) + " by node " + std::to_string(verdict.node) + " outcome " +
                       std::to_string(verdict.decision.outcome) + " detail " + std::to_string(verdict.decision.detail) +
                       " port " + std::to_string(verdict.out_port) + " visits";
    for (const exec::Visit& visit : visits)
        text += " " + std::to_string(visit.node) + "/" + std::to_string(visit.decision.outcome) + "/" +
                std::to_string(visit.decision.detail);
    return text + " frame " + hex_dump(frame);
}

void Collector::visits(const chain::Program&, rte_mbuf* mbuf, std::span<const exec::Visit> visits,
                       const exec::Verdict&) {
    visits_.emplace_back(mbuf, std::vector<exec::Visit>(visits.begin(), visits.end()));
}

void Collector::add(uint64_t number, const exec::Verdict& verdict, std::span<const uint8_t> frame) {
    Outcome& outcome = outcomes.emplace_back();
    outcome.number = number;
    outcome.verdict = verdict;
    // What an NF wanted for a packet that is dropped later is nobody's business.
    if (verdict.target.kind == Target::Kind::drop) outcome.verdict.out_port = kNoPort;
    else outcome.frame.assign(frame.begin(), frame.end());
}

void Collector::deliver(const chain::Program&, exec::ChainCounters&, rte_mbuf* const* mbufs,
                        const exec::Verdict* verdicts, size_t count) {
    for (size_t i = 0; i < count; ++i) {
        add(io::packet_number(mbufs[i]), verdicts[i], {rte_pktmbuf_mtod(mbufs[i], const uint8_t*), mbufs[i]->data_len});
        Outcome& outcome = outcomes.back();
        const auto seen = std::find_if(visits_.begin(), visits_.end(),
                                       [&](const auto& entry) { return entry.first == mbufs[i]; });
        if (seen != visits_.end()) {
            outcome.visits = std::move(seen->second);
            *seen = std::move(visits_.back());
            visits_.pop_back();
        }
    }
    rte_pktmbuf_free_bulk(const_cast<rte_mbuf**>(mbufs), static_cast<unsigned>(count));
}

void Collector::deliver_frames(const chain::Program& program, exec::ChainCounters&, const io::ReceiveBlock& run,
                               std::span<const io::FramePieces> frames, const exec::Verdict& verdict,
                               const device::PacketResult* results) {
    for (const io::FramePieces& piece : frames) {
        Frame frame(piece.head, piece.head + piece.head_bytes);
        frame.insert(frame.end(), piece.rest, piece.rest + piece.rest_bytes);
        EXPECT_GE(run.number(piece.index), given_back) << "a frame was given back before it was delivered";
        exec::Verdict own = verdict;
        if (verdict.node < program.nodes.size()) own.decision.detail = exec::detail_of(results[piece.index].detail);
        add(run.number(piece.index), own, frame);
    }
}

void Collector::give_back(const io::ReceiveBlock& run) {
    EXPECT_EQ(run.first_number, given_back);
    given_back += run.count;
    ++runs_given_back;
}

rte_mbuf* Collector::copy_of(const io::ReceiveBlock& run, const io::FramePieces& frame) {
    return make_mbuf(Frame(frame.head, frame.head + frame.head_bytes), run.number(frame.index));
}

chain::Configuration make_configuration(const std::string& nfs, const std::string& device, unsigned lanes,
                                        const std::string& anchor, const chain::Configuration* previous) {
    chain::LoadOptions options;
    options.device = device;
    options.lanes = lanes;
    options.previous = previous;
    options.output_folder = testing::TempDir();
    return chain::parse_configuration(
        "version: 1\nports: {in: {null: {}}, out: {null: {}}, third: {null: {}}}\n"
        "chains:\n  test:\n    input: in\n    output: out\n    nfs: " +
            nfs + "\n",
        anchor, options);
}

namespace {

EngineRun run(exec::Engine& engine, Collector& collector, const chain::Configuration& configuration,
              const std::vector<Frame>& frames, size_t burst) {
    EngineRun result;
    result.counters = std::make_unique<exec::ChainCounters>(*configuration.chains[0]);
    std::vector<rte_mbuf*> mbufs;
    try {
        for (size_t first = 0; first < frames.size() || first == 0; first += std::max<size_t>(burst, 1)) {
            mbufs.clear();
            for (size_t i = first; i < std::min(frames.size(), first + burst); ++i)
                mbufs.push_back(make_mbuf(frames[i], i));
            engine.submit(configuration.chains[0], *result.counters, mbufs.data(), mbufs.size());
            engine.poll();
            if (frame_pool().available() < burst) engine.drain();  // more frames than buffers
        }
    } catch (...) {
        engine.drain();  // what is on its way counts into what ends here
        throw;
    }
    engine.drain();
    result.outcomes = std::move(collector.outcomes);
    return result;
}

}  // namespace

EngineRun run_on_cpu(const chain::Configuration& configuration, const std::vector<Frame>& frames, size_t burst,
                     bool cpu_halves) {
    frame_pool();
    Collector collector;
    exec::CpuOptions options;
    options.use_cpu_halves = cpu_halves;
    exec::CpuEngine engine(collector, options);
    return run(engine, collector, configuration, frames, burst);
}

namespace {

/// A machine that is busy with other work is no device that is lost.
void be_patient(exec::OffloadOptions& options, Work work) {
    constexpr std::chrono::minutes kPatience{1};
    if (work != Work::fault) options.patience = std::max<std::chrono::nanoseconds>(options.patience, kPatience);
}

/// Tests have no long batches: every other run takes them all for long, so that both ways are compared.
void take_turns(exec::OffloadOptions& options) {
    static std::atomic<unsigned> runs{0};
    if (++runs % 2 == 0) options.long_batch_bytes = 0;
}

/// No batch can be as large: room for more would only have to be cleared, which takes longer than to run some packets.
uint32_t room_for(const std::vector<Frame>& frames, const chain::Configuration& configuration) {
    return static_cast<uint32_t>(std::min<size_t>(configuration.chains[0]->max_batch, frames.size() + 1));
}

}  // namespace

EngineRun run_on_device(std::shared_ptr<device::Device> device, const chain::Configuration& configuration,
                        const std::vector<Frame>& frames, size_t burst, exec::OffloadOptions options, Work work) {
    frame_pool();
    const PacketsSeen seen({device});
    Collector collector;
    options.batch_bytes = std::min(options.batch_bytes, size_t{4} << 20);
    be_patient(options, work);
    take_turns(options);
    options.pinned = device->pin(frame_pool().memory(), frame_pool().memory_bytes());
    EngineRun result;
    {
        exec::OffloadEngine engine(device, collector, room_for(frames, configuration), options);
        result = run(engine, collector, configuration, frames, burst);
        expect_work(work, {&engine}, *result.counters, frames.size());
    }
    seen.expect(work, frames.size());
    if (options.pinned) device->unpin(frame_pool().memory());
    EXPECT_EQ(frame_pool().available(), frame_pool().packets()) << "packets were not freed";
    return result;
}

EngineRun run_contiguous(std::shared_ptr<device::Device> device, const chain::Configuration& configuration,
                         const std::vector<Frame>& frames, size_t burst, exec::OffloadOptions options, Work work,
                         Collector* into) {
    frame_pool();
    const PacketsSeen seen({device});
    // In two places, the second half first, so that batches span both.
    const size_t half = frames.size() / 2;
    std::vector<uint16_t> lengths;
    for (size_t i = 0; i < frames.size(); ++i)
        lengths.push_back(static_cast<uint16_t>(frames[(i + half) % frames.size()].size()));
    io::FrameRing ring(lengths);
    for (size_t i = 0; i < frames.size(); ++i) {
        const Frame& frame = frames[(i + half) % frames.size()];
        std::copy(frame.begin(), frame.end(), ring.frame(static_cast<uint32_t>(i)));
    }
    const std::vector<uint8_t> before(ring.memory().begin(), ring.memory().end());
    Collector own(false);
    Collector& collector = into != nullptr ? *into : own;
    options.batch_bytes = std::min(options.batch_bytes, size_t{4} << 20);
    be_patient(options, work);
    take_turns(options);
    options.pinned = device->pin(ring.memory().data(), ring.memory().size());
    options.blocks = true;
    options.frames = &collector;
    EngineRun result;
    result.counters = std::make_unique<exec::ChainCounters>(*configuration.chains[0]);
    {
        exec::OffloadEngine engine(device, collector, room_for(frames, configuration), options);
        for (size_t first = 0; first < frames.size();) {
            const size_t place = (first + frames.size() - half) % frames.size();
            io::ReceiveBlock run = ring.take(static_cast<uint32_t>(place),
                                             static_cast<uint32_t>(std::min(burst, frames.size() - first)));
            run.first_number = first;
            run.first_ns = 1'700'000'000'000'000'000ull + first * 1000;
            run.interval_ns = 1000;
            first += run.count;
            engine.submit(configuration.chains[0], *result.counters, run);
            engine.poll();
        }
        engine.drain();
        expect_work(work, {&engine}, *result.counters, frames.size());
    }
    seen.expect(work, frames.size());
    EXPECT_EQ(collector.given_back, frames.size());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), ring.memory().begin())) << "received frames were written to";
    if (options.pinned) device->unpin(ring.memory().data());
    result.outcomes = std::move(collector.outcomes);
    return without_visits(std::move(result));
}

EngineRun without_visits(EngineRun run) {
    for (Outcome& outcome : run.outcomes) {
        outcome.visits.clear();
        outcome.verdict.decision.detail = static_cast<uint16_t>(outcome.verdict.decision.detail);  // what a device
                                                                                                   // brings back
        if (outcome.verdict.node == exec::kNoNode) outcome.verdict.decision = {};
    }
    return run;
}

void expect_conserved(const EngineRun& run, size_t frames) {
    EXPECT_EQ(run.counters->received_packets.get(), frames);
    EXPECT_EQ(run.outcomes.size(), frames);
    EXPECT_EQ(run.counters->events_lost.get(), 0u);
    for (size_t i = 1; i < run.outcomes.size(); ++i)
        ASSERT_LT(run.outcomes[i - 1].number, run.outcomes[i].number) << "packets left out of order";
}

namespace {

/// Shows where two descriptions part, not all of them.
void expect_same(const std::string& expected, const std::string& actual, const std::string& what) {
    if (expected == actual) return;
    const size_t at = static_cast<size_t>(
        std::mismatch(expected.begin(), expected.end(), actual.begin(), actual.end()).first - expected.begin());
    const size_t from = at > 40 ? at - 40 : 0;
    ADD_FAILURE() << what << ", " << expected.substr(0, expected.find(" frame ")) << "\nexpected …"
                  << expected.substr(from, 160) << "\nactual   …" << actual.substr(from, 160);
}

}  // namespace

void expect_equal(const EngineRun& expected, const EngineRun& actual, const std::string& what) {
    ASSERT_EQ(expected.outcomes.size(), actual.outcomes.size()) << what;
    for (size_t i = 0; i < expected.outcomes.size(); ++i)
        expect_same(expected.outcomes[i].text(), actual.outcomes[i].text(), what);
}

}  // namespace millrace::test
