// Chains that put fragments together, through the whole program: on the cpu and on devices, with several workers,
// with changes of the configuration, in captures in and out.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "exec/fragments/fragment_maker.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/io/capture/capture_reader.hpp"
#include "millrace/io/capture/capture_writer.hpp"
#include "support/end_of_run.hpp"
#include "support/devices.hpp"
#include "support/test_folder.hpp"

namespace millrace::test {
namespace {

chain::Configuration configuration(const std::string& text, const std::string& folder, const std::string& device) {
    chain::LoadOptions options;
    options.device = device;
    options.output_folder = folder;
    return chain::parse_configuration(text, folder + "/chain.yaml", options);
}

/// Frames a millisecond apart.
void write_frames(const std::string& path, const std::vector<Frame>& frames) {
    io::CaptureWriter writer(path);
    uint64_t at_ns = 1'700'000'000'000'000'000;
    for (const Frame& frame : frames) writer.write(at_ns += 1'000'000, frame);
    ASSERT_TRUE(writer.close());
}

std::vector<Frame> read_frames(const std::string& path) {
    std::vector<Frame> frames;
    io::CaptureReader reader(path);
    io::CaptureRecord record;
    while (reader.next(record)) frames.emplace_back(record.bytes.begin(), record.bytes.end());
    return frames;
}

std::string chain_text(const std::string& reassemble, const std::string& nfs, const std::string& in = "pcap: in.pcap") {
    return "version: 1\nports:\n  in: {" + in + "}\n  out: {output: out.pcap}\nchains:\n  c:\n    input: in\n" +
           "    output: out\n" + (reassemble.empty() ? "" : "    reassemble: " + reassemble + "\n") +
           "    nfs: " + nfs + "\n";
}

exec::Report run_program(const std::string& text, const std::string& folder, const std::string& device,
                         unsigned workers = 1) {
    exec::RuntimeOptions options;
    options.workers = workers;
    options.devices = open_devices(device);
    exec::Runtime runtime(configuration(text, folder, device), options);
    runtime.start();
    exec::Report report = end_of_run(runtime);
    EXPECT_EQ(report.chains[0].in_flight, 0u);
    return report;
}

/// The same, with packets that come to the device.
exec::Report run_to_end(const std::string& text, const std::string& folder, const std::string& device,
                        unsigned workers = 1) {
    exec::Report report = run_program(text, folder, device, workers);
    expect_work(Work::device_alone, report);
    return report;
}

constexpr const char* kByPort = "[firewall: {default: deny, rules: [permit udp from any to any port 53]}]";

class Fragments : public testing::TestWithParam<std::string> {
protected:
    TestFolder folder_;
    const std::string& path() const { return folder_.path(); }
};
INSTANTIATE_TEST_SUITE_P(Devices, Fragments, testing::ValuesIn(test_devices()), device_test_name);

TEST_P(Fragments, AreJudgedAsTheirPacketAndLeaveAsItInIpv4) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    std::vector<Frame> sent, expected;
    for (uint32_t k = 0; k < 300; ++k) {
        const Frame packet = udp_packet(false, 3000, k % 100);
        auto pieces = fragments_of(packet, 1480, k);
        std::reverse(pieces.begin(), pieces.end());
        sent.insert(sent.end(), pieces.begin(), pieces.end());
        sent.push_back(udp_packet(false, 100, k));
    }
    write_frames(path() + "/in.pcap", sent);
    const exec::Report report = run_to_end(chain_text("true", kByPort), path(), GetParam());
    const exec::ChainReport& chain = report.chains[0];
    EXPECT_EQ(chain.received_packets, sent.size());
    EXPECT_EQ(chain.reassembled, 300u);
    EXPECT_EQ(chain.joined, 600u);
    EXPECT_EQ(chain.sent_packets, 600u) << "a capture takes packets of any length";
    EXPECT_EQ(chain.dropped, 0u);
    uint64_t bytes = 0;
    for (const Frame& frame : sent) bytes += frame.size();
    EXPECT_EQ(chain.received_bytes, bytes);
    const auto left = read_frames(path() + "/out.pcap");
    ASSERT_EQ(left.size(), 600u);
    for (uint32_t k = 0; k < 300; ++k) {
        const Frame packet = udp_packet(false, 3000, k % 100);
        ASSERT_TRUE(std::equal(packet.begin() + 28, packet.end(), left[2 * k].begin() + 28)) << k;
    }
}

TEST_P(Fragments, LeaveAsTheyCameInIpv6) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    std::vector<Frame> sent;
    for (uint32_t k = 0; k < 300; ++k)
        for (const Frame& piece : fragments_of(udp_packet(true, 3000, k % 100), 1448, k)) sent.push_back(piece);
    write_frames(path() + "/in.pcap", sent);
    const exec::Report report = run_to_end(chain_text("{timeout: 1s}", kByPort), path(), GetParam());
    EXPECT_EQ(report.chains[0].reassembled, 300u);
    EXPECT_EQ(report.chains[0].split, 600u);
    EXPECT_EQ(report.chains[0].sent_packets, sent.size());
    EXPECT_EQ(read_frames(path() + "/out.pcap"), sent) << "same identification, same lengths";
}

TEST_P(Fragments, ThatStayAloneAreDroppedByName) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    std::vector<Frame> sent;
    for (uint32_t k = 0; k < 3000; ++k) {
        const auto pieces = fragments_of(udp_packet(k % 2 == 1, 3000, k), 1440, k);
        sent.push_back(pieces[k % pieces.size()]);
        if (k % 10 == 0) sent.push_back(sent.back());
    }
    write_frames(path() + "/in.pcap", sent);
    const exec::Report report = run_program(chain_text("{max-packets: 100, timeout: 500ms}", kByPort), path(),
                                            GetParam());
    const exec::ChainReport& chain = report.chains[0];
    EXPECT_EQ(chain.sent_packets, 0u);
    EXPECT_EQ(chain.dropped, sent.size());
    EXPECT_EQ(chain.drops.at("fragments.duplicate"), 300u);
    EXPECT_EQ(chain.drops.at("fragments.table-full") + chain.drops.at("fragments.timeout"), 3000u);
    EXPECT_GE(chain.drops.at("fragments.timeout"), 100u);
}

TEST_P(Fragments, PassAsTheyAreWhereNobodyAsksForMore) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    std::vector<Frame> sent;
    for (uint32_t k = 0; k < 50; ++k)
        for (const Frame& piece : fragments_of(udp_packet(k % 2 == 1, 3000, k), 1440, k)) sent.push_back(piece);
    write_frames(path() + "/in.pcap", sent);
    // Without `reassemble:` the later fragments have no port that a rule could see.
    const exec::Report as_they_are = run_to_end(chain_text("", kByPort), path(), GetParam());
    EXPECT_EQ(as_they_are.chains[0].reassembled, 0u);
    EXPECT_EQ(as_they_are.chains[0].sent_packets, 50u);
    EXPECT_EQ(as_they_are.chains[0].drops.at("firewall.deny"), sent.size() - 50);
    // With it, but with no function that cares.
    const exec::Report by_address = run_to_end(
        chain_text("true", "[firewall: {default: permit, rules: [deny ip from 192.0.2.0/24]}]"), path(), GetParam());
    EXPECT_EQ(by_address.chains[0].reassembled, 0u);
    EXPECT_EQ(by_address.chains[0].sent_packets, sent.size());
}

TEST_P(Fragments, MeetAPatternThatLiesAcrossThem) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.udp = UdpHeader{.src = 1, .dst = 2, .length = {}, .checksum = {}};
    spec.payload.assign(300, 'x');
    const std::string evil = "something evil";
    std::copy(evil.begin(), evil.end(), spec.payload.begin() + 145);  // cut at 152, behind UDP's header
    const Frame packet = build(spec);
    const auto pieces = fragments_of(packet, 160, 1);
    write_frames(path() + "/in.pcap", {pieces[1], pieces[0], packet});
    const std::string nids =
        R"([{nids: {mode: ips, rule: ['drop ip any any -> any any (content:"something evil"; sid:1;)']}}])";
    EXPECT_EQ(run_to_end(chain_text("", nids), path(), GetParam()).chains[0].drops.at("nids.block"), 1u);
    EXPECT_EQ(run_to_end(chain_text("true", nids), path(), GetParam()).chains[0].drops.at("nids.block"), 2u);
}

TEST_P(Fragments, OfChainsBehindAClassificationAndOfSeveralWorkersAreConserved) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    std::vector<Frame> sent;
    Rng rng(9);
    for (uint32_t k = 0; k < 4000; ++k) {
        auto pieces = fragments_of(udp_packet(k % 2 == 1, 100 + rng() % 4000, k % 200), 8 * (20 + rng() % 160), k);
        if (pieces.size() == 1) continue;
        if (rng() % 8 == 0) pieces.pop_back();
        if (rng() % 8 == 0) pieces.push_back(pieces.front());
        sent.insert(sent.end(), pieces.begin(), pieces.end());
    }
    for (size_t i = 0; i + 20 < sent.size(); ++i) std::swap(sent[i], sent[i + rng() % 20]);
    write_frames(path() + "/in.pcap", sent);
    const std::string text = R"(
version: 1
ports:
  in: {capture: {pcap: in.pcap}}
  out: {sink: {}}
chains:
  small: {output: out, reassemble: {max-packets: 64}, nfs: )" +
                             std::string(kByPort) + R"(}
  large: {output: out, reassemble: {max-packets: 1000, max-per-source: 10, timeout: 50ms}, nfs: )" +
                             kByPort + R"(}
  plain: {output: out, nfs: )" +
                             kByPort + R"(}
classify:
  - {match: {src: 10.0.0.0/25}, chain: small}
  - {match: {src: "2001:db8::/121"}, chain: large}
  - {chain: plain}
)";
    for (const unsigned workers : {1u, 4u}) {
        const exec::Report report = run_to_end(text, path(), GetParam(), workers);
        ASSERT_EQ(report.chains.size(), 3u) << "workers look packets up";
        EXPECT_GT(report.chains[0].reassembled, 500u);
        EXPECT_GT(report.chains[1].reassembled, 500u);
        EXPECT_GT(report.chains[1].dropped, 100u);
        EXPECT_EQ(report.chains[2].reassembled, 0u);
        EXPECT_EQ(
            report.chains[0].received_packets + report.chains[1].received_packets + report.chains[2].received_packets,
            sent.size());
    }
}

TEST_P(Fragments, OutliveChangesOfTheConfigurationButForTheirLimits) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    std::vector<Frame> first_ones;
    for (uint32_t k = 0; k < 400; ++k) first_ones.push_back(fragments_of(udp_packet(false, 600, k), 320, k)[0]);
    write_frames(path() + "/in.pcap", first_ones);
    const std::string in = "source: {replay: in.pcap, count: 400, rate: 1000}";
    exec::RuntimeOptions options;
    options.devices = open_devices(GetParam());
    exec::Runtime runtime(
        configuration(chain_text("{max-packets: 500, max-per-source: 500, timeout: 60s}", kByPort, in), path(),
                      GetParam()),
        options);
    const auto apply = [&](const std::string& limits, const std::string& nfs) {
        chain::LoadOptions with_state;
        with_state.device = GetParam();
        with_state.output_folder = path();
        with_state.previous = runtime.configuration().get();
        runtime.apply(chain::parse_configuration(chain_text(limits, nfs, in), path() + "/chain.yaml", with_state));
    };
    const auto drops = [&] { return exec::make_report(runtime).chains[0].drops; };
    runtime.start();
    while (exec::make_report(runtime).chains[0].in_flight < 50) runtime.wait(std::chrono::milliseconds(5));
    apply("{max-packets: 500, max-per-source: 500, timeout: 60s}",
          "[firewall: {default: deny, rules: [permit udp from any to any port 54]}]");
    EXPECT_TRUE(drops().empty()) << "another rule is no reason";
    try {
        apply("{max-packets: 5000}", kByPort);
        ADD_FAILURE() << "there are not as many buffers";
    } catch (const ConfigError& e) {
        EXPECT_NE(std::string(e.what()).find("more fragments together"), std::string::npos) << e.what();
    }
    apply("{max-packets: 400, max-per-source: 400, timeout: 60s}", kByPort);
    EXPECT_GE(drops()["fragments.chain-changed"], 50u);
    apply("", kByPort);
    const exec::Report report = end_of_run(runtime, Work::device_alone);
    EXPECT_EQ(report.chains[0].received_packets, 400u);
    EXPECT_EQ(report.chains[0].in_flight, 0u);
}

}  // namespace
}  // namespace millrace::test
