// Who gets which SMs: an example by hand, every refusal by its figures, and random mixes held against an oracle.
#include "millrace/schedule/plan.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "mixes.hpp"

namespace millrace::schedule {
namespace {

constexpr Gpu kGpu{132, 8, 8};

/// k1 = 100 ns, b1 = 20 us, k2 = 2 ns, b2 = 6 us, C = 4 us: of the example.
Tenant example(double rate, double latency_us, unsigned weight = 1) {
    Tenant tenant;
    tenant.name = "acme";
    tenant.load = {{{20'000, 100}, {6'000, 2}, 1, 1, 0}, rate, latency_us * 1000, 0, 4'000};
    tenant.weight = weight;
    return tenant;
}
const Load* view(const Tenant& tenant) { return &tenant.load; }

std::optional<Turn> settled(const Tenant& tenant, uint32_t sms, Stop* stop = nullptr) {
    const Load* const load = view(tenant);
    return settle({&load, 1}, sms, stop);
}

/// What holds of any plan.
void expect_sound(const std::vector<Tenant>& tenants, const Gpu& gpu, const Plan& plan) {
    ASSERT_EQ(plan.assignments.size(), tenants.size());
    std::vector<int> placed(tenants.size()), refused(tenants.size());
    uint32_t sms = 0;
    for (const Partition& partition : plan.partitions) {
        sms += partition.sms;
        if (plan.sharing != Sharing::temporal) {
            EXPECT_GE(partition.sms, gpu.least);
            EXPECT_EQ((partition.sms - gpu.least) % gpu.grain, 0u);
        }
        for (const size_t tenant : partition.tenants) ++placed[tenant];
    }
    EXPECT_LE(sms, gpu.sms);
    EXPECT_EQ(plan.free_sms, gpu.sms - sms);
    EXPECT_LE(plan.bus, 1 + 1e-9);
    for (const Refusal& refusal : plan.refusals) {
        ++refused[refusal.tenant];
        EXPECT_NE(refusal.limit, Limit::none);
        EXPECT_FALSE(text_of(refusal, gpu).empty());
    }
    for (size_t i = 0; i < tenants.size(); ++i) {
        EXPECT_EQ(placed[i] + refused[i], 1) << i;
        ASSERT_EQ(plan.assignments[i].has_value(), placed[i] == 1);
        if (!plan.assignments[i]) continue;
        const Assignment& own = *plan.assignments[i];
        EXPECT_GE(own.batch, 1u);
        EXPECT_LE(own.batch, tenants[i].load.most_packets(plan.partitions[own.partition].sms));
        EXPECT_GE(own.rate, tenants[i].load.rate);
    }
}

/// Promises are kept when the plan runs.
size_t expect_kept(const std::vector<Tenant>& tenants, const Plan& plan) {
    size_t kept = 0;
    const auto lived = test::live(tenants, plan, 60);
    for (size_t i = 0; i < tenants.size(); ++i) {
        if (!plan.assignments[i]) continue;
        ++kept;
        EXPECT_TRUE(lived[i].kept_up) << i;
        EXPECT_LE(lived[i].longest_ns, plan.assignments[i]->latency_ns * (1 + 1e-9)) << i;
        const double promised = tenants[i].load.latency_ns > 0 ? tenants[i].load.latency_ns : INFINITY;
        EXPECT_LE(plan.assignments[i]->latency_ns, promised * (1 + 1e-9)) << i;
    }
    return kept;
}

// By hand, for 10 million packets a second, T = 0.01 a ns:
//   Eq 3 on 8 SMs: B0 = 0.01 · 30000 / (8 − 0.01 · (100 + 2 · 8)) = 300 / 6.84 = 43.86, so B > 350.9.
//   With 352 packets, 44 an SM: 44 · 100 + 20000 + 352 · 2 + 6000 + 4000 = 35104 ns, in which 351.04 packets come.
//   With 351: 35102 ns, in which 351.02 come, one too many.
TEST(Settle, IsTheExampleByHand) {
    const auto turn = settled(example(10e6, 0), 8);
    ASSERT_TRUE(turn);
    EXPECT_EQ(turn->batches, (std::vector<uint32_t>{352}));
    EXPECT_DOUBLE_EQ(turn->cycle_ns, 35'104);
}

// One SM: 0.01 · (100 + 2) = 1.02 of its time. Two: B0 = 300 / 0.96 = 312.5, 62.5 us: 125 us with the wait. Three:
// 155 packets an SM, 465 in all, 46.43 us, in which 464.3 come: 92.86 us with the wait.
TEST(Plan, TakesTheFewestMultiprocessorsOfTheExample) {
    const Gpu gpu{3, 1, 1};
    const Plan slow = make_plan({example(10e6, 200)}, {2, 1, 1});
    ASSERT_TRUE(slow.assignments[0]);
    EXPECT_EQ(slow.partitions[0].sms, 2u);
    const Plan fast = make_plan({example(10e6, 100)}, gpu);
    ASSERT_TRUE(fast.assignments[0]);
    EXPECT_EQ(fast.partitions[0].sms, 3u);
    EXPECT_EQ(fast.assignments[0]->batch, 465u);
    EXPECT_DOUBLE_EQ(fast.assignments[0]->latency_ns, 92'860);
    EXPECT_FALSE(make_plan({example(10e6, 100)}, {2, 1, 1}).assignments[0]);
}

// Two SMs of three keep the promise; the third is left over.
TEST(Plan, TellsWhatIsNeededOfAPartition) {
    const Plan plan = make_plan({example(10e6, 200)}, {3, 1, 1});
    ASSERT_EQ(plan.partitions.size(), 1u);
    EXPECT_EQ(plan.partitions[0].needed, 2u);
    EXPECT_EQ(plan.partitions[0].sms, 3u);
    for (const Sharing sharing : kSharings)
        for (const Partition& own : make_plan({example(10e6, 200), example(1e6, 0)}, kGpu, sharing).partitions) {
            EXPECT_GT(own.needed, 0u) << name_of(sharing);
            EXPECT_LE(own.needed, own.sms) << name_of(sharing);
        }
}

TEST(Plan, LetsThoseInFirstWhoWerePromisedSomething) {
    // As many as there are partitions stand before it.
    std::vector<Tenant> tenants(16, example(0, 0));
    tenants.push_back(example(10e6, 80));
    for (const Sharing sharing : {Sharing::spatial, Sharing::temporal}) {
        const Plan plan = make_plan(tenants, kGpu, sharing);
        EXPECT_TRUE(plan.assignments.back()) << name_of(sharing);
        ASSERT_TRUE(make_plan({tenants.back()}, kGpu, sharing).assignments[0]);
    }
}

TEST(Plan, RefusesWithTheFigureThatStopsIt) {
    const auto refusal = [](const std::vector<Tenant>& tenants, const Gpu& gpu) {
        const Plan plan = make_plan(tenants, gpu);
        return plan.refusals.empty() ? Refusal{} : plan.refusals.front();
    };
    // 1 / (100 / 2 + 2) ns: 19.2 million packets a second.
    const Refusal rate = refusal({example(20e6, 0)}, {2, 1, 1});
    EXPECT_EQ(rate.limit, Limit::rate);
    EXPECT_NEAR(rate.possible, 1e9 / 52, 1);
    EXPECT_NE(text_of(rate, {2, 1, 1}).find("1.923e+07 at most"), std::string::npos) << text_of(rate, {2, 1, 1});
    // Two starts of 30 us are more than 50, on however many SMs.
    EXPECT_EQ(refusal({example(1000, 50)}, kGpu).limit, Limit::latency);
    Tenant small = example(10e6, 0);
    small.load.max_batch = 100;
    EXPECT_EQ(refusal({small}, kGpu).limit, Limit::batch);
    EXPECT_EQ(refusal({example(10e6, 75), example(10e6, 75)}, {8, 8, 8}).limit, Limit::sms);
    // 2 · 0.3 / 2 packets a ns and 2 ns each.
    Tenant heavy = example(0.3e9, 0);
    EXPECT_EQ(refusal({heavy, heavy}, {1000, 8, 8}).limit, Limit::bus);
    EXPECT_EQ(refusal({example(1, 0)}, {0, 8, 8}).limit, Limit::sms);
    EXPECT_EQ(refusal({example(1, 0)}, {7, 8, 8}).limit, Limit::sms);
}

TEST(Plan, KeepsPromisesOfRandomMixes) {
    size_t kept = 0, refused = 0;
    for (unsigned seed = 0; seed < 1000; ++seed) {
        SCOPED_TRACE(seed);
        std::mt19937 random(seed);
        const size_t count = 2 + random() % 7;
        const auto tenants = test::random_tenants(random, count, kGpu, 0.05 + random() % 100 / 100.0);
        for (const Sharing sharing : {Sharing::spatial, Sharing::temporal, Sharing::fair}) {
            SCOPED_TRACE(name_of(sharing));
            const Plan plan = make_plan(tenants, kGpu, sharing);
            expect_sound(tenants, kGpu, plan);
            kept += expect_kept(tenants, plan);
            refused += plan.refusals.size();
        }
        if (HasFailure()) return;
    }
    EXPECT_GT(kept, 3000u);
    EXPECT_GT(refused, 1000u);
}

TEST(Plan, KeepsPromisesOfAThousandTenants) {
    for (const double share : {0.0002, 0.002}) {
        std::mt19937 random(1);
        const auto tenants = test::random_tenants(random, 1000, kGpu, share, 40);
        const auto begin = std::chrono::steady_clock::now();
        const Plan plan = make_plan(tenants, kGpu);
        EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
        expect_sound(tenants, kGpu, plan);
        EXPECT_GT(expect_kept(tenants, plan), 100u) << share;
        EXPECT_LE(plan.partitions.size(), 16u);
    }
}

TEST(Plan, NeverTurnsOutWhoWasLetIn) {
    for (unsigned seed = 0; seed < 200; ++seed) {
        std::mt19937 random(seed);
        auto tenants = test::random_tenants(random, 12, kGpu, 0.3);
        const Plan all = make_plan(tenants, kGpu);
        while (tenants.size() > 1) {
            tenants.pop_back();
            const Plan fewer = make_plan(tenants, kGpu);
            for (size_t i = 0; i < tenants.size(); ++i)
                EXPECT_EQ(fewer.assignments[i].has_value(), all.assignments[i].has_value()) << seed << " " << i;
        }
    }
}

TEST(Settle, IsMonotone) {
    for (unsigned seed = 0; seed < 2000; ++seed) {
        std::mt19937 random(seed);
        const auto tenants = test::random_tenants(random, 1 + random() % 4, kGpu, 0.2);
        std::vector<Load> loads;
        std::vector<const Load*> views;
        for (const Tenant& tenant : tenants) loads.push_back(tenant.load);
        for (const Load& load : loads) views.push_back(&load);
        const auto cycle = [&](uint32_t sms) {
            const auto turn = settle(views, sms);
            return turn ? turn->cycle_ns : INFINITY;
        };
        double before = INFINITY;
        for (const uint32_t sms : {1u, 2u, 8u, 16u, 24u, 64u, 132u}) {
            EXPECT_LE(cycle(sms), before) << "more SMs take no longer";
            before = cycle(sms);
        }
        loads[0].rate *= 0.9;
        EXPECT_LE(cycle(132), before) << "fewer packets take no longer";
        loads[0].latency_ns *= 2;
        EXPECT_LE(cycle(132), before) << "patience breaks no promise";
        loads[0].rate /= 0.9;
        before = cycle(132);
        loads[0].model.kernel.slope *= 1.5;
        EXPECT_GE(cycle(132), before) << "slower code takes no shorter";
        if (HasFailure()) return;
    }
}

TEST(Plan, HandsOutWhatIsLeftByWeight) {
    // Each needs 8 of 144; 16 grains are left.
    const Gpu gpu{144, 8, 8};
    const Plan plan = make_plan({example(1e6, 0, 3), example(1e6, 0, 1)}, gpu);
    ASSERT_EQ(plan.partitions.size(), 2u);
    EXPECT_EQ(plan.partitions[0].sms, 8u + 12 * 8u);
    EXPECT_EQ(plan.partitions[1].sms, 8u + 4 * 8u);
    EXPECT_EQ(plan.free_sms, 0u);
    // Who has more to do than was promised comes first: 0.3 · (100 / N + 2) < 1 for N > 75.
    Tenant busy = example(1e6, 0, 1);
    busy.offered = 300e6;
    const Plan rush = make_plan({example(1e6, 0, 3), busy}, gpu);
    EXPECT_EQ(rush.partitions[1].sms, 80u);
    EXPECT_EQ(rush.assignments[1]->rate, 300e6);
    EXPECT_EQ(rush.partitions[0].sms, 64u);
}

TEST(Plan, ComparesWithOneAtATimeEqualPartsAndNobody) {
    const std::vector<Tenant> tenants = {example(300e6, 0), example(1e6, 0)};
    const Plan spatial = make_plan(tenants, kGpu);
    EXPECT_TRUE(spatial.refusals.empty());
    const Plan fair = make_plan(tenants, kGpu, Sharing::fair);
    ASSERT_EQ(fair.partitions.size(), 2u);
    EXPECT_EQ(fair.partitions[0].sms, 64u);
    EXPECT_EQ(fair.refusals.size(), 1u) << "the first needs more than half";
    const Plan temporal = make_plan(tenants, kGpu, Sharing::temporal);
    ASSERT_EQ(temporal.partitions.size(), 1u);
    EXPECT_EQ(temporal.partitions[0].sms, 132u);
    const Plan nobody = make_plan(tenants, kGpu, Sharing::uncoordinated);
    EXPECT_TRUE(nobody.refusals.empty());
    EXPECT_EQ(nobody.used_sms(), 132u);
    EXPECT_EQ(nobody.assignments[0]->batch, 16384u);
    EXPECT_LT(nobody.assignments[0]->rate, 300e6) << "full batches of others are in the way of a promise";
    for (const Sharing sharing : kSharings) EXPECT_TRUE(make_plan({}, kGpu, sharing).partitions.size() <= 1);
}

TEST(Plan, SaysWhichMultiprocessorsAreWhose) {
    const std::vector<Tenant> tenants = {example(10e6, 200), example(20e6, 0), example(1e6, 300)};
    for (const Sharing sharing : {Sharing::spatial, Sharing::fair}) {
        const Plan plan = make_plan(tenants, kGpu, sharing);
        uint32_t next = 0;
        for (size_t i = 0; i < tenants.size(); ++i) {
            const GpuShare share = plan.share_of(i);
            EXPECT_EQ(share.sms.first, next) << name_of(sharing);
            EXPECT_EQ(share.sms.count, plan.partitions[plan.assignments[i]->partition].sms);
            EXPECT_FALSE(share.in_turn);
            next = share.sms.first + share.sms.count;
        }
        EXPECT_LE(next, kGpu.sms);
    }
    EXPECT_EQ(make_plan(tenants, kGpu, Sharing::temporal).share_of(1), (GpuShare{{}, true}));
    EXPECT_EQ(make_plan(tenants, kGpu, Sharing::uncoordinated).share_of(1), GpuShare());
    const Plan refused = make_plan({example(1000, 50)}, kGpu);
    EXPECT_EQ(refused.share_of(0), GpuShare()) << "it was not let in";
}

TEST(Plan, GivesNoFewerMultiprocessorsThanItRunsOn) {
    Tenant ordered = example(1e6, 0);
    ordered.load.least_sms = 24;
    EXPECT_EQ(make_plan({ordered}, {24, 8, 8}).partitions.at(0).sms, 24u);
    const Plan none = make_plan({ordered}, {16, 8, 8});
    ASSERT_EQ(none.refusals.size(), 1u);
    EXPECT_EQ(none.refusals[0].limit, Limit::sms);
    EXPECT_EQ(none.refusals[0].asked, 24);
}

// Alone a batch takes 30 us, of which 6 are the bus's: it has room for five such tenants. With 800 us between batches
// it has room for all.
TEST(Plan, LetsBatchesWaitWhereTheBusHasNoRoom) {
    const std::vector<Tenant> tenants(12, example(33'000, 2000));
    for (const Sharing sharing : {Sharing::spatial, Sharing::fair}) {
        SCOPED_TRACE(name_of(sharing));
        const Plan plan = make_plan(tenants, kGpu, sharing);
        EXPECT_TRUE(plan.refusals.empty());
        expect_sound(tenants, kGpu, plan);
        EXPECT_EQ(expect_kept(tenants, plan), tenants.size());
        EXPECT_LE(plan.bus, 1);
    }
    for (const auto& own : make_plan(tenants, kGpu, Sharing::fair).assignments) EXPECT_GE(own->wait_ns, 72'000);
    // None of them can wait for so long.
    const Plan hasty = make_plan(std::vector<Tenant>(12, example(33'000, 90)), kGpu, Sharing::fair);
    ASSERT_EQ(hasty.refusals.size(), 7u);
    EXPECT_EQ(hasty.refusals[0].limit, Limit::bus);
}

// As in the example, of six workers: 6 · (6 + 4) + 20 us for a cycle without packets.
TEST(Settle, CountsTheBatchesOfAllWorkers) {
    Tenant tenant = example(10e6, 0);
    tenant.load.queues = 6;
    const auto turn = settled(tenant, 8);
    ASSERT_TRUE(turn);
    const double cycle = turn->cycle_ns;
    EXPECT_DOUBLE_EQ(cycle, tenant.load.batches_ns(turn->batches[0], 8));
    EXPECT_GT(cycle, 80'000 / (1 - 10e6 * 1e-9 * (100.0 / 8 + 2)));
    EXPECT_GE(turn->batches[0], 10e6 * cycle * 1e-9);
    const Plan plan = make_plan({tenant}, {8, 8, 8});
    EXPECT_EQ(plan.assignments[0]->batch, (turn->batches[0] + 5) / 6);
    EXPECT_GT(plan.bus, make_plan({example(10e6, 0)}, {8, 8, 8}).bus);
}

TEST(CommonPlan, HasTheHighestRateThatAllCanHave) {
    for (const Sharing sharing : {Sharing::spatial, Sharing::temporal, Sharing::fair}) {
        Tenant slow = example(1, 1000);
        slow.load.model.kernel.slope = 1000;
        const std::vector<Tenant> tenants = {example(1, 1000), slow};
        const CommonPlan common = make_common_plan(tenants, kGpu, sharing);
        SCOPED_TRACE(name_of(sharing));
        ASSERT_GT(common.rate, 0);
        EXPECT_TRUE(common.plan.refusals.empty());
        std::vector<Tenant> asked = tenants;
        for (Tenant& tenant : asked) tenant.load.rate = common.rate;
        EXPECT_TRUE(make_plan(asked, kGpu, sharing).refusals.empty());
        for (Tenant& tenant : asked) tenant.load.rate = common.rate * 1.01;
        EXPECT_FALSE(make_plan(asked, kGpu, sharing).refusals.empty());
    }
    EXPECT_EQ(make_common_plan({example(1, 50)}, kGpu, Sharing::spatial).rate, 0) << "no rate keeps 50 us";
}

TEST(TrafficWatch, AsksForAPlanBeyondTenPercent) {
    TrafficWatch watch;
    EXPECT_FALSE(watch.changed({}));
    EXPECT_TRUE(watch.changed({1}));
    watch.planned({1000, 0});
    EXPECT_FALSE(watch.changed({1000, 0}));
    EXPECT_FALSE(watch.changed({1100, 0}));
    EXPECT_FALSE(watch.changed({900, 0}));
    EXPECT_TRUE(watch.changed({1101, 0}));
    EXPECT_TRUE(watch.changed({899, 0}));
    EXPECT_TRUE(watch.changed({1000, 1}));
    EXPECT_TRUE(watch.changed({1000}));
}

}  // namespace
}  // namespace millrace::schedule
