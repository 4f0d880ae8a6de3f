// Promises of chains while packets flow.
#include "millrace/exec/promises/promise_watch.hpp"

#include <gtest/gtest.h>

#include "millrace/exec/report/report_json.hpp"
#include "support/device_work.hpp"
#include "support/devices.hpp"
#include "support/test_folder.hpp"

namespace millrace::exec {
namespace {

using namespace std::chrono_literals;

chain::Configuration load(const std::string& promise, const std::string& source, const std::string& device = "sim",
                          const chain::Configuration* previous = nullptr) {
    chain::LoadOptions options;
    options.previous = previous;
    options.output_folder = testing::TempDir();
    return chain::parse_configuration("version: 1\ndevice: " + device + "\nports: {in: {source: {size: 128, " + source +
                                          "}}, out: {sink: {}}}\nchains:\n  x: {input: in, output: out, max-batch: "
                                          "4096, max-delay: 50ms, nfs: [mirror]" +
                                          promise + "}\n",
                                      "(test)", options);
}

/// A chain like the scheduler's example: k1 = 100 ns, b1 = 20 us, k2 = 2 ns, b2 = 6 us.
std::shared_ptr<const schedule::Profile> profile() {
    schedule::Profile made{"simulated GPU", "kept.json", {132, 8, 8}, {}};
    made.put({"[mirror]", 128, {{20'000, 100}, {6'000, 2}, 1, 1, 0}, {}});
    return std::make_shared<const schedule::Profile>(std::move(made));
}

/// A run whose packets all come within one interval of a second by the watch's clock.
struct Whole {
    explicit Whole(chain::Configuration configuration, std::shared_ptr<const schedule::Profile> known = nullptr,
                   std::vector<std::shared_ptr<device::Device>> devices = {}, const io::SourceDelivery& sources = {})
        : runtime(std::move(configuration), on(std::move(devices), sources)), watch(runtime, std::move(known)) {
        watch.update(now);
        runtime.start();
        EXPECT_TRUE(runtime.wait(20s));
        test::expect_work(test::Work::device_alone, make_report(runtime));
        look();
    }
    static RuntimeOptions on(std::vector<std::shared_ptr<device::Device>> devices, const io::SourceDelivery& sources) {
        RuntimeOptions options;
        options.sources = sources;
        options.devices = std::move(devices);
        return options;
    }
    void look() { watch.update(now += 1s); }
    Runtime runtime;
    PromiseWatch::Clock::time_point now{};
    PromiseWatch watch;
};

TEST(PromiseWatch, TellsWhetherAPromiseIsKeptNow) {
    Whole run(load(", rate: 1M, latency: 10s", "count: 2000"));
    const PromiseReport kept = run.watch.of_chain("x");
    EXPECT_EQ(kept.now, PromiseState::kept);
    EXPECT_EQ(kept.offered, 2000);
    EXPECT_EQ(kept.latency_ns, 10'000'000'000u);
    EXPECT_GT(kept.longest_ns, 0u);
    EXPECT_EQ(kept.batch, 0u) << "nobody has measured it, so there is no plan";
    EXPECT_EQ(run.watch.plans(), 0u);
    run.look();
    EXPECT_EQ(run.watch.of_chain("x").now, PromiseState::idle);
    EXPECT_EQ(run.watch.of_chain("x").offered, 0);
    EXPECT_EQ(run.watch.of_chain("x").intervals, 1u);
    EXPECT_FALSE(run.watch.of_chain("y").made());
    run.runtime.finish();

    Report report = make_report(run.runtime);
    EXPECT_FALSE(chain_json(report.chains[0]).contains("promise"));
    run.watch.add_to(report);
    const nlohmann::json json = chain_json(report.chains[0]);
    EXPECT_EQ(json["promise"]["now"], "idle");
    EXPECT_EQ(json["promise"]["rate"], 1'000'000);
    EXPECT_EQ(json["promise"]["intervals"], 1);
}

TEST(PromiseWatch, TellsOfALatencyThatIsBroken) {
    // No batch is full before its packets have waited for longer than that.
    const Whole run(load(", rate: 1M, latency: 1us", "count: 100"));
    EXPECT_EQ(run.watch.of_chain("x").now, PromiseState::latency);
    EXPECT_EQ(run.watch.of_chain("x").latency_broken, 1u);
    EXPECT_EQ(run.watch.of_chain("x").rate_broken, 0u);
    EXPECT_GT(run.watch.of_chain("x").longest_ns, 1000u);
}

TEST(PromiseWatch, PromisesNothingBeyondTheRate) {
    const Whole run(load(", rate: 100, latency: 1us", "count: 2000"));
    EXPECT_EQ(run.watch.of_chain("x").now, PromiseState::beyond);
    EXPECT_EQ(run.watch.of_chain("x").beyond, 1u);
    EXPECT_EQ(run.watch.of_chain("x").intervals, 0u);
    EXPECT_EQ(run.watch.of_chain("x").latency_broken, 0u);
}

TEST(PromiseWatch, TellsOfARateThatAPortHadNoRoomFor) {
    // More than any machine takes; what waits at the port finds room for 32 packets.
    const Whole run(load(", rate: 900G, latency: 10s", "count: 50000, rate: 100G", "cpu"), nullptr, {},
                    {.descriptors = 32});
    EXPECT_EQ(run.watch.of_chain("x").now, PromiseState::rate);
    EXPECT_EQ(run.watch.of_chain("x").rate_broken, 1u);
    EXPECT_EQ(run.watch.of_chain("x").latency_broken, 0u);
}

class Planned : public testing::TestWithParam<std::string> {};

TEST_P(Planned, ComesInAndAnewWithAnotherConfiguration) {
    const std::string device = GetParam();
    MILLRACE_NEEDS_DEVICE(device);
    Whole run(load(", rate: 1M, latency: 400ms", "count: 20000", device), profile(), test::open_devices(device));
    const auto planned = run.runtime.configuration()->chains[0];
    const PromiseReport first = run.watch.of_chain("x");
    if (device == "cpu") {
        EXPECT_EQ(run.watch.plans(), 0u);
        EXPECT_EQ(planned->max_batch, 4096u);
        return;
    }
    EXPECT_EQ(run.watch.plans(), 1u) << "20,000 a second are less than what was promised";
    EXPECT_EQ(planned->max_batch, first.batch);
    EXPECT_LT(planned->max_batch, 4096u) << "the smallest that keeps the promise";
    EXPECT_LT(planned->max_delay, 50ms);
    // A configuration that comes knows nothing of the plan.
    const auto before = run.runtime.configuration();
    run.runtime.apply(load(", rate: 5M, latency: 400ms", "count: 20000", device, before.get()));
    run.look();
    EXPECT_EQ(run.watch.plans(), 2u);
    EXPECT_GT(run.watch.of_chain("x").batch, first.batch) << "more was promised";
    EXPECT_EQ(run.runtime.configuration()->chains[0]->max_batch, run.watch.of_chain("x").batch);
    const uint64_t generation = run.runtime.configuration()->generation;
    run.look();
    EXPECT_EQ(run.runtime.configuration()->generation, generation) << "nothing has changed";
    run.runtime.finish();
    const Report report = make_report(run.runtime);
    EXPECT_TRUE(report.conserved());
    EXPECT_EQ(report.ports[1].counters.sent_packets, 20'000u);
    EXPECT_GT(report.chains[0].bytes_to_device, 0u);
    EXPECT_EQ(report.chains[0].retried_on_cpu, 0u);
}
INSTANTIATE_TEST_SUITE_P(OnEveryDevice, Planned, testing::ValuesIn(test::test_devices()), test::device_test_name);

TEST(PromiseWatch, LeavesAChainTheBatchesOfTheFileWhileMoreComesThanWasPromised) {
    chain::Configuration configuration = load(", rate: 1k, latency: 400ms", "count: 20000");
    Runtime runtime(std::move(configuration));
    PromiseWatch watch(runtime, profile());
    PromiseWatch::Clock::time_point now{};
    const auto batch = [&] { return runtime.configuration()->chains[0]->max_batch; };
    watch.update(now);
    const uint32_t planned = watch.of_chain("x").batch;
    EXPECT_GT(planned, 0u);
    EXPECT_EQ(batch(), planned) << "before any packet";
    runtime.start();
    ASSERT_TRUE(runtime.wait(20s));
    test::expect_work(test::Work::device_alone, make_report(runtime));
    watch.update(now += 1s);
    EXPECT_EQ(watch.of_chain("x").now, PromiseState::beyond);
    EXPECT_EQ(batch(), 4096u);
    EXPECT_EQ(runtime.configuration()->chains[0]->max_delay, 50ms);
    EXPECT_EQ(watch.of_chain("x").batch, 0u);
    for (uint32_t i = 1; i < PromiseWatch::kOffPlan; ++i) watch.update(now += 1s);
    EXPECT_EQ(batch(), 4096u);
    watch.update(now += 1s);
    EXPECT_EQ(batch(), planned);
    EXPECT_EQ(watch.plans(), 3u);
}

TEST(PromiseWatch, TellsSixtyFourChainsApart) {
    constexpr int kChains = 64;
    std::string ports = "ports:\n  out: {sink: {}}\n", chains = "chains:\n";
    for (int i = 0; i < kChains; ++i) {
        const std::string number = std::to_string(i);
        ports += "  in" + number + ": {source: {size: 128, count: " + std::to_string(100 + i) + "}}\n";
        constexpr const char* kPromises[] = {", rate: 1M, latency: 10s", ", rate: 1", ", rate: 1M, latency: 1us", ""};
        chains += "  c" + number + ": {input: in" + number + ", output: out, max-delay: 5ms, nfs: [mirror]" +
                  kPromises[i % 4] + "}\n";
    }
    chain::LoadOptions options;
    options.output_folder = testing::TempDir();
    const Whole run(chain::parse_configuration("version: 1\ndevice: sim\n" + ports + chains, "(test)", options));
    Report report = make_report(run.runtime);
    run.watch.add_to(report);
    ASSERT_EQ(report.chains.size(), size_t{kChains});
    for (int i = 0; i < kChains; ++i) {
        const PromiseReport& own = report.chains[static_cast<size_t>(i)].promise;
        constexpr PromiseState kStates[] = {PromiseState::kept, PromiseState::beyond, PromiseState::latency,
                                            PromiseState::fresh};
        EXPECT_EQ(own.made(), i % 4 != 3) << i;
        EXPECT_EQ(own.now, kStates[i % 4]) << i;
        if (own.made()) {
            EXPECT_EQ(own.offered, 100 + i) << i;
        }
    }
}

TEST(PromiseWatch, PlansForManyChainsAtOnce) {
    for (const int count : {64, 1000}) {
        SCOPED_TRACE(count);
        std::string chains, lines;
        for (int i = 0; i < count; ++i) {
            const std::string name = "c" + std::to_string(i);
            chains += "  " + name + ": {output: out, max-batch: 4096, rate: 1k, latency: 400ms, nfs: [mirror]}\n";
            lines += "  - {match: {dst-port: " + std::to_string(10'000 + i) + "}, chain: " + name + "}\n";
        }
        chain::LoadOptions options;
        options.output_folder = testing::TempDir();
        Whole run(chain::parse_configuration(
                      "version: 1\ndevice: sim\nports: {in: {source: {size: 128, count: 2000}}, out: "
                      "{sink: {}}}\nchains:\n" +
                          chains + "  rest: {output: out, nfs: [mirror]}\nclassify:\n" + lines + "  - {chain: rest}\n",
                      "(test)", options),
                  profile());
        EXPECT_EQ(run.watch.plans(), 1u);
        Report report = make_report(run.runtime);
        run.watch.add_to(report);
        EXPECT_TRUE(report.conserved());
        const auto configuration = run.runtime.configuration();
        for (int i = 0; i < count; ++i) {
            const auto at = static_cast<size_t>(i);
            ASSERT_GT(report.chains[at].promise.batch, 0u) << i;
            ASSERT_EQ(configuration->chains[at]->max_batch, report.chains[at].promise.batch) << i;
            ASSERT_LT(configuration->chains[at]->max_batch, 4096u) << i;
        }
        EXPECT_EQ(configuration->chains[static_cast<size_t>(count)]->max_batch, 16384u) << "nothing was promised";
    }
}

TEST(Admission, IsAskedBeforeAConfigurationIsReadAgain) {
    const test::TestFolder folder;
    const std::string path = folder / "x.yaml";
    const auto write = [&](const std::string& rate) {
        std::ofstream(path) << "version: 1\ndevice: sim\noutput: " + folder.path() +
                                   "\nports: {in: {source: {count: 10}}, out: {sink: {}}}\nchains: {x: {input: in, "
                                   "output: out, rate: " +
                                   rate + ", nfs: [mirror]}}\n";
    };
    write("1M");
    const auto known = profile();
    RuntimeOptions options;
    options.admit = [&](const chain::Configuration& next) {
        const auto broken = broken_promises(share_device(demand_of(next, known.get(), 1)));
        if (!broken.empty()) throw ConfigError(broken);
    };
    Runtime runtime(chain::load_configuration(path), options);
    write("900G");
    try {
        runtime.reload();
        ADD_FAILURE() << "it came in";
    } catch (const ConfigError& e) {
        EXPECT_NE(e.diagnostics().front().message.find("132 SMs do"), std::string::npos) << e.what();
    }
    EXPECT_EQ(runtime.configuration()->generation, 1u);
    write("2M");
    runtime.reload();
    EXPECT_EQ(runtime.configuration()->promises[0].rate, 2e6);
}

}  // namespace
}  // namespace millrace::exec
