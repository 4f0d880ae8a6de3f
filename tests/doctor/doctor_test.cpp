#include "millrace/doctor/doctor.hpp"

#include <rte_version.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace millrace::doctor {
namespace {

const Finding* find(const std::vector<Finding>& findings, const std::string& name) {
    const auto found = std::find_if(findings.begin(), findings.end(),
                                    [&](const Finding& finding) { return finding.name == name; });
    return found == findings.end() ? nullptr : &*found;
}

TEST(Doctor, SaysOfEverythingMissingWhatItCostsAndWhatWouldMendIt) {
    std::set<std::string> groups;
    for (const Finding& finding : examine_machine()) {
        groups.insert(finding.group);
        EXPECT_FALSE(finding.name.empty());
        const bool lacking = finding.state == Finding::State::missing || finding.state == Finding::State::optional;
        EXPECT_EQ(finding.cost.empty(), !lacking) << finding.name;
        EXPECT_EQ(finding.remedy.empty(), !lacking) << finding.name;
    }
    EXPECT_EQ(groups, (std::set<std::string>{"memory", "cpu", "network", "gpu", "rights", "libraries"}));
}

TEST(Doctor, CallsNothingMissingThatOnlySomeUsesNeed) {
    const auto findings = examine_machine();
    for (const char* name : {"huge pages", "PCI NICs", "NVML", "AVX-512", "VAES", "cap_net_raw", "cap_ipc_lock",
                             "/dev/vfio/vfio", "locked memory"})
        if (const Finding* finding = find(findings, name)) {
            EXPECT_NE(finding->state, Finding::State::missing) << name;
        }
    for (const Finding& finding : findings)
        EXPECT_NE(finding.state, Finding::State::missing)
            << finding.name << ": " << finding.value << " (the machines that run tests have what is needed)";
}

TEST(Doctor, AgreesWithTheCompilerAboutTheCpu) {
    const auto findings = examine_machine();
    ASSERT_NE(find(findings, "AVX2"), nullptr);
    EXPECT_EQ(find(findings, "AVX2")->state == Finding::State::ok, __builtin_cpu_supports("avx2") != 0);
    EXPECT_EQ(find(findings, "AVX-512")->state == Finding::State::ok,
              __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0);
    EXPECT_EQ(find(findings, "DPDK")->value, rte_version());
}

}  // namespace
}  // namespace millrace::doctor
