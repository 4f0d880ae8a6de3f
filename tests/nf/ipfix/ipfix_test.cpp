// Records of flows from every device, against a model of what they should be.
#include <gtest/gtest.h>

#include "nf/ipfix/model.hpp"
#include "support/golden.hpp"

namespace millrace::test {
namespace {

TEST(Ipfix, DoesWhatItsGoldenPacketsSay) { run_golden("ipfix"); }

INSTANTIATE_TEST_SUITE_P(Devices, IpfixOn, testing::ValuesIn(test_devices()), device_test_name);

TEST_P(IpfixOn, ExportsTheRecordsOfAModel) {
    const std::vector<Given> given = some_traffic(20'000);
    Model model(2 * kSecond, 10 * kSecond), lasting(3 * kSecond, 1000 * kSecond);
    for (const Given& packet : given) {
        model.take(packet);
        lasting.take(packet);
    }
    const Exported exported = run(GetParam(), "idle-timeout: 2s, active-timeout: 10s", built(given));
    EXPECT_EQ(lines_of(exported), model.records());
    expect_conserved(exported, given.size());
    for (const uint64_t reason : {kIdle, kActive, kEndOfFlow, kForced})
        EXPECT_GT(exported.of_reason(reason), 10u) << "reason " << reason;
    EXPECT_EQ(lines_of(run(GetParam(), "idle-timeout: 3s, active-timeout: 1000s", built(given))), lasting.records());
}

TEST_P(IpfixOn, ExportsTheRecordsOfAModelWithTwoWorkers) {
    const std::vector<Given> given = some_traffic(8'000);
    // Workers are apart by as much as they like: what one has swept another might have added to.
    Model model(1000 * kSecond, 2000 * kSecond);
    for (const Given& packet : given)
        if (!packet.spec.tcp) model.take(packet);
    std::vector<Given> datagrams = given;
    std::erase_if(datagrams, [](const Given& packet) { return packet.spec.tcp.has_value(); });
    const Exported exported = run(GetParam(), "idle-timeout: 1000s, active-timeout: 2000s", built(datagrams), 2);
    EXPECT_EQ(lines_of(exported), model.records());
    expect_conserved(exported, datagrams.size());
}

TEST_P(IpfixOn, ExportsAnyNumberOfFlows) {
    for (const uint32_t count : {0u, 1u, 31u, 32u, 33u, 1023u, 1024u, 1025u, 100'000u}) {
        std::vector<Given> given;
        Model model(15 * kSecond, 60 * kSecond);
        for (uint32_t i = 0; i < count; ++i) {
            given.push_back({kEpoch + i * 100'000, numbered(i)});
            model.take(given.back());
        }
        const Exported exported = run(GetParam(), "", built(given));
        EXPECT_EQ(exported.flows.size(), count);
        EXPECT_EQ(lines_of(exported), model.records()) << count << " flows";
        expect_conserved(exported, count);
    }
}

/// Sweeps find them: nobody else looks for them again.
TEST_P(IpfixOn, SweepsFlowsThatNoPacketComesTo) {
    std::vector<Timed> packets;
    for (uint32_t i = 0; i < 2000; ++i) packets.push_back({kEpoch + i * 1000, build(numbered(i))});
    for (uint32_t i = 0; i < 40'000; ++i)
        packets.push_back({kEpoch + 10 * kSecond + i * kMillisecond, build(numbered(1'000'000))});
    const Exported exported = run(GetParam(), "idle-timeout: 5s, active-timeout: 1000s, max-flows: 4096", packets);
    EXPECT_EQ(exported.flows.size(), 2001u);
    EXPECT_EQ(exported.of_reason(kIdle), 2000u);
    EXPECT_GT(exported.statistics.at("entries-expired"), 1990u);
    expect_conserved(exported, packets.size());
}

TEST_P(IpfixOn, MakesRoomForNewFlowsOrRefusesThem) {
    std::vector<Timed> packets;
    for (uint32_t i = 0; i < 5000; ++i) packets.push_back({kEpoch + i * 1000, build(numbered(i))});
    const Exported evicted = run(GetParam(), "max-flows: 100", packets);
    expect_conserved(evicted, packets.size());
    EXPECT_EQ(evicted.flows.size(), packets.size());
    EXPECT_EQ(evicted.of_reason(kResources), evicted.statistics.at("entries-evicted"));
    EXPECT_GT(evicted.of_reason(kResources), 4000u);
    EXPECT_EQ(evicted.of_reason(kResources) + evicted.of_reason(kForced), packets.size());
    const Exported refused = run(GetParam(), "max-flows: 100, when-full: refuse", packets);
    expect_conserved(refused, packets.size());
    EXPECT_EQ(refused.flows.size(), refused.outcomes.at("counted"));
    EXPECT_EQ(refused.outcomes.at("full"), refused.statistics.at("entries-refused"));
    EXPECT_GT(refused.outcomes.at("full"), 4000u);
    EXPECT_EQ(refused.of_reason(kForced), refused.flows.size());
}

TEST_P(IpfixOn, LosesNothingInAFlood) {
    std::vector<Timed> packets;
    for (uint32_t i = 0; i < 60'000; ++i) packets.push_back({kEpoch + i, build(numbered(i))});
    const Exported exported = run(GetParam(), "max-flows: 64", packets);
    expect_conserved(exported, packets.size());
    EXPECT_EQ(exported.statistics.at("packets-lost"), 0u);
    EXPECT_EQ(exported.flows.size(), packets.size());
}

TEST_P(IpfixOn, FillsInAllFieldsOfBothFamilies) {
    std::vector<Timed> packets;
    PacketSpec tcp;
    tcp.vlans = {{.id = 100}};
    tcp.ipv6.emplace();
    tcp.ipv6->traffic_class = 0xb8;
    tcp.tcp.emplace();
    tcp.tcp->src = 1000;
    tcp.tcp->dst = 443;
    tcp.tcp->flags = 0x02;
    tcp.payload = Frame(10);
    packets.push_back({kEpoch + 5 * kMillisecond, build(tcp)});
    tcp.tcp->flags = 0x18;
    packets.push_back({kEpoch + 7 * kMillisecond, build(tcp)});
    PacketSpec icmp;
    icmp.ipv4.emplace();
    icmp.icmp.emplace();
    icmp.icmp->type = 3;
    icmp.icmp->code = 4;
    icmp.payload = Frame(30);
    packets.push_back({kEpoch + 9 * kMillisecond, build(icmp)});
    const Exported exported = run(GetParam(), "domain: 9", packets);
    ASSERT_EQ(exported.flows.size(), 2u);
    const IpfixRecord &four = exported.flows[0], &six = exported.flows[1];
    EXPECT_EQ(six.bytes.at(27), std::string(tcp.ipv6->src.begin(), tcp.ipv6->src.end()));
    EXPECT_EQ(six.bytes.at(28), std::string(tcp.ipv6->dst.begin(), tcp.ipv6->dst.end()));
    const auto expect = [](const IpfixRecord& record, std::map<uint16_t, uint64_t> numbers) {
        for (const auto& [element, value] : numbers) EXPECT_EQ(record.number(element), value) << "element " << element;
    };
    expect(six, {{7, 1000},
                 {11, 443},
                 {4, 6},
                 {5, 0xb8},
                 {6, 0x1a},
                 {139, 0},
                 {58, 100},
                 {10, 1},
                 {14, 0},
                 {152, kEpoch / kMillisecond + 5},
                 {153, kEpoch / kMillisecond + 7},
                 {1, 2 * (40 + 20 + 10)},
                 {2, 2},
                 {136, 4}});
    expect(four, {{8, 0x0a000001},
                  {12, 0x0a000002},
                  {7, 0},
                  {11, 0},
                  {4, 1},
                  {5, 0},
                  {6, 0},
                  {32, 3 << 8 | 4},
                  {58, 0},
                  {10, 1},
                  {14, 0},
                  {1, 20 + 8 + 30},
                  {2, 1},
                  {136, 4}});
}

}  // namespace
}  // namespace millrace::test
