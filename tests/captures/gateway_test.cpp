// Recorded traffic of all kinds through the example's chain, with the whole program around it: on the cpu and on a
// device, which must write the same captures and the same verdicts.
//
// Frames that the recorder cut are filled up, as a cut frame is malformed and dropped at once.
// MILLRACE_ALL_CAPTURES=1 runs every capture of the data folder; unset, a sample.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>

#include "millrace/base/files/file.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/io/capture/capture_reader.hpp"
#include "support/captures.hpp"
#include "support/data.hpp"
#include "support/end_of_run.hpp"
#include "support/devices.hpp"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

/// The example's configuration with another batch and wider routes and policies. Its tables are built once; ports come
/// anew for every capture.
chain::Configuration load_gateway(const std::string& device, const std::string& output_folder) {
    const std::string path = source_path("examples/gateway.yaml");
    std::string text = read_file(path);
    // Most captures shall make several batches, and most of their packets, which know nothing of the example's
    // networks, shall get as far as IPsec and into a tunnel.
    const std::pair<std::string, std::string> changes[] = {
        {"max-batch: 8192", "max-batch: 512"},
        {"routes: [routes.txt.xz]",
         "routes: [routes.txt.xz, {prefix: 0.0.0.0/0, via: edge-1}, {prefix: '::/0', via: [edge-2, edge-3]}]"},
        {"mtu: 1600", "mtu: 0"},
        {"          default: bypass ",
         "            - {src: 0.0.0.0/0, action: protect, sa: branch4}\n"
         "            - {src: '8000::/1', action: protect, sa: branch6}\n          default: bypass "},
    };
    for (const auto& [from, to] : changes) {
        const size_t at = text.find(from);
        if (at == std::string::npos) throw std::runtime_error("the example has no '" + from + "'");
        text.replace(at, from.size(), to);
    }
    chain::LoadOptions options;
    options.device = device;
    options.output_folder = output_folder;
    return chain::parse_configuration(text, path, options);
}

class Captures : public testing::TestWithParam<std::string> {
protected:
    Captures() {
        std::string pattern = (fs::temp_directory_path() / "millrace-captures-XXXXXX").string();
        folder_ = mkdtemp(pattern.data());
        for (const std::string& name : {std::string("corpus"), std::string("cpu"), GetParam()})
            fs::create_directories(folder_ / name);
    }
    ~Captures() override {
        std::error_code error;
        fs::remove_all(folder_, error);
    }

    /// Runs one capture; what it wrote lies in folder_/<device> afterwards.
    exec::Report run(const chain::Configuration& gateway, const std::string& capture,
                     const std::shared_ptr<device::Device>& device) {
        const std::string own = (folder_ / gateway.device).string();
        chain::Configuration configuration = gateway;
        configuration.ports = Config::parse("lan: {pcap: '" + capture + "', pad: original}\nwan: {output: '" + own +
                                                "/wan.pcap'}\nslow-path: {sink: {}}\n",
                                            own + "/ports.yaml");
        exec::RuntimeOptions options;
        if (device != nullptr) options.devices = {device};
        options.verdict_file = own + "/verdicts.json";
        options.pool_packets = 2048;
        options.offload.batch_bytes = size_t{1} << 20;
        options.offload.depth = 3;
        exec::Runtime runtime(std::move(configuration), options);
        runtime.start();
        return end_of_run(runtime);
    }

    fs::path folder_;
};

void expect_same_verdicts(const std::string& a, const std::string& b) {
    const std::string first = read_file(a, {}, size_t{1} << 32), second = read_file(b, {}, size_t{1} << 32);
    if (first == second) return;
    const auto differ = std::mismatch(first.begin(),
                                      first.begin() + static_cast<ptrdiff_t>(std::min(first.size(), second.size())),
                                      second.begin())
                            .first;
    const size_t before = first.substr(0, static_cast<size_t>(differ - first.begin())).rfind('\n');
    const size_t line = before == std::string::npos ? 0 : before + 1;
    ADD_FAILURE() << "verdicts differ\n  cpu: " << first.substr(line, first.find('\n', line) - line)
                  << "\n  there: " << second.substr(line, second.find('\n', line) - line);
}

/// The same frames in the same order. Times are left out: a frame recorded at time 0 is written with the time of the
/// run.
void expect_same_frames(const std::string& a, const std::string& b) {
    io::CaptureReader first(a), second(b);
    io::CaptureRecord one, other;
    while (first.next(one)) {
        ASSERT_TRUE(second.next(other)) << "the device sent fewer";
        ASSERT_TRUE(std::equal(one.bytes.begin(), one.bytes.end(), other.bytes.begin(), other.bytes.end()))
            << "frame " << one.number;
    }
    EXPECT_FALSE(second.next(other)) << "the device sent more";
    EXPECT_EQ(first.error() + second.error(), "");
}

TEST_P(Captures, GoThroughTheExamplesChainAlikeOnCpuAndDevice) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    MILLRACE_NEEDS_DATA("pcap/curated");
    const bool all = std::getenv("MILLRACE_ALL_CAPTURES") != nullptr;
    const chain::Configuration cpu = load_gateway("cpu", (folder_ / "cpu").string());
    const chain::Configuration there = load_gateway(GetParam(), (folder_ / GetParam()).string());
    const auto device = open_device(GetParam());
    const auto tables = device->load(there.chains[0], exec::steps_of(*there.chains[0], {}));  // they
                                                                                              // stay on
                                                                                              // the
                                                                                              // device
                                                                                              // from one
                                                                                              // capture
                                                                                              // to the
                                                                                              // next

    const std::vector<std::string> files = all_captures(folder_ / "corpus");
    size_t captures = 0, damaged = 0, no_captures = 0;
    uint64_t packets = 0, sent = 0, dropped = 0, punted = 0, events = 0, port_drops = 0;
    std::map<std::string, uint64_t> drops;
    for (size_t i = 0; i < files.size(); ++i) {
        if (!all && (i % 8 != 0 || fs::file_size(files[i]) > 1'000'000)) continue;
        SCOPED_TRACE(files[i]);
        exec::Report expected;
        try {
            expected = run(cpu, files[i], nullptr);
        } catch (const ConfigError&) {
            EXPECT_THROW(io::CaptureReader{files[i]}, ConfigError) << "a capture that can be read can be run";
            ++no_captures;
            continue;
        }
        const exec::Report report = run(there, files[i], device);
        expect_work(Work::device_alone, report);
        expect_same_frames(folder_ / "cpu/wan.pcap", folder_ / GetParam() / "wan.pcap");
        expect_same_verdicts(folder_ / "cpu/verdicts.json", folder_ / GetParam() / "verdicts.json");
        const exec::ChainReport &a = expected.chains[0], &b = report.chains[0];
        EXPECT_EQ(a.received_packets, b.received_packets);
        EXPECT_EQ(a.in_flight + b.in_flight, 0u);
        EXPECT_EQ(a.drops, b.drops);
        EXPECT_EQ(a.punts, b.punts);
        EXPECT_EQ(a.events, b.events);
        EXPECT_EQ(a.events_lost + b.events_lost, 0u);
        EXPECT_EQ(expected.ports[0].counters.drops, report.ports[0].counters.drops);
        EXPECT_EQ(expected.ports[0].trouble, report.ports[0].trouble);
        ++captures;
        damaged += !report.ports[0].trouble.empty();
        packets += b.received_packets;
        sent += b.sent_packets;
        dropped += b.dropped;
        punted += b.punted;
        events += b.events;
        for (const auto& [reason, count] : report.ports[0].counters.drops)
            port_drops += count, drops["port." + reason] += count;
        for (const auto& [reason, count] : b.drops) drops[reason] += count;
        if (HasFailure()) return;
    }
    std::cout << captures << " captures (" << damaged << " damaged, " << no_captures << " files are none), " << packets
              << " packets: " << sent << " sent, " << dropped << " dropped, " << punted << " punted; " << events
              << " alerts, " << port_drops << " not taken in\n";
    for (const auto& [reason, count] : drops) std::cout << "  " << reason << ": " << count << "\n";
    EXPECT_EQ(packets, sent + dropped + punted);
    EXPECT_GT(captures, all ? 1800u : 100u);
    EXPECT_GT(packets, 10'000u);
}

INSTANTIATE_TEST_SUITE_P(OnEveryDevice, Captures, testing::ValuesIn(offload_devices()), device_test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Captures);

}  // namespace
}  // namespace millrace::test
