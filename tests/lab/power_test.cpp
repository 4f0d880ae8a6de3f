// Watts are what counters say they are, and where there are none it is said why.
#include <gtest/gtest.h>
#include <pthread.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "lab/power.hpp"
#include "lab/session.hpp"
#include "support/data.hpp"
#include "support/test_folder.hpp"

namespace millrace::lab {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

/// RAPL's counters as Linux shows them.
class Powercap {
public:
    explicit Powercap(const std::string& folder) : folder_(folder) {}
    std::string path() const { return folder_.string(); }
    void zone(const std::string& zone, const std::string& name, uint64_t range = 262'143'328'850) const {
        fs::create_directories(folder_ / zone);
        write(folder_ / zone / "name", name);
        write(folder_ / zone / "max_energy_range_uj", std::to_string(range));
        count(zone, 0);
    }
    /// At once: whoever reads sees one value or the next.
    void count(const std::string& zone, uint64_t microjoules) const {
        const fs::path file = folder_ / zone / "energy_uj";
        write(file.string() + ".new", std::to_string(microjoules));
        fs::rename(file.string() + ".new", file);
    }

private:
    static void write(const fs::path& file, const std::string& text) { std::ofstream(file) << text << "\n"; }
    fs::path folder_;
};

class PowerTest : public testing::Test {
protected:
    test::TestFolder files_;
    const Powercap powercap_{files_.path() + "/powercap"};

    /// Watts between two readings that are so many seconds apart.
    static Power between(const PowerMeter& meter, PowerMeter::Reading from, PowerMeter::Reading to, double seconds) {
        to.at = from.at +
                std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
        return meter.between(from, to);
    }
};

TEST_F(PowerTest, IsThatOfAllPackagesWithoutWhatLiesInThem) {
    powercap_.zone("intel-rapl:0", "package-0");
    powercap_.zone("intel-rapl:1", "package-1");
    powercap_.zone("intel-rapl:0:0", "dram");
    powercap_.zone("intel-rapl:2", "psys");
    const PowerMeter meter({}, powercap_.path());
    ASSERT_TRUE(meter.there());
    const auto before = meter.read();
    powercap_.count("intel-rapl:0", 150'000'000);
    powercap_.count("intel-rapl:1", 50'000'000);
    powercap_.count("intel-rapl:0:0", 9'000'000'000);
    powercap_.count("intel-rapl:2", 9'000'000'000);
    const Power power = between(meter, before, meter.read(), 2);
    ASSERT_TRUE(power.cpu.running);
    EXPECT_NEAR(*power.cpu.running, 100, 0.01);
    EXPECT_FALSE(power.gpu.running);
    EXPECT_TRUE(power.gpu.missing.empty()) << "nobody has asked for a GPU";
    EXPECT_EQ(power.text(), "CPU 100 W");
}

TEST_F(PowerTest, GoesOnWhereACounterBeginsAgain) {
    powercap_.zone("intel-rapl:0", "package-0", 1'000'000'000);
    powercap_.count("intel-rapl:0", 990'000'000);
    const PowerMeter meter({}, powercap_.path());
    const auto before = meter.read();
    powercap_.count("intel-rapl:0", 20'000'000);
    EXPECT_NEAR(between(meter, before, meter.read(), 1).cpu.running.value_or(0), 30, 0.01);
}

TEST_F(PowerTest, SaysWhyThereIsNone) {
    const auto missing = [&] {
        const PowerMeter meter({"00000000:17:00.0"}, powercap_.path(), [](const std::string&) { return std::nullopt; });
        EXPECT_FALSE(meter.there());
        const Power power = meter.between(meter.read(), meter.read());
        EXPECT_FALSE(power.cpu.running || power.gpu.running);
        EXPECT_EQ(power.text(), "");
        EXPECT_NE(power.gpu.missing.find("NVML"), std::string::npos);
        EXPECT_EQ(power.json()["cpu-packages"]["missing"], power.cpu.missing);
        return power.cpu.missing;
    };
    EXPECT_EQ(missing(), powercap_.path() + " is not there");
    fs::create_directories(powercap_.path());
    EXPECT_EQ(missing(), powercap_.path() + " has no CPU package");
    powercap_.zone("intel-rapl:0", "package-0");
    fs::remove(powercap_.path() + "/intel-rapl:0/energy_uj");
    fs::create_directory(powercap_.path() + "/intel-rapl:0/energy_uj");  // what can't be read, even by root
    EXPECT_EQ(missing(), powercap_.path() + "/intel-rapl:0/energy_uj can't be read");
}

TEST_F(PowerTest, IsThatOfAllGpusOrOfNone) {
    double joules = 0;
    const PowerMeter meter({"a", "b"}, powercap_.path(), [&](const std::string& gpu) -> std::optional<double> {
        return gpu == "a" ? joules : 2 * joules;
    });
    const auto before = meter.read();
    joules = 100;
    const Power power = between(meter, before, meter.read(), 3);
    EXPECT_NEAR(power.gpu.running.value_or(0), 100, 0.01);
    EXPECT_NEAR(power.gpu_joules, 300, 0.01);
    const PowerMeter other({"a", "b"}, powercap_.path(),
                           [&](const std::string& gpu) { return gpu == "a" ? std::optional(joules) : std::nullopt; });
    EXPECT_FALSE(other.there());
}

TEST_F(PowerTest, StandsInTheResultWithTheIdleOneBesideIt) {
    powercap_.zone("intel-rapl:0", "package-0");
    std::atomic<uint64_t> watts{40};
    const std::jthread burns([&](const std::stop_token& stop) {
        const sched_param first{1};  // where that is allowed: the counter is not to be late on a busy machine
        pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
        uint64_t microjoules = 0;
        for (auto last = std::chrono::steady_clock::now(); !stop.stop_requested(); std::this_thread::sleep_for(1ms)) {
            const auto now = std::chrono::steady_clock::now();
            microjoules += watts * static_cast<uint64_t>(std::chrono::nanoseconds(now - last).count()) / 1000;
            last = now;
            powercap_.count("intel-rapl:0", microjoules);
        }
    });
    SessionOptions options;
    options.workload.scratch = files_.path();
    options.workload.examples = test::source_path("examples");
    options.workload.flows = 500;
    options.warm_up = 0.02;
    options.seconds = options.idle_seconds = 0.2;
    options.powercap = powercap_.path();
    options.checked = false;
    options.progress = [&](const std::string& what) {
        if (what.find("warming up") != std::string::npos || what.find("loading") != std::string::npos) watts = 100;
    };
    Point point;
    point.chain = "mirror";
    point.run.buffers = 4096;
    // On a busy machine the counter may be written too late for one measurement.
    nlohmann::json packages;
    for (int attempt = 0; attempt < 5; ++attempt) {
        watts = 40;
        Session session(options);
        const nlohmann::json power = session.measure(point).json().at("power");
        EXPECT_FALSE(power.contains("gpu"));
        packages = power.at("cpu-packages");
        if (std::abs(packages.at("watts").get<double>() - 100) < 15 &&
            std::abs(packages.at("idle-watts").get<double>() - 40) < 10)
            return;
    }
    ADD_FAILURE() << packages;
}

}  // namespace
}  // namespace millrace::lab
