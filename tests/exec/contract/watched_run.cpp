#include "exec/contract/watched_run.hpp"

#include <gtest/gtest.h>
#include <rte_log.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <thread>

#include "millrace/exec/report/report.hpp"
#include "millrace/exec/worker/worker.hpp"
#include "support/end_of_run.hpp"

namespace millrace::test {
namespace {

class CountingSink : public spdlog::sinks::base_sink<std::mutex> {
protected:
    void sink_it_(const spdlog::details::log_msg&) override { count_log_call(); }
    void flush_() override {}
};

/// Logs of workers count from here on, spdlog's and DPDK's.
void count_logs() {
    static const bool once = [] {
        spdlog::set_default_logger(std::make_shared<spdlog::logger>("contract", std::make_shared<CountingSink>()));
        cookie_io_functions_t functions{};
        functions.write = [](void*, const char*, size_t bytes) {
            count_log_call();
            return static_cast<ssize_t>(bytes);
        };
        rte_openlog_stream(fopencookie(nullptr, "w", functions));
        return true;
    }();
    ASSERT_TRUE(once);
}

Watched sum(const exec::Runtime& runtime) {
    Watched all;
    for (const auto& worker : runtime.workers())
        for (const exec::ChainCounters* counters : worker->counters()) {
            all.packets += counters->received_packets.get();
            all.batches += counters->batches.get();
            all.passed_on += counters->passed_on.get();
            all.events += counters->events.get();
            all.dropped += counters->dropped();
        }
    return all;
}

/// Lets so many more packets come in; false when they don't.
bool pass(const exec::Runtime& runtime, uint64_t packets) {
    const uint64_t until = sum(runtime).packets + packets;
    for (unsigned looks = 0; looks < 30'000; ++looks) {
        if (sum(runtime).packets >= until) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
}

/// Lets packets come in until every worker has run every chain a few times; false when they don't.
bool warm_up(const exec::Runtime& runtime, uint64_t packets) {
    constexpr uint64_t kFew = 4;
    const auto is_cold = [](const exec::ChainCounters* counters) { return counters->batches.get() < kFew; };
    // A worker may wait long for a core of a busy machine.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
        if (!pass(runtime, packets)) return false;
        if (std::none_of(runtime.workers().begin(), runtime.workers().end(), [&](const auto& worker) {
                const auto all = worker->counters();
                // Where a device classifies, chains share batches, which count for all of them.
                const auto shares = [&](const exec::ChainCounters* one) {
                    return std::ranges::any_of(all, [&](const exec::ChainCounters* group) {
                        return std::ranges::find(group->parts, one) != group->parts.end();
                    });
                };
                return std::ranges::any_of(all, [&](const auto* one) { return is_cold(one) && !shares(one); });
            }))
            return true;
    }
    return false;
}

/// Whether nobody else slept of those that the watch tells of: the thread that makes the calls of workers does when
/// there has been none for 200 us.
bool only_call_thread_sleeps(const std::string& text) {
    const std::string sleeps = std::string("one of the ") + kDeedNames[static_cast<size_t>(Deed::sleep)] + ":\n";
    for (size_t at = text.find(sleeps); at != std::string::npos; at = text.find(sleeps, at + 1))
        if (!text.substr(at + sleeps.size()).starts_with("    millrace::exec::CallThread::sleep()")) return false;
    return true;
}

}  // namespace

Watched watched_run(chain::Configuration configuration, exec::RuntimeOptions options, uint64_t packets) {
    count_logs();
    const bool call_thread = options.offload.calls_by_thread;
    exec::Runtime runtime(std::move(configuration), std::move(options));
    runtime.start();
    // Until all that grows with use has grown: to the largest batch, the longest queue, the last flow. What has not by
    // then is a finding.
    EXPECT_TRUE(warm_up(runtime, packets / 3));
    const Watched before = sum(runtime);
    Watch watch;
    EXPECT_TRUE(pass(runtime, packets));
    watch.end();
    Watched during = sum(runtime);
    during.packets -= before.packets;
    during.batches -= before.batches;
    during.passed_on -= before.passed_on;
    during.events -= before.events;
    during.dropped -= before.dropped;
    during.deeds = watch.all();
    during.text = watch.text();
    if (call_thread && only_call_thread_sleeps(during.text)) during.deeds -= watch.count(Deed::sleep);
    const exec::Report report = stop_run(runtime, Work::shared_with_cpu);
    for (const exec::ChainReport& chain : report.chains) {
        during.reassembled += chain.reassembled;
        for (const exec::NodeReport& node : chain.nodes)
            for (const exec::OutcomeReport& outcome : node.outcomes)
                if (outcome.packets > 0) during.outcomes.insert(outcome.name);
    }
    return during;
}

}  // namespace millrace::test
