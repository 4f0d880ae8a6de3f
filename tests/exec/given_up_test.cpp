// Packets that the engine gives up: what they are counted as, and that nothing else is lost with them.
#include <gtest/gtest.h>
#include <rte_mbuf.h>

#include "exec/alternating.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/io/metadata.hpp"
#include "support/end_of_run.hpp"
#include "support/engine_runner.hpp"

namespace millrace::test {
namespace {

using chain::Target;
using exec::ExitDrop;

/// Keeps all packets, as a port does that sends nothing for a while.
class Keeper : public exec::Delivery {
public:
    ~Keeper() override { rte_pktmbuf_free_bulk(mbufs.data(), static_cast<unsigned>(mbufs.size())); }
    void deliver(const chain::Program&, exec::ChainCounters& counters, rte_mbuf* const* some,
                 const exec::Verdict* verdicts, size_t count) override {
        for (size_t i = 0; i < count; ++i) {
            if (verdicts[i].target.kind == Target::Kind::drop) counters.count_drops(verdicts[i], 1);
            else ++sent;
        }
        mbufs.insert(mbufs.end(), some, some + count);
    }
    std::vector<rte_mbuf*> mbufs;
    uint64_t sent = 0;
};

constexpr size_t kBurst = 16, kBursts = 60, kPackets = kBurst * kBursts;

/// A tunnel's frames go home to their own buffers once all result buffers are out, waiting to be sent. `room`: bytes in
/// the buffers behind the frames as they came. How many packets were given up, of kPackets.
uint64_t given_up_with(uint16_t room) {
    frame_pool();
    static unsigned pools = 0;
    const Frame frame = build_packet("{ipv4: {}, udp: {src: 1, dst: 2}}");
    const auto length = static_cast<uint16_t>(frame.size());
    rte_mempool* const pool = rte_pktmbuf_pool_create(("tight " + std::to_string(++pools)).c_str(), 2047, 0, 0,
                                                      static_cast<uint16_t>(RTE_PKTMBUF_HEADROOM + length + room), 0);
    EXPECT_NE(pool, nullptr);
    const chain::Configuration configuration = into_tunnel("sim");
    exec::ChainCounters counters(*configuration.chains[0]);
    const auto exit_drops = [&](ExitDrop why) { return counters.exit_drops[static_cast<size_t>(why)].get(); };
    uint64_t gone = 0;
    {
        Keeper keeper;
        exec::OffloadOptions options;
        options.depth = 2;
        options.batch_bytes = size_t{1} << 18;
        const auto device = std::make_shared<device::sim::SimDevice>();
        exec::OffloadEngine engine(device, keeper, 32, options);
        for (uint64_t number = 0; number < kPackets; number += kBurst) {
            rte_mbuf* mbufs[kBurst];
            EXPECT_EQ(rte_pktmbuf_alloc_bulk(pool, mbufs, kBurst), 0);
            for (size_t i = 0; i < kBurst; ++i) {
                std::copy(frame.begin(), frame.end(), rte_pktmbuf_mtod(mbufs[i], uint8_t*));
                mbufs[i]->data_len = length;
                mbufs[i]->pkt_len = length;
                io::set_packet_metadata(mbufs[i], 1, number + i);
            }
            engine.submit(configuration.chains[0], counters, mbufs, kBurst);
            engine.drain();
        }
        expect_work(Work::device_alone, {&engine}, counters, kPackets);
        gone = exit_drops(ExitDrop::device_failed);
        EXPECT_EQ(keeper.sent + gone, kPackets);
        EXPECT_EQ(counters.nodes[0]->packets.get(), kPackets) << "the device did decide on them";
        for (const ExitDrop other : {ExitDrop::no_output, ExitDrop::no_buffer}) EXPECT_EQ(exit_drops(other), 0u);
    }
    EXPECT_EQ(rte_mempool_avail_count(pool), 2047u) << "packets were not freed";
    rte_mempool_free(pool);
    return gone;
}

TEST(GivenUp, IsAFrameThatOutgrewTheBufferWhichItCameIn) {
    EXPECT_EQ(given_up_with(200), 0u);
    const uint64_t gone = given_up_with(0);
    EXPECT_GT(gone, 0u) << "the buffers have no room for what ESP adds";
    EXPECT_LT(gone, kPackets) << "the first leave in result buffers";
}

/// Gives every packet up for a reason, each for the next one.
class Giver : public exec::Engine {
public:
    explicit Giver(exec::Delivery& delivery) : delivery_(delivery) {}
    void submit(const std::shared_ptr<const chain::Program>& program, exec::ChainCounters& counters,
                rte_mbuf* const* mbufs, size_t count) override {
        std::vector<exec::Verdict> verdicts(count);
        for (exec::Verdict& verdict : verdicts)
            verdict = {{Target::Kind::drop, 0}, exec::kNoNode, kNoPort, {kNoDetail, next_++ % exec::kExitDropCount}};
        counters.received_packets.add(count);
        delivery_.deliver(*program, counters, mbufs, verdicts.data(), count);
    }
    void poll() override {}
    size_t in_flight() const override { return 0; }
    void drain() override {}
    std::string describe() const override { return "gives up"; }

private:
    exec::Delivery& delivery_;
    uint32_t next_ = 0;
};

TEST(GivenUp, StandsInTheReportByEachReasonsName) {
    chain::Configuration configuration = chain::parse_configuration(R"(version: 1
ports: {in: {source: {count: 6000}}, out: {sink: {}}}
chains: {c: {input: in, output: out, nfs: [mirror]}}
)",
                                                                    "(given up)", {});
    exec::RuntimeOptions options;
    options.master = exec::Master{
        [](exec::Delivery& delivery, const exec::Master::MakeEngine&,
           std::optional<unsigned>) -> std::unique_ptr<exec::Engine> { return std::make_unique<Giver>(delivery); }};
    exec::Runtime runtime(std::move(configuration), options);
    runtime.start();
    const exec::Report report = end_of_run(runtime);
    for (const char* reason : exec::kExitDropNames)
        EXPECT_EQ(report.chains[0].drops.at(std::string("exit.") + reason), 1000u) << reason;
}

/// Packets that no line of `classify` is for: dropped by workers, and by the first kernel where it classifies.
TEST(GivenUp, IsWhatIsForNoChain) {
    for (const char* device : {"cpu", "sim"})
        for (const char* chains : {"{match: {protocol: 17}, chain: c}, {match: {protocol: 1}, chain: d}",
                                   "{match: {dst-port: 1-2}, chain: c}, {match: {src-port: 9}, chain: d}"}) {
            chain::LoadOptions load;
            load.device = device;
            chain::Configuration configuration = chain::parse_configuration(std::string(R"(version: 1
ports: {in: {source: {count: 3000, protocol: tcp, ports: {src: 500, dst: 600}}}, out: {sink: {}}}
chains: {c: {output: out, nfs: [mirror]}, d: {output: out, nfs: []}}
classify: [)") + chains + "]\n",
                                                                            "(no chain)", load);
            exec::Runtime runtime(std::move(configuration));
            runtime.start();
            const exec::Report report = end_of_run(runtime, Work::device_alone);
            EXPECT_EQ(report.unclassified_packets, 3000u) << device << " " << chains;
        }
}

}  // namespace
}  // namespace millrace::test
