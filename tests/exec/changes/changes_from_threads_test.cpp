// Changes of network functions that any thread brings in: beside another that does, and when they go wrong.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "exec/wild/device.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/exec/worker/worker.hpp"
#include "millrace/nf/changeable.hpp"
#include "millrace/nf/nf.hpp"
#include "support/devices.hpp"
#include "support/device_work.hpp"

namespace millrace::test {
namespace {

using namespace std::chrono_literals;

/// What the next change does.
enum class Mood { nothing, change, fail, wait };
std::atomic<Mood> mood = Mood::nothing;
std::atomic<bool> waiting = false;  // in Mood::wait

/// A network function that changes when a test wants it.
class RestlessHost : public nf::NetworkFunction, public nf::Changeable {
public:
    explicit RestlessHost(const Config& options, const nf::Environment&) {
        options.only({});
        image_.start<Wild::Tables>();
    }
    RestlessHost() { image_.start<Wild::Tables>(); }
    const nf::Image& image() const override { return image_; }
    std::shared_ptr<nf::NetworkFunction> next() override {
        if (mood == Mood::fail) {
            mood = Mood::nothing;
            throw ConfigError(Diagnostic{{"rules.txt", 7, 1}, "no", "yes"});
        }
        for (; mood == Mood::wait; std::this_thread::yield()) waiting = true;
        if (mood.exchange(Mood::nothing) != Mood::change) return nullptr;
        return std::make_shared<RestlessHost>();
    }

private:
    nf::Image image_;
};

const nf::Register<Wild, RestlessHost> registration{{
    .name = "restless",
    .summary = "changes when a test wants it",
    .outcomes = {{"forward", nf::Disposition::next, "always"}},
    .device_header = "exec/wild/device.hpp",
    .device_struct = "millrace::test::Wild",
}};

class ChangesFromThreads : public testing::TestWithParam<std::string> {
protected:
    void SetUp() override {
        MILLRACE_NEEDS_DEVICE(GetParam());
        mood = Mood::nothing;
        chain::LoadOptions load;
        load.device = GetParam();
        load.output_folder = testing::TempDir();
        runtime_ = std::make_unique<exec::Runtime>(
            chain::parse_configuration("version: 1\nports:\n  in: {source: {size: 64, flows: 8, rate: 20000}}\n"
                                       "  out: {sink: {}}\nchains:\n  c: {input: in, output: out, nfs: [restless]}\n",
                                       "(changes)", load));
        runtime_->start();
    }
    void TearDown() override {
        if (runtime_ == nullptr) return;
        runtime_->stop();
        ASSERT_TRUE(runtime_->wait(60s));
        runtime_->finish();
        EXPECT_EQ(runtime_->trouble(), "");
        if (std::string(GetParam()) != "cpu") expect_work(Work::device_alone, exec::make_report(*runtime_));
    }
    uint64_t generation() const { return runtime_->configuration()->generation; }

    std::unique_ptr<exec::Runtime> runtime_;
};

TEST_P(ChangesFromThreads, AreAtWorkWhenWhoBroughtThemInGoesOn) {
    const uint64_t before = generation();
    for (unsigned i = 1; i <= 100; ++i) {
        mood = Mood::change;
        runtime_->hurry_changes();
        ASSERT_EQ(generation(), before + i);
        // A worker that has just ended its rest takes the generation before it touches a packet.
        for (const auto& worker : runtime_->workers()) {
            const auto until = std::chrono::steady_clock::now() + 1s;
            while (worker->generation() < before + i && !worker->at_rest())
                ASSERT_LT(std::chrono::steady_clock::now(), until);
        }
    }
    runtime_->hurry_changes();
    EXPECT_EQ(generation(), before + 100);
    EXPECT_FALSE(runtime_->wait(1ms));  // nobody was woken: it was waited for
}

TEST_P(ChangesFromThreads, AreLeftToAnotherThatIsAtIt) {
    waiting = false;
    mood = Mood::wait;
    std::thread other([&] { runtime_->apply_changes(); });
    while (!waiting) std::this_thread::yield();
    const auto begin = std::chrono::steady_clock::now();
    runtime_->hurry_changes();  // else it would wait for ever
    EXPECT_FALSE(runtime_->wait(60s));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
    mood = Mood::nothing;
    other.join();
    mood = Mood::change;
    EXPECT_TRUE(runtime_->apply_changes());
}

TEST_P(ChangesFromThreads, TellWhoeverWaitsForTheRuntimeWhatWentWrong) {
    const uint64_t before = generation();
    mood = Mood::fail;
    std::thread([&] { runtime_->hurry_changes(); }).join();
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(runtime_->wait(60s));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
    mood = Mood::change;
    runtime_->hurry_changes();  // first that has to be told
    EXPECT_FALSE(runtime_->wait(60s));
    EXPECT_EQ(generation(), before);
    try {
        runtime_->apply_changes();
        FAIL() << "nothing was thrown";
    } catch (const ConfigError& error) {
        EXPECT_NE(std::string(error.what()).find("rules.txt:7"), std::string::npos) << error.what();
    }
    EXPECT_TRUE(runtime_->apply_changes());
    EXPECT_EQ(generation(), before + 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, ChangesFromThreads, testing::ValuesIn(test_devices()), device_test_name);

}  // namespace
}  // namespace millrace::test
