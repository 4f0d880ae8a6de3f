// Runs with tenants in processes of their own, for tests.
#pragma once

#include <gtest/gtest.h>

#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/io/port.hpp"
#include "millrace/tenancy/manager/manager.hpp"
#include "support/end_of_run.hpp"
#include "tenancy/support.hpp"

namespace millrace::tenancy::test {

/// A tenant's node: a mirror, which sees and changes the addresses and nothing else.
inline std::string node_of(const std::string& tenant, const std::string& absent, const std::string& patience = "10s",
                           const std::string& promise = "") {
    return "      - tenant: " + tenant +
           "\n        reads: [eth.dst, eth.src]\n        writes: [eth.dst, eth.src]\n        outcomes: {forward: next, "
           "block: drop}\n        absent: " +
           absent + "\n        patience: " + patience + "\n" + promise;
}

/// A run with tenants: chain `own` with theirs, and chain `other` beside it with a tenant that is honest, or with none.
class Scene {
public:
    Scene(const std::string& tenants, const std::string& chains, unsigned rate, unsigned count, unsigned workers = 1,
          const std::string& device = "cpu", Placer::Measure measure = Placer::measure)
        : manager_(std::make_shared<Manager>(workers, nullptr, std::move(measure))) {
        const std::string source = "{source: {size: 128, flows: 64, count: " + std::to_string(count) +
                                   ", rate: " + (rate == 0 ? "max" : std::to_string(rate)) + "}}";
        text_ = "version: 1\nports:\n  in: " + source + "\n  in2: " + source +
                "\n  out: {sink: {}}\n  out2: {sink: {}}\ntenants: [" + tenants + "]\nchains:\n" + chains;
        options_.output_folder = folder_.path();
        options_.device = device;
        exec::RuntimeOptions options;
        options.tenants = manager_;
        options.workers = workers;
        runtime_ = std::make_unique<exec::Runtime>(chain::parse_configuration(text_, "(test)", options_), options);
    }
    std::string socket() const { return folder_ / "tenants.sock"; }
    exec::Runtime& runtime() { return *runtime_; }
    Manager& manager() { return *manager_; }
    exec::TenantReport tenant(const std::string& name) const {
        for (const exec::TenantReport& one : manager_->report())
            if (one.name == name) return one;
        return {};
    }
    bool wait_for(const std::string& name) {
        return wait_until([&] { return tenant(name).state == "attached"; });
    }
    exec::Report finish() {
        // Tenants' processes are the CPU's side.
        exec::Report report = millrace::test::end_of_run(*runtime_, millrace::test::Work::shared_with_cpu);
        for (const exec::TenantReport& one : report.tenants) {
            uint64_t absent = 0;
            for (const auto& [why, packets] : one.absent) absent += packets;
            EXPECT_EQ(one.packets, one.answered + absent) << one.name;
            EXPECT_EQ(one.in_flight, 0u);
        }
        return report;
    }
    uint64_t sent(const std::string& port) const {
        for (const auto& one : runtime_->ports())
            if (one->name() == port) return one->counters().sent_packets;
        return 0;
    }
    /// Reads the configuration again, with `from` in its text replaced.
    void reload(const std::string& from, const std::string& to) {
        text_.replace(text_.find(from), from.size(), to);
        const auto before = runtime_->configuration();
        chain::LoadOptions options = options_;
        options.previous = before.get();
        runtime_->apply(chain::parse_configuration(text_, "(test)", options));
    }

private:
    millrace::test::TestFolder folder_;
    chain::LoadOptions options_;
    std::string text_;
    std::shared_ptr<Manager> manager_;
    std::unique_ptr<exec::Runtime> runtime_;
};

inline std::string two_chains(const std::string& own) {
    return "  own:\n    input: in\n    output: out\n    nfs:\n      - mirror: {}\n" + own +
           "      - {mirror: {}, name: last}\n  other:\n    input: in2\n    output: out2\n    nfs:\n" +
           node_of("honest", "drop");
}
inline constexpr const char* kTwo = "{name: mallory}, {name: honest}";

}  // namespace millrace::tenancy::test
