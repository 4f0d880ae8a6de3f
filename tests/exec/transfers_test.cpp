// Every way of transfer, for chains of each kind: that change whole frames, heads, or nothing.
#include <gtest/gtest.h>

#include "exec/alternating.hpp"
#include "millrace/chain/frames/whole_frames.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/test_chain.hpp"

namespace millrace::test {
namespace {

using device::sim::Fault;
using device::sim::SimDevice;
using device::sim::SimOptions;
using exec::TransferIn;
using exec::TransferOut;

struct Chain {
    const char* name;
    std::string nfs;
    bool whole_frames = false;
    /// Whether frames are brought to the device whole, and come back whole.
    bool brings_all() const { return whole_frames || std::string(name).find("frames") != std::string::npos; }
    bool whole() const { return whole_frames || name == std::string("changes frames"); }
};
const Chain kChains[] = {
    {"reads heads",
     "[firewall: {default: permit, rules: [deny udp from any to any, deny tcp from any port 1-30000 to any]}]"},
    {"reads frames",
     R"([nids: {mode: ips, rule: ['drop ip any any -> any any (msg:"zeros"; content:"|00 01|"; sid:1;)']}])"},
    {"changes heads", "[mirror]"},
    {"reads and changes heads",
     R"([firewall: {default: permit, rules: [deny udp from any to any]}, router: {next-hops: {
        a: {mac: "02:00:00:00:00:0a", src-mac: "02:00:00:00:00:01", port: out}}, routes: [{prefix: 10.0.0.0/9,
          via: a}]}])"},
    {"reads frames and changes heads",
     R"([nids: {mode: ids, rule: ['alert ip any any -> any any (msg:"zeros"; content:"|00 01|"; sid:1;)']}, mirror])"},
    {"changes heads, but moves all", "[mirror]", true},
    {"changes frames", into_tunnel_nfs()},
};

chain::Configuration configuration_of(const Chain& chain, const std::string& device) {
    chain::Configuration configuration = make_configuration(chain.nfs, device);
    return chain.whole_frames ? chain::with_whole_frames(std::move(configuration)) : configuration;
}

exec::OffloadOptions ways(TransferIn in, TransferOut out) {
    exec::OffloadOptions options;
    options.transfer_in = in;
    options.transfer_out = out;
    options.batch_bytes = size_t{512} << 10;
    return options;
}

std::string text_of(const Chain& chain, TransferIn in, TransferOut out) {
    return std::string(chain.name) + ", " + name_of(in) + ", " + name_of(out);
}

class Transfers : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
};

TEST_P(Transfers, GiveTheSameAnswerForEveryKindOfChain) {
    unsigned seed = 1;
    for (const Chain& chain : kChains) {
        for (const size_t size : {1, 31, 32, 33, 1025}) {
            if (chain.whole() && size < 33) continue;  // golden packets and cases see to single ones
            const std::vector<Frame> frames = random_frames(size, static_cast<unsigned>(size));
            const EngineRun expected = run_on_cpu(make_configuration(chain.nfs, "cpu"), frames, 256);
            for (const TransferIn in : exec::kTransfersIn)
                for (const TransferOut out : exec::kTransfersOut) {
                    const EngineRun run = run_on_device(open_device(GetParam(), ++seed),
                                                        configuration_of(chain, GetParam()), frames, 300, ways(in, out),
                                                        Work::but_long_headers);
                    expect_conserved(run, size);
                    expect_equal(expected, run, text_of(chain, in, out));
                }
        }
    }
}

TEST_P(Transfers, AreTakenAsAskedForAndCounted) {
    // Frames of one length, so that they can go as rows; buffers come in no order, so that there are several runs.
    const std::vector<Frame> frames(
        500,
        build_packet(
            "{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, tcp: {src: 40000, dst: 2}, payload: {repeat: x, count: 300}}"));
    for (const Chain& chain : kChains)
        for (const TransferIn in : exec::kTransfersIn)
            for (const TransferOut out : exec::kTransfersOut) {
                const EngineRun run = run_on_device(open_device(GetParam()), configuration_of(chain, GetParam()),
                                                    frames, 250, ways(in, out));
                uint64_t batches_in = 0, batches_back = 0;
                for (const Counter& counter : run.counters->batches_in) batches_in += counter.get();
                for (const Counter& counter : run.counters->batches_back) batches_back += counter.get();
                EXPECT_EQ(batches_in, run.counters->batches.get());
                EXPECT_EQ(batches_back, run.counters->batches.get());
                EXPECT_EQ(run.counters->batches_in[static_cast<size_t>(TransferIn::automatic)].get(), 0u);
                const bool changes = std::string(chain.name).find("changes") != std::string::npos;
                if (in != TransferIn::automatic) {
                    const TransferIn expected = in == TransferIn::zero_copy && chain.whole() ? TransferIn::gather : in;
                    EXPECT_EQ(run.counters->batches_in[static_cast<size_t>(expected)].get(), batches_in)
                        << text_of(chain, in, out);
                }
                const bool can = out == TransferOut::zero_copy ? changes && !chain.whole() : chain.whole();
                const TransferOut expected = can ? out : TransferOut::region;
                if (out != TransferOut::automatic) {
                    EXPECT_EQ(run.counters->batches_back[static_cast<size_t>(expected)].get(), batches_back)
                        << text_of(chain, in, out);
                }
            }
}

INSTANTIATE_TEST_SUITE_P(All, Transfers, testing::ValuesIn(offload_devices()), device_test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Transfers);

TEST(TransferFaults, LeaveReceiveBuffersAsTheyWereWhateverTheWay) {
    const std::vector<Frame> frames = random_frames(600, 19);
    for (const Chain& chain : kChains) {
        const EngineRun expected = run_on_cpu(make_configuration(chain.nfs, "cpu"), frames, 256);
        size_t failures = 0, runs = 0;
        for (const TransferIn in : exec::kTransfersIn)
            for (const TransferOut out : exec::kTransfersOut)
                for (const Fault::Kind kind :
                     {Fault::Kind::copy_fails, Fault::Kind::kernel_fails, Fault::Kind::device_lost}) {
                    if (in == TransferIn::automatic || out == TransferOut::automatic) continue;
                    SimOptions sim;
                    sim.seed = static_cast<uint32_t>(++runs);
                    sim.faults = {{kind, runs * 7 % 13}};
                    exec::OffloadOptions options = ways(in, out);
                    if (runs % 2 == 0) options.call_thread = std::make_shared<exec::CallThread>();
                    const EngineRun run = run_on_device(std::make_shared<SimDevice>(sim),
                                                        configuration_of(chain, "sim"), frames, 100, options,
                                                        Work::fault);
                    expect_conserved(run, frames.size());
                    expect_equal(expected, run, text_of(chain, in, out) + ", run " + std::to_string(runs));
                    failures += run.counters->retried_on_cpu.get() > 100;
                }
        EXPECT_GT(failures, runs / 2) << chain.name;
    }
}

}  // namespace
}  // namespace millrace::test
