// What could be promised in place of what has no room.
#include "millrace/schedule/room.hpp"

#include <gtest/gtest.h>

#include "mixes.hpp"

namespace millrace::schedule {
namespace {

constexpr Gpu kWhole{132, 8, 8};

Tenant asks(double rate, double latency_us) {
    Tenant tenant;
    tenant.load = {{{20'000, 100}, {6'000, 2}, 1, 1, 0}, rate, latency_us * 1000, 0, 4'000};
    return tenant;
}

// 1 / (100 / 2 + 2) ns: 19.2 million packets a second, with no bound of latency.
TEST(Room, IsWhatTheExampleHas) {
    const Room none = room_for_last({asks(20e6, 0)}, {2, 1, 1}, Sharing::spatial);
    EXPECT_EQ(none.rate, 19e6);
    EXPECT_EQ(none.latency_ns, 0) << "it asks for none";
    // 10 million a second take 92.86 us with the wait on three SMs (plan_test).
    const Room late = room_for_last({asks(10e6, 50)}, {3, 1, 1}, Sharing::spatial);
    EXPECT_EQ(late.latency_ns, 93'000);
    // Twice the start: 60 us for whatever rate.
    EXPECT_EQ(room_for_last({asks(1000, 50)}, {3, 1, 1}, Sharing::spatial).rate, 0);
    EXPECT_EQ(room_for_last({}, kWhole, Sharing::spatial).rate, 0);
}

TEST(Room, IsThereForWhatItSays) {
    std::mt19937 random(20);
    size_t rates = 0, latencies = 0;
    for (int round = 0; round < 60; ++round)
        for (const Sharing sharing : {Sharing::spatial, Sharing::temporal}) {
            std::vector<Tenant> tenants = test::random_tenants(random, 2 + round % 7, kWhole, 0.4);
            const Plan all = make_plan(tenants, kWhole, sharing);
            std::erase_if(tenants, [&, i = size_t{0}](const Tenant& own) mutable {
                return !all.assignments[i++] && &own != &tenants.back();
            });
            if (keeps_promises(tenants, make_plan(tenants, kWhole, sharing))) continue;
            const Room room = room_for_last(tenants, kWhole, sharing);
            const Load asked = tenants.back().load;
            EXPECT_LE(room.rate, asked.rate);
            if (room.latency_ns > 0) {
                EXPECT_GE(room.latency_ns, asked.latency_ns);
            }
            for (const bool by_rate : {true, false}) {
                if ((by_rate ? room.rate : room.latency_ns) == 0) continue;
                ++(by_rate ? rates : latencies);
                tenants.back().load = asked;
                (by_rate ? tenants.back().load.rate : tenants.back().load.latency_ns) = by_rate ? room.rate
                                                                                                : room.latency_ns;
                EXPECT_TRUE(keeps_promises(tenants, make_plan(tenants, kWhole, sharing)));
            }
        }
    EXPECT_GT(rates, 5u);
    EXPECT_GT(latencies, 5u);
}

}  // namespace
}  // namespace millrace::schedule
