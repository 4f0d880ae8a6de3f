// A flood of packets that are too long earns no flood of ICMP errors: a policer behind the network function that makes
// them limits them for each sender, the same on every device.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "support/end_of_run.hpp"
#include "support/devices.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {
namespace {

constexpr size_t kFlood = 5000, kTold = 10, kToldEach = 10;  ///< packets in a second; what the policer lets by at once,
                                                             ///< and a second

/// Who answers, and which packets it gets.
struct Answerer {
    const char* name;
    const char* function;
    bool ipv6;
};
constexpr Answerer kAnswerers[] = {
    {"ipsec",
     "ipsec: {default: bypass, icmp-from: [10.1.0.1, '2001:db8:1::1'], sas: [{name: east, direction: out, "
     "spi: 4097, local: 192.0.2.1, remote: 198.51.100.1, cipher: aes-128-gcm, "
     "key: 7e24067817fae0d743d6ce1f32539163, nonce: \"006cb6db\"}], "
     "policies: [{dst: [10.2.0.0/16, \"2001:db8:2::/48\"], action: protect, sa: east}]}",
     false},
    {"ipsec6", nullptr, true},
    {"nat64", "nat64: {pool: 10.2.0.1, forwards: [{protocol: udp, address: 10.2.0.1, port: 9, to: '2001:db8::1'}]}",
     false},
};
std::string function_of(const Answerer& answerer) {
    return answerer.function != nullptr ? answerer.function : kAnswerers[0].function;
}

/// A UDP packet of 1,500 bytes that must not be fragmented, from this sender.
Frame too_long(bool ipv6, uint8_t sender) {
    PacketSpec spec;
    if (ipv6) {
        Ipv6Header& header = spec.ipv6.emplace();
        header.src = millrace::test::ipv6("2001:db8:1::");
        header.src[15] = sender;
        header.dst = millrace::test::ipv6("2001:db8:2::1");
    } else {
        Ipv4Header& header = spec.ipv4.emplace();
        header.src = ipv4("10.1.0.0") + sender;
        header.dst = ipv4("10.2.0.1");
    }
    spec.udp = UdpHeader{.src = 7, .dst = 9};
    spec.payload = Frame(1500 - (ipv6 ? 48 : 28), sender);
    Frame frame = build(spec);
    if (ipv6) return frame;
    frame[20] |= 0x40;
    store_be16(frame.data() + 24, 0);
    store_be16(frame.data() + 24, checksum(frame.data() + 14, 20));
    return frame;
}

template <class T>
void append(std::string& bytes, const T& value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// One sender floods for a second; another sends five packets meanwhile.
void write_flood(const std::string& path, bool ipv6) {
    std::string bytes;
    for (const uint32_t word : {0xa1b2c3d4u, 0x00040002u, 0u, 0u, 65535u, 1u}) append(bytes, word);
    for (size_t i = 0; i < kFlood + 5; ++i) {
        const bool other = i % 1001 == 500;
        const Frame frame = too_long(ipv6, other ? 2 : 1);
        const uint64_t us = i * 1000000 / (kFlood + 5);
        for (const uint32_t word : {1700000000u, static_cast<uint32_t>(us), static_cast<uint32_t>(frame.size()),
                                    static_cast<uint32_t>(frame.size())})
            append(bytes, word);
        bytes.append(frame.begin(), frame.end());
    }
    std::ofstream(path, std::ios::binary) << bytes;
}

std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

class ErrorFlood : public testing::TestWithParam<std::string> {
protected:
    /// What left, and how many errors were over the rate.
    static std::pair<std::string, uint64_t> run(const std::string& device, const Answerer& answerer,
                                                const std::string& policer) {
        const std::string folder = testing::TempDir() + "error-flood-" + device;
        std::filesystem::create_directories(folder);
        write_flood(folder + "/in.pcap", answerer.ipv6);
        chain::LoadOptions load;
        load.device = device;
        load.output_folder = folder;
        exec::RuntimeOptions options;
        options.devices = open_devices(device);
        exec::Runtime runtime(
            chain::parse_configuration("version: 1\nports:\n  in: {pcap: " + folder +
                                           "/in.pcap}\n  out: {output: out.pcap}\nchains:\n"
                                           "  gateway:\n    input: in\n    output: out\n    nfs:\n      - " +
                                           function_of(answerer) +
                                           "\n        on: {too-big-answered: chain told}\n"
                                           "  told: {output: out, nfs: [" +
                                           policer + "]}\n",
                                       folder + "/chain.yaml", load),
            options);
        runtime.start();
        const exec::Report report = end_of_run(runtime, Work::device_alone);
        uint64_t over = 0;
        for (const auto& chain : report.chains)
            for (const auto& [reason, count] : chain.drops) {
                EXPECT_EQ(reason, "policer.over");
                over += count;
            }
        const std::string left = contents(folder + "/out.pcap");
        std::filesystem::remove_all(folder);
        return {left, over};
    }
};

TEST_P(ErrorFlood, GetsAsManyErrorsAsThePolicerLetsBy) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    const std::string policer = "policer: {rate: " + std::to_string(kToldEach) +
                                "pps, burst: " + std::to_string(kTold) + ", per: destination}";
    for (const Answerer& answerer : kAnswerers) {
        SCOPED_TRACE(answerer.name);
        const auto [left, over] = run(GetParam(), answerer, policer);
        const uint64_t told = kFlood + 5 - over;
        EXPECT_GE(told, 5 + kTold + kToldEach - 1) << "all of the other sender, and a second's of the one that floods";
        EXPECT_LE(told, 5 + kTold + kToldEach);
        EXPECT_EQ(left, run("cpu", answerer, policer).first);
        const auto [all_left, none] = run(GetParam(), answerer, "mirror");
        EXPECT_EQ(none, 0u);
        EXPECT_GT(all_left.size(), kFlood * 500) << "without it each packet has an error";
    }
}

INSTANTIATE_TEST_SUITE_P(OnEveryDevice, ErrorFlood, testing::ValuesIn(test_devices()), device_test_name);

}  // namespace
}  // namespace millrace::test
