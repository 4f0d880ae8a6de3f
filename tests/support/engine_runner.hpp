// Runs frames through a chain on an engine, and keeps what became of each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/nftest/packets/frame_pool.hpp"
#include "millrace/chain/configuration.hpp"
#include "millrace/exec/offload/offload_engine.hpp"
#include "support/device_work.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {

/// One packet after its chain. `number` is its place among the frames that went in.
struct Outcome {
    size_t number = 0;
    exec::Verdict verdict;
    Frame frame;  ///< empty when dropped
    std::vector<exec::Visit> visits;
    std::string text() const;
    friend bool operator==(const Outcome& a, const Outcome& b) { return a.text() == b.text(); }
};

/// Takes an engine's packets and frees them, or frames of runs. Those must be given back in their order, all of them.
class Collector : public exec::Delivery, public exec::FrameDelivery {
public:
    /// `verdicts`: wants to know every NF's decision, which only packets with mbufs have.
    explicit Collector(bool verdicts = true) : verdicts_(verdicts) {}
    void deliver(const chain::Program& program, exec::ChainCounters& counters, rte_mbuf* const* mbufs,
                 const exec::Verdict* verdicts, size_t count) override;
    bool wants_visits() const override { return verdicts_; }
    void visits(const chain::Program& program, rte_mbuf* mbuf, std::span<const exec::Visit> visits,
                const exec::Verdict& verdict) override;
    exec::FrameWay way_of(const chain::Program&, const exec::Verdict&) const override { return {}; }
    size_t port_count() const override { return 0; }
    size_t send_frames(uint16_t, const io::ReceiveBlock&, std::span<const io::FramePieces>) override { return 0; }
    void hold_frames(uint16_t, const io::ReceiveBlock&, std::span<const io::FramePieces>,
                     exec::ChainCounters&) override {}
    void deliver_frames(const chain::Program& program, exec::ChainCounters& counters, const io::ReceiveBlock& run,
                        std::span<const io::FramePieces> frames, const exec::Verdict& verdict,
                        const device::PacketResult* results) override;
    void give_back(const io::ReceiveBlock& run) override;
    rte_mbuf* copy_of(const io::ReceiveBlock& run, const io::FramePieces& frame) override;
    std::vector<Outcome> outcomes;
    uint64_t given_back = 0, runs_given_back = 0;  ///< frames, and in how many runs

private:
    void add(uint64_t number, const exec::Verdict& verdict, std::span<const uint8_t> frame);
    const bool verdicts_;
    std::vector<std::pair<const rte_mbuf*, std::vector<exec::Visit>>> visits_;
};

/// A chain from a YAML list of NFs, such as "[mirror, {router: {…}}]". Relative files are taken from
/// the folder of `anchor`.
chain::Configuration make_configuration(const std::string& nfs, const std::string& device, unsigned lanes = 0,
                                        const std::string& anchor = "(test)",
                                        const chain::Configuration* previous = nullptr);

using nftest::frame_pool;
using nftest::make_mbuf;

/// What went into an engine and came out, with the counters.
struct EngineRun {
    std::vector<Outcome> outcomes;
    std::unique_ptr<exec::ChainCounters> counters;
};

/// Puts `frames` through the only chain of `configuration` on the cpu, `burst` at a time.
EngineRun run_on_cpu(const chain::Configuration& configuration, const std::vector<Frame>& frames, size_t burst,
                     bool cpu_halves = true);
/// The same on a device, which does `work` of it.
EngineRun run_on_device(std::shared_ptr<device::Device> device, const chain::Configuration& configuration,
                        const std::vector<Frame>& frames, size_t burst, exec::OffloadOptions options = {},
                        Work work = Work::device_alone);

/// The same with contiguous frames, in receive blocks of `burst`; checks that all of them are given back, and
/// that nobody has written to them. No NF's decision is known but the last one's. `into`: takes the frames, if it is
/// not to be a Collector of its own.
EngineRun run_contiguous(std::shared_ptr<device::Device> device, const chain::Configuration& configuration,
                         const std::vector<Frame>& frames, size_t burst, exec::OffloadOptions options = {},
                         Work work = Work::device_alone, Collector* into = nullptr);
/// Leaves of a run what is known without the NFs' decisions.
EngineRun without_visits(EngineRun run);

/// Received = sent + dropped + …, for a run that nobody sent anything for: every packet has an outcome.
void expect_conserved(const EngineRun& run, size_t frames);
/// The same became of every packet.
void expect_equal(const EngineRun& expected, const EngineRun& actual, const std::string& what);

}  // namespace millrace::test
