// Outcomes that a network function gives and did not declare: dropped under a name of their own, on every device.
#include <gtest/gtest.h>

#include "millrace/device/sim/sim_device.hpp"
#include "support/engine_runner.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {
namespace {

/// Declares two outcomes, and gives what the frame's first byte says.
struct Stray {
    enum Outcome : uint32_t { kFirst, kSecond };
    static constexpr Fields reads = field::eth_dst;
    static constexpr Fields writes = field::none;
    static constexpr unsigned lanes = 1;
    struct Tables {};
    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables&, Lanes) {
        return {17, packet.data()[0] == 255 ? 0xffffffffu : packet.data()[0]};
    }
};
class StrayHost : public nf::NetworkFunction {
public:
    StrayHost(const Config&, const nf::Environment&) { image_.start<Stray::Tables>(); }
    const nf::Image& image() const override { return image_; }
    std::string explain(const Decision& decision) const override {
        EXPECT_LT(decision.outcome, 2u) << "it knows its own outcomes only";
        return "";
    }

private:
    nf::Image image_;
};
const nf::Register<Stray, StrayHost> registration{{
    .name = "stray",
    .summary = "gives outcomes that it does not declare",
    .outcomes = {{"first", nf::Disposition::next, ""}, {"second", nf::Disposition::punt, ""}},
    .device_header = "none",
    .device_struct = "millrace::test::Stray",
}};

/// A thousand packets: a quarter each of declared and undeclared outcomes, within and beyond what a byte or the
/// counters can hold.
std::vector<Frame> frames() {
    constexpr uint8_t kOutcomes[] = {0, 1, 2, 30, 31, 32, 64, 255};
    std::vector<Frame> all;
    for (size_t i = 0; i < 1000; ++i) {
        all.push_back(build_packet("{ipv4: {}, udp: {}}"));
        all.back()[0] = kOutcomes[i % 8];
    }
    return all;
}

void check(const EngineRun& run) {
    ASSERT_EQ(run.outcomes.size(), 1000u);
    for (size_t i = 0; i < 1000; ++i) {
        const exec::Verdict& verdict = run.outcomes[i].verdict;
        if (i % 8 < 2) {
            EXPECT_EQ(verdict.decision.outcome, i % 8);
            EXPECT_NE(verdict.target.kind, Target::Kind::drop);
        } else {
            ASSERT_EQ(verdict.target.kind, Target::Kind::drop) << i;
            ASSERT_EQ(verdict.decision.outcome, kUndeclaredOutcome) << i;
            ASSERT_EQ(verdict.node, 0u);
        }
    }
    const exec::NodeCounters& node = *run.counters->nodes[0];
    ASSERT_EQ(node.by_outcome.size(), 3u);
    EXPECT_EQ(node.outcomes.back(), "undeclared-outcome");
    EXPECT_EQ(node.by_outcome[0].get(), 125u);
    EXPECT_EQ(node.by_outcome[1].get(), 125u);
    EXPECT_EQ(node.by_outcome[2].get(), 750u);
    EXPECT_EQ(run.counters->nodes[1]->packets.get(), 125u) << "only the first outcome leads on";
}

TEST(UndeclaredOutcomes, AreDroppedUnderTheirNameOnTheCpu) {
    check(run_on_cpu(make_configuration("[stray: {}, mirror: {}]", "cpu"), frames(), 256));
}

TEST(UndeclaredOutcomes, AreDroppedUnderTheirNameOnADevice) {
    for (const device::Mode mode : device::kModes) {
        exec::OffloadOptions options;
        options.mode = mode;
        check(run_on_device(std::make_shared<device::sim::SimDevice>(device::sim::SimOptions{}),
                            make_configuration("[stray: {}, mirror: {}]", "sim"), frames(), 256, options));
    }
}

}  // namespace
}  // namespace millrace::test
