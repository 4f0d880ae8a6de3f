#include "millrace/base/eal.hpp"

#include <gtest/gtest.h>
#include <pthread.h>
#include <rte_lcore.h>
#include <sys/resource.h>

#include <cstdlib>
#include <ctime>
#include <iostream>
#include <stdexcept>
#include <string>

namespace millrace {
namespace {

TEST(Eal, StartsOnceQuicklyAndLeavesTheThreadWhereItWas) {
    cpu_set_t before, after;
    pthread_getaffinity_np(pthread_self(), sizeof before, &before);
    const std::clock_t begin = std::clock();  // of this process, whatever else the machine does
    start_eal();
    EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC);  // measured: 0.12 s by the clock
    EXPECT_TRUE(eal_running());
    EXPECT_FALSE(eal_has_huge_pages());
    start_eal({.memory_mib = 1});
    pthread_getaffinity_np(pthread_self(), sizeof after, &after);
    EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

/// In a process of its own, as one that has failed to start it never can.
TEST(Eal, SaysWhyItDoesNotStartAndIsNotStartedAgain) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto why = [](const EalOptions& options) -> std::string {
        try {
            start_eal(options);
        } catch (const std::runtime_error& e) {
            return e.what();
        }
        return "";
    };
    EXPECT_EXIT(
        {
            const std::string first = why({.arguments = {"-d", "/nowhere/librte_nothing.so"}});
            std::cerr << "\nfirst: " << first << (why({}) == first ? "\nthe same again" : "\nanother again");
            std::cerr << (eal_running() ? ", and it runs" : ", and it does not run") << std::endl;
            bool ran = false;
            WorkerThread("ordinary", -1, [&] { ran = true; }).join();
            std::exit(ran ? 0 : 1);
        },
        testing::ExitedWithCode(0), "first: DPDK does not start: .*\nthe same again, and it does not run");
}

/// In a process of its own, which gets no more addresses.
TEST(Eal, SaysThatItsAddressesAreLimited) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            rlimit few{};
            few.rlim_cur = few.rlim_max = size_t{1} << 30;
            setrlimit(RLIMIT_AS, &few);
            try {
                start_eal();
                std::exit(1);
            } catch (const std::runtime_error& e) {
                std::cerr << "\nsaid: " << e.what() << std::endl;
                std::exit(0);
            }
        },
        testing::ExitedWithCode(0), "said: DPDK does not start: .*1024 MiB of addresses.*raise 'ulimit -v'");
}

TEST(WorkerThread, IsKnownToDpdkAndRunsWhereItIsTold) {
    start_eal();
    cpu_set_t allowed;
    pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &allowed)) ++cpu;
    unsigned lcore = LCORE_ID_ANY;
    int ran_on = -1;
    WorkerThread("worker with a long name", cpu, [&] {
        lcore = rte_lcore_id();
        ran_on = sched_getcpu();
    }).join();
    EXPECT_NE(lcore, LCORE_ID_ANY);
    EXPECT_EQ(ran_on, cpu);
}

TEST(WorkerThread, RefusesACpuThatIsNotThere) {
    bool ran = false;
    EXPECT_THROW(WorkerThread("nowhere", 1023, [&] { ran = true; }), std::runtime_error);
    EXPECT_THROW(WorkerThread("nowhere", 1 << 20, [&] { ran = true; }), std::runtime_error);
    EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace millrace
