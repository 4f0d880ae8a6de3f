// Ways that the product does not have give the same packets, and move the bytes that they are there to be compared for.
#include "lab/compared/comparison.hpp"

#include <gtest/gtest.h>

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
using lab::Comparison;

std::vector<Comparison> comparisons(const std::string& device) {
    std::vector<Comparison> all{{.no_sharing = true}, {.selective = true}, {.no_sharing = true, .selective = true}};
    if (device == "cuda") all.push_back({.graphs = true});
    return all;
}

std::string text_of(const Comparison& compared, const exec::OffloadOptions& options) {
    return compared.mode(options) + ", " + compared.transfer_out(options) + (compared.graphs ? ", graphs, " : ", ") +
           exec::name_of(options.transfer_in) + (options.call_thread != nullptr ? ", a thread for calls" : "");
}

class Compared : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
    std::shared_ptr<device::Device> device(const Comparison& compared, uint32_t seed = 1) const {
        if (compared.graphs) return compared.open({.kind = "cuda"}, "");
        return compared.put_before(open_device(GetParam(), seed));
    }
};

TEST_P(Compared, GiveTheSameAnswerWithEveryTransfer) {
    const std::vector<Frame> frames = random_frames(700, 17);
    const EngineRun expected = run_on_cpu(make_test_chain("cpu"), frames, 256);
    uint32_t seed = 0;
    for (const Comparison& compared : comparisons(GetParam()))
        for (const exec::TransferIn in : exec::kTransfersIn)
            for (const bool whole : {false, true})
                for (const bool thread : {false, true}) {
                    exec::OffloadOptions options;
                    options.transfer_in = in;
                    if (thread) options.call_thread = std::make_shared<exec::CallThread>();
                    SCOPED_TRACE(text_of(compared, options) + (whole ? ", whole frames" : ""));
                    chain::Configuration configuration = make_test_chain(GetParam());
                    if (whole) configuration = chain::with_whole_frames(std::move(configuration));
                    const auto own = device(compared, ++seed);
                    const EngineRun run = run_on_device(own, configuration, frames, 150,
                                                        compared.apply(options, own->model()));
                    expect_conserved(run, frames.size());
                    expect_equal(expected, run, "the same");
                }
}

TEST_P(Compared, GiveTheSameAnswerForContiguousFrames) {
    const std::vector<Frame> frames = random_frames(700, 18);
    const EngineRun expected = without_visits(run_on_cpu(make_test_chain("cpu"), frames, 256));
    for (const Comparison& compared : comparisons(GetParam())) {
        const auto own = device(compared);
        const EngineRun run = run_contiguous(own, make_test_chain(GetParam()), frames, 150,
                                             compared.apply({}, own->model()));
        expect_equal(expected, run, text_of(compared, {}));
    }
}

/// Frames that a chain of mirrors sends on, or that a firewall mostly drops.
std::vector<Frame> long_frames() {
    const Frame passed = build_packet(
        "{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, udp: {src: 1, dst: 2}, payload: {repeat: x, count: 1400}}");
    const Frame dropped = build_packet(
        "{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, udp: {src: 1, dst: 3}, payload: {repeat: x, count: 1400}}");
    std::vector<Frame> frames;
    for (int i = 0; i < 100; ++i) frames.push_back(i % 4 == 0 ? passed : dropped);
    return frames;
}
constexpr size_t kLength = 1442;

struct Bytes {
    int64_t to_device, to_host;
};

Bytes bytes_of(const std::shared_ptr<device::Device>& device, const std::string& nfs, const std::string& name,
               const exec::OffloadOptions& options) {
    const std::vector<Frame> frames = long_frames();
    const EngineRun run = run_on_device(device, chain::with_whole_frames(make_configuration(nfs, name)), frames, 100,
                                        options);
    expect_conserved(run, frames.size());
    expect_equal(run_on_cpu(make_configuration(nfs, "cpu"), frames, 100), run, nfs);
    const lab::MoreBytes more = lab::more_bytes(*device);
    return {static_cast<int64_t>(run.counters->bytes_to_device.get()) + more.to_device,
            static_cast<int64_t>(run.counters->bytes_to_host.get()) + more.to_host};
}

TEST_P(Compared, MoveTheFramesForEachNfWhereNoneShare) {
    const std::string nfs = "[mirror, {name: again, mirror: {}}, {name: last, mirror: {}}]";
    exec::OffloadOptions options;
    options.mode = device::Mode::pipelined;
    const Bytes once = bytes_of(open_device(GetParam(), 1), nfs, GetParam(), options);
    const Comparison compared{.no_sharing = true};
    const auto own = device(compared);
    const Bytes each = bytes_of(own, nfs, GetParam(), compared.apply({}, own->model()));
    const auto twice = static_cast<int64_t>(2 * long_frames().size() * kLength);
    EXPECT_GE(each.to_device, once.to_device + twice) << "three NFs, so two more ways in";
    EXPECT_GE(each.to_host, once.to_host + twice);
    EXPECT_LT(each.to_host, once.to_host + twice + twice / 2);
}

TEST_P(Compared, MoveBackOnlyWhatGoesOnWhereFramesAreSelected) {
    const std::string nfs = "[firewall: {default: deny, rules: [permit udp from any to any port 2]}, mirror]";
    const Bytes all = bytes_of(open_device(GetParam(), 1), nfs, GetParam(), {});
    const Comparison compared{.selective = true};
    const auto own = device(compared);
    const Bytes some = bytes_of(own, nfs, GetParam(), compared.apply({}, own->model()));
    EXPECT_EQ(all.to_device, some.to_device);
    EXPECT_GE(some.to_host, static_cast<int64_t>(25 * kLength));
    EXPECT_LE(some.to_host + static_cast<int64_t>(75 * kLength), all.to_host);
}

INSTANTIATE_TEST_SUITE_P(All, Compared, testing::ValuesIn(offload_devices()), device_test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Compared);

TEST(ComparedFaults, LoseNothing) {
    const std::vector<Frame> frames = random_frames(500, 19);
    const EngineRun expected = run_on_cpu(make_test_chain("cpu"), frames, 256);
    uint64_t retried = 0;
    for (const Comparison& compared : comparisons("sim"))
        for (const Fault::Kind kind : {Fault::Kind::copy_fails, Fault::Kind::kernel_fails, Fault::Kind::device_lost})
            for (uint64_t after = 0; after < 60; after += 17) {
                SimOptions sim;
                sim.seed = static_cast<uint32_t>(after);
                sim.faults = {{kind, after}};
                const auto own = compared.put_before(std::make_shared<SimDevice>(sim));
                const auto whole = chain::with_whole_frames(make_test_chain("sim"));
                const EngineRun run = run_on_device(own, whole, frames, 100, compared.apply({}, own->model()),
                                                    Work::fault);
                expect_conserved(run, frames.size());
                expect_equal(expected, run, text_of(compared, {}) + ", fault after " + std::to_string(after));
                retried += run.counters->retried_on_cpu.get();
            }
    EXPECT_GT(retried, 0u) << "no fault was met";
}

TEST(Comparisons, HaveTheirNamesBesideTheProducts) {
    EXPECT_EQ((Comparison{.no_sharing = true}).mode({}), "no-sharing");
    EXPECT_EQ(Comparison{}.mode({}), "fused");
    EXPECT_EQ((Comparison{.selective = true}).transfer_out({}), "selective");
    EXPECT_EQ(Comparison{}.transfer_out({}), "auto");
    EXPECT_EQ(lab::compared_modes().size(), std::size(device::kModes) + 1);
    EXPECT_EQ(lab::compared_transfers_out().size(), std::size(exec::kTransfersOut) + 1);
}

}  // namespace
}  // namespace millrace::test
