// The example's files are what they say: read as `millrace check` reads them.
#include <gtest/gtest.h>

#include "millrace/io/capture/capture_reader.hpp"
#include "support/data.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

class ExampleFile : public testing::TestWithParam<const char*> {};

TEST_P(ExampleFile, GivesEveryNetworkFunctionOptionsItTakesWithoutAWarning) {
    const Config root = Config::load(source_path("examples/") + GetParam());
    std::vector<std::string> ports;
    for (const auto& [name, port] : root.at("ports").entries()) ports.push_back(name.text());
    size_t made = 0;
    for (const auto& [chain_name, chain] : root.at("chains").entries())
        for (const Config& entry : chain.at("nfs").items())
            for (const auto& [key, options] : entry.entries()) {
                if (key.text() == "name" || key.text() == "on") continue;
                if (nf::find_type(key.text()) == nullptr)
                    GTEST_SKIP() << "this build has no network function '" << key.text() << "'";
                nf::Environment environment{.node_name = key.text(),
                                            .chain_name = chain_name.text(),
                                            .output_folder = testing::TempDir(),
                                            .ports = ports};
                EXPECT_NO_THROW(NfRunner(key.text(), options, environment)) << key.text();
                for (const Diagnostic& warning : environment.warn.take_warnings()) ADD_FAILURE() << warning.render();
                ++made;
            }
    EXPECT_GE(made, 1u);
}

INSTANTIATE_TEST_SUITE_P(Examples, ExampleFile,
                         testing::Values("gateway.yaml", "branches.yaml", "switch.yaml", "openflow.yaml", "live.yaml",
                                         "policer.yaml", "stateful.yaml", "nat.yaml", "nat64.yaml", "tunnel.yaml",
                                         "ipfix.yaml"));

TEST(ExampleTraffic, HasPacketsOfManyKindsInWholeFrames) {
    io::CaptureReader reader(source_path("examples/traffic.pcap"));
    size_t packets = 0, ipv4 = 0, ipv6 = 0, tagged = 0, fragments = 0, tcp = 0, udp = 0, icmp = 0, malformed = 0,
           wrong = 0;
    for (io::CaptureRecord record; reader.next(record);) {
        const auto length = static_cast<uint32_t>(record.bytes.size());
        EXPECT_EQ(record.wire_bytes, length);
        EXPECT_LE(length, 1518u) << "taken behind an offload";
        const Layers layers = parse(record.bytes.data(), length, length);
        ++packets;
        ipv4 += layers.is_ipv4();
        ipv6 += layers.is_ipv6();
        tagged += layers.vlan_count > 0;
        fragments += layers.is_fragment();
        tcp += layers.is_tcp();
        udp += layers.is_udp();
        icmp += layers.is_icmp();
        malformed += layers.malformed != Malformed::no;
        const uint8_t* l3 = record.bytes.data() + layers.l3_offset;
        wrong += layers.is_ipv4() && (l3[0] & 15) == 5 && checksum(l3, 20) != 0;
    }
    EXPECT_EQ(reader.error(), "");
    EXPECT_GE(packets, 5000u);
    for (const size_t count : {ipv4, ipv6, tagged, fragments, tcp, udp, icmp}) EXPECT_GE(count, 20u);
    EXPECT_GE(malformed, 5u);
    EXPECT_EQ(wrong, 1u);  // on purpose; all others as on a wire
}

}  // namespace
}  // namespace millrace::test
