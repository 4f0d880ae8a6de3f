// Tenants that are slow in a chain that goes through a GPU in one piece.
#include <fmt/format.h>

#include "tenancy/chain_run.hpp"
#include "tenancy/on_the_gpu.hpp"
#include "tenancy/sender.hpp"

namespace millrace::tenancy {
namespace {

using millrace::test::Frame;
using test::ChainRun;
using test::numbered;
using test::OnTheGpu;
using test::Sender;
using test::wait_until;

class SlowOnTheGpu : public OnTheGpu {};

/// Goes round so often, within its budget, for packets whose byte at `at` is `value`.
std::string slow_for(uint32_t at, uint32_t value, uint32_t rounds) {
    std::string slow = test::reads_and_marks(0, 0);
    slow.insert(slow.find(".reg .b64"), ".reg .pred %p<3>;\n");
    slow.replace(slow.find("%r<3>"), 5, "%r<5>");
    slow.insert(slow.find("mov.u32 %r2, 0;"),
                fmt::format("ld.u8 %r4, [%rd1+{}];\nsetp.ne.u32 %p2, %r4, {};\n@%p2 bra done;\n"
                            "mov.u32 %r3, 0;\nagain:\nadd.u32 %r3, %r3, 1;\nsetp.lt.u32 %p1, %r3, {};\n"
                            "@%p1 bra again;\ndone:\n",
                            at, value, rounds));
    return slow;
}

TEST_F(SlowOnTheGpu, AFunctionThatTakesTooLongIsLate) {
    const std::string slow = slow_for(0, 0, 40000);
    const std::string node =
        "{tenant: acme, reads: [eth.dst], writes: [eth.dst], outcomes: {forward: next}, "
        "absent: bypass, patience: 100us}";
    ChainRun run("[" + node + "]", "tenants: [{name: acme}]\n", "cuda", "500", numbered(1500), 64);
    Sender acme(run.socket(), "acme", test::half_of(slow, "marker"));
    ASSERT_TRUE(wait_until([&] { return !acme.text().empty(); }));
    ASSERT_NE(acme.text().find("fenced"), std::string::npos) << acme.text();
    run.runtime().start();
    ASSERT_TRUE(wait_until([&] { return !acme.parted().empty(); }));
    EXPECT_EQ(acme.parted(), "it did not answer in time");
    EXPECT_EQ(run.finish().out.size(), 1500u);
    EXPECT_GE(run.tenant("acme").misdeeds.at("late"), 4u);
    EXPECT_GE(run.tenant("acme").chain_batches, 4u);
    EXPECT_GT(run.tenant("acme").absent.at("away"), 0u) << "since then";
}

/// Whether of three neighbours the middle one alone, which takes long for one packet of 64, takes long.
bool is_slow_alone(size_t slow_one) {
    std::vector<Frame> frames = numbered(64 * 8);
    for (size_t i = 0; i < frames.size(); ++i) frames[i][1] = i % 64 == slow_one;
    std::string nfs;
    for (const char* const name : {"before", "slow", "behind"})
        nfs += fmt::format(
            "{}{{tenant: {}, reads: [eth.dst], writes: [eth.dst], outcomes: {{forward: next}}, absent: drop, "
            "patience: 10s}}",
            nfs.empty() ? "[" : ", ", name);
    ChainRun run(nfs + "]", "tenants: [{name: before}, {name: slow}, {name: behind}]\n", "cuda", "max", frames, 64);
    const DeviceHalf honest = test::half_of(test::reads_and_marks(0, 0), "marker");
    Sender before(run.socket(), "before", honest), behind(run.socket(), "behind", honest),
        slow(run.socket(), "slow", test::half_of(slow_for(1, 1, 100000), "marker"));
    for (Sender* const one : {&before, &behind, &slow}) {
        EXPECT_TRUE(wait_until([&] { return !one->text().empty(); }));
        EXPECT_NE(one->text().find("fenced"), std::string::npos) << one->text();
    }
    run.runtime().start();
    EXPECT_EQ(run.finish().out.size(), frames.size());
    for (const char* const name : {"before", "slow", "behind"}) {
        EXPECT_EQ(run.tenant(name).chain_batches, run.tenant(name).batches) << name << ": in one piece";
        EXPECT_GE(run.tenant(name).batches, 8u);
    }
    const uint64_t took = run.tenant("slow").answer_p50_ns;
    return run.tenant("before").answer_p50_ns < took && run.tenant("behind").answer_p50_ns < took;
}

TEST_F(SlowOnTheGpu, WhoIsSlowForOnePacketOfABatchIsSlowAndNoNeighbourOfIt) {
    // On a busy machine an emulated GPU may take as long for an honest function; but not again and again.
    constexpr int kTries = 4;
    for (const size_t slow_one : {0u, 40u, 63u}) {
        int tries = 0;
        while (tries < kTries && !is_slow_alone(slow_one)) ++tries;
        EXPECT_LT(tries, kTries) << "packet " << slow_one;
    }
}

}  // namespace
}  // namespace millrace::tenancy
