// Proof that tests of devices can fail: those that use simulated devices are run again with kernels that fail.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <set>

#include "millrace/device/cuda/driver.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "support/device_work.hpp"

namespace millrace::test {
namespace {

using device::sim::Fault;
using device::sim::SimDevice;

constexpr const char *kProve = "MILLRACE_PROVE_DEVICES", *kKernelsFail = "MILLRACE_KERNELS_FAIL";

std::set<std::string>& claims() {
    static std::set<std::string> names;
    return names;
}

std::string name_of(const testing::TestInfo& test) { return std::string(test.test_suite_name()) + "." + test.name(); }

/// Notes the tests whose simulated devices were to run kernels, or that claim that devices do their work.
class Users : public testing::EmptyTestEventListener {
public:
    void OnTestStart(const testing::TestInfo&) override { kernels_ = SimDevice::all().kernels; }
    void OnTestEnd(const testing::TestInfo& test) override {
        if (SimDevice::all().kernels != kernels_ || claims().contains(name_of(test))) names.push_back(name_of(test));
    }
    std::vector<std::string> names;

private:
    uint64_t kernels_ = 0;
};

/// While kernels fail: who claims the work of devices must fail, and so must who has lost a device. (Some fail before
/// they come to their claim.)
class Verdicts : public testing::EmptyTestEventListener {
public:
    void OnTestStart(const testing::TestInfo&) override { struck_ = SimDevice::all().faults_struck; }
    void OnTestEnd(const testing::TestInfo& test) override {
        const std::string name = name_of(test);
        const bool red = test.result()->Failed(), claimed = claims().contains(name),
                   struck = SimDevice::all().faults_struck != struck_;
        red_ += red;
        if (!red && struck) say(name, "passes though the kernels of its devices failed: it must call expect_work()");
        else if (!red && claimed) say(name, "claims the work of devices, and no kernel was to run");
    }
    int finish() const {
        std::cout << "[  PROOF   ] " << red_ << " tests fail when kernels fail"
                  << (wrong_ > 0 ? ", " + std::to_string(wrong_) + " are not as they should be" : "") << "\n";
        return wrong_ > 0 ? 1 : 0;
    }

private:
    void say(const std::string& name, const char* what) {
        ++wrong_;
        std::cout << "[  FAILED  ] " << name << " " << what << std::endl;
    }
    uint64_t struck_ = 0, red_ = 0, wrong_ = 0;
};

/// This program again, with these tests alone.
int run_again(const char* program, const std::vector<std::string>& names) {
    const std::string file = std::filesystem::temp_directory_path() / ("millrace-tests-" + std::to_string(getpid()));
    std::ofstream flags(file);
    flags << "--gtest_filter=";
    for (const std::string& name : names) flags << name << ":";
    flags << "\n";
    flags.close();
    setenv(kKernelsFail, "1", 1);
    for (const char* variable : {kProve, "GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_OUTPUT"}) unsetenv(variable);
    std::string own = program, from_file = "--gtest_flagfile=" + file;
    char* arguments[] = {own.data(), from_file.data(), nullptr};
    pid_t child = 0;
    int status = 0;
    const bool ran = posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments, environ) == 0 &&
                     waitpid(child, &status, 0) == child;
    std::filesystem::remove(file);
    if (ran && WIFEXITED(status)) return WEXITSTATUS(status);
    std::cout << "[  FAILED  ] the proof with kernels that fail "
              << (ran ? "was ended by signal " + std::to_string(WTERMSIG(status)) : "did not start") << std::endl;
    return 1;
}

}  // namespace

void claim_device_work() {
    if (const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info())
        claims().insert(name_of(*test));
}

bool kernels_are_to_fail() { return std::getenv(kKernelsFail) != nullptr; }

int run_all_tests(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    device::cuda::Driver::expect_residents();
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    if (kernels_are_to_fail()) {
        SimDevice::all().faults = {{Fault::Kind::kernel_fails, 0}};
        delete listeners.Release(listeners.default_result_printer());
        auto* verdicts = new Verdicts;
        listeners.Append(verdicts);
        [[maybe_unused]] const int red = RUN_ALL_TESTS();
        return verdicts->finish();
    }
    auto* users = new Users;
    listeners.Append(users);
    const int failed = RUN_ALL_TESTS();
    return failed != 0 || std::getenv(kProve) == nullptr || users->names.empty() ? failed
                                                                                 : run_again(argv[0], users->names);
}

}  // namespace millrace::test
