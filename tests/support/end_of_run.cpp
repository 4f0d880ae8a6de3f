#include "support/end_of_run.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace millrace::test {
namespace {

exec::Report end_of(exec::Runtime& runtime, const std::string& what) {
    constexpr std::chrono::minutes kEndsWithin{5};
    EXPECT_TRUE(runtime.wait(kEndsWithin)) << "the run does not end " << what;
    runtime.finish();
    EXPECT_EQ(runtime.trouble(), "") << what;
    exec::Report report = exec::make_report(runtime);
    for (const exec::ChainReport& chain : report.chains) EXPECT_TRUE(chain.conserved()) << chain.name << " " << what;
    return report;
}

}  // namespace

exec::Report end_of_run(exec::Runtime& runtime, const std::string& what) {
    exec::Report report = end_of(runtime, what);
    EXPECT_TRUE(report.conserved()) << what;
    return report;
}

exec::Report end_of_run(exec::Runtime& runtime, Work work, const std::string& what) {
    exec::Report report = end_of_run(runtime, what);
    expect_work(work, report);
    return report;
}

exec::Report end_of_shared_run(exec::Runtime& runtime, Work work) {
    exec::Report report = end_of(runtime, {});
    expect_work(work, report);
    return report;
}

exec::Report stop_run(exec::Runtime& runtime) {
    runtime.stop();
    return end_of_run(runtime);
}

exec::Report stop_run(exec::Runtime& runtime, Work work) {
    runtime.stop();
    return end_of_run(runtime, work);
}

}  // namespace millrace::test
