// Records of flows from every device, against a model of what they should be.
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "millrace/base/files/file.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/worker/runtime.hpp"
#include "nf/ipfix/reader.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/golden.hpp"
#include "support/test_folder.hpp"

namespace millrace::test {
namespace {

constexpr uint64_t kSecond = 1'000'000'000, kMillisecond = 1'000'000, kEpoch = 1'600'000'000 * kSecond;

TEST(Ipfix, DoesWhatItsGoldenPacketsSay) { run_golden("ipfix"); }

struct Timed {
    uint64_t time_ns;
    Frame frame;
};

void write_capture(const std::string& path, const std::vector<Timed>& packets) {
    std::ofstream out(path, std::ios::binary);
    const auto put = [&](auto value) { out.write(reinterpret_cast<const char*>(&value), sizeof value); };
    put(uint32_t{0xa1b23c4d});  // nanoseconds
    put(uint16_t{2});
    put(uint16_t{4});
    put(uint64_t{0});
    put(uint32_t{65535});
    put(uint32_t{1});
    for (const auto& [time, frame] : packets) {
        put(static_cast<uint32_t>(time / kSecond));
        put(static_cast<uint32_t>(time % kSecond));
        put(static_cast<uint32_t>(frame.size()));
        put(static_cast<uint32_t>(frame.size()));
        out.write(reinterpret_cast<const char*>(frame.data()), static_cast<std::streamsize>(frame.size()));
    }
}

struct Exported {
    std::vector<IpfixRecord> flows;
    std::map<std::string, uint64_t> statistics;
    std::map<std::string, uint64_t> outcomes;
    uint64_t sum(uint16_t element) const {
        uint64_t all = 0;
        for (const IpfixRecord& flow : flows) all += flow.number(element);
        return all;
    }
    uint64_t of_reason(uint64_t reason) const {
        return static_cast<uint64_t>(
            std::ranges::count_if(flows, [&](const IpfixRecord& flow) { return flow.number(136) == reason; }));
    }
};

std::map<std::string, uint64_t> statistics_of(const nf::NetworkFunction& nf) {
    std::map<std::string, uint64_t> all;
    for (const nf::Statistic& statistic : nf.statistics()) all[statistic.name] = statistic.value;
    return all;
}

constexpr uint16_t kOctets = 1, kPackets = 2, kReason = 136;
constexpr uint64_t kIdle = 1, kActive = 2, kEndOfFlow = 3, kForced = 4, kResources = 5;

/// Every packet that was counted is in a record, or among those that are lost.
void expect_conserved(const Exported& exported, uint64_t packets) {
    const auto of = [](const std::map<std::string, uint64_t>& all, const char* name) { return all.at(name); };
    EXPECT_EQ(of(exported.outcomes, "counted") + of(exported.outcomes, "full") + of(exported.outcomes, "uncounted"),
              packets);
    EXPECT_EQ(exported.sum(kPackets), of(exported.statistics, "packets-exported"));
    EXPECT_EQ(exported.sum(kOctets), of(exported.statistics, "octets-exported"));
    EXPECT_EQ(exported.flows.size(), of(exported.statistics, "records-exported"));
    EXPECT_EQ(of(exported.statistics, "packets-exported") + of(exported.statistics, "packets-lost"),
              of(exported.outcomes, "counted"));
}

class IpfixRuns {
public:
    /// `ports` in place of a capture of `packets`.
    Exported run(const std::string& device, const std::string& options, const std::vector<Timed>& packets,
                 unsigned workers = 1, const std::string& ports = {}) {
        chain::Configuration configuration = load(device, options, packets, ports);
        exec::RuntimeOptions runtime_options;
        runtime_options.workers = workers;
        exec::Runtime runtime(std::move(configuration), runtime_options);
        runtime.start();
        EXPECT_TRUE(runtime.wait(std::chrono::minutes(5)));
        runtime.finish();
        EXPECT_EQ(runtime.trouble(), "");
        return read(runtime);
    }
    chain::Configuration load(const std::string& device, const std::string& options, const std::vector<Timed>& packets,
                              const std::string& ports = {}) {
        write_capture(folder_ / "in.pcap", packets);
        chain::LoadOptions load_options;
        load_options.device = device;
        load_options.output_folder = folder_.path();
        return chain::parse_configuration(
            "version: 1\nports:\n" +
                (ports.empty() ? "  in: {pcap: '" + folder_ / "in.pcap" + "'}\n  out: {null: {}}\n" : ports) +
                "chains:\n  test:\n    input: in\n    output: out\n    nfs: [ipfix: {file: flows.ipfix" +
                (options.empty() ? "" : ", " + options) + "}]\n",
            "(test)", load_options);
    }
    Exported read(const exec::Runtime& runtime) {
        Exported exported;
        const std::string all = read_file(folder_ / "flows.ipfix", {}, size_t{1} << 30);
        IpfixReader reader;
        reader.read({reinterpret_cast<const uint8_t*>(all.data()), all.size()});
        exported.flows = reader.flows();
        std::ranges::sort(exported.flows);
        const chain::Node& node = runtime.configuration()->chains[0]->nodes[0];
        exported.statistics = statistics_of(*node.nf);
        const exec::Report report = exec::make_report(runtime);
        for (const auto& outcome : report.chains[0].nodes[0].outcomes) exported.outcomes[outcome.name] = outcome.packets;
        EXPECT_EQ(report.chains[0].events_lost, 0u);
        return exported;
    }
    TestFolder folder_;
};

/// What a packet is to its flow, as it was built.
struct Given {
    uint64_t time_ns;
    PacketSpec spec;
};
std::vector<Timed> built(const std::vector<Given>& given) {
    std::vector<Timed> packets;
    for (const auto& [time, spec] : given) packets.push_back({time, build(spec)});
    return packets;
}

/// Flows by the book: packets one after the other, a map, and nothing of tables, sweeps or batches.
class Model {
public:
    Model(uint64_t idle_ns, uint64_t active_ns) : idle_(idle_ns), active_(active_ns) {}
    void take(const Given& packet) {
        const uint8_t flags = packet.spec.tcp ? packet.spec.tcp->flags : 0;
        auto& flow = flows_[key_of(packet.spec)];
        if (flow.packets > 0 && packet.time_ns > flow.last + (flow.ended ? std::min(idle_, 2 * kSecond) : idle_))
            end(packet.spec, flow, flow.ended ? kEndOfFlow : kIdle);
        else if (flow.packets > 0 && flow.ended && (flags & 2) != 0) end(packet.spec, flow, kEndOfFlow);
        else if (flow.packets > 0 && packet.time_ns - flow.first >= active_) {
            const bool ended = flow.ended;
            end(packet.spec, flow, kActive);
            flow.ended = ended;
        }
        if (flow.packets == 0) {
            flow.first = packet.time_ns;
            flow.tos = packet.spec.ipv4 ? packet.spec.ipv4->tos : 0;
            flow.spec = packet.spec;
        }
        flow.last = newest_ = packet.time_ns;
        ++flow.packets;
        flow.octets += build(packet.spec).size() - 14;
        flow.flags |= flags;
        flow.ended = flow.ended || (flags & 5) != 0;
    }
    /// As lines, in order.
    std::vector<std::string> records() {
        for (auto& [key, flow] : flows_)
            if (flow.packets > 0)
                end(flow.spec, flow,
                    flow.ended                     ? kEndOfFlow
                    : newest_ > flow.last + idle_ ? kIdle
                                                  : kForced);
        std::ranges::sort(lines_);
        return lines_;
    }

private:
    struct Flow {
        uint64_t first = 0, last = 0, packets = 0, octets = 0;
        uint8_t flags = 0, tos = 0;
        bool ended = false;
        PacketSpec spec;
    };
    static std::string key_of(const PacketSpec& spec) {
        const uint32_t ports = spec.tcp ? spec.tcp->src << 16 | spec.tcp->dst : spec.udp->src << 16 | spec.udp->dst;
        return std::to_string(spec.ipv4->src) + " " + std::to_string(spec.ipv4->dst) + " " + std::to_string(ports >> 16) +
               " " + std::to_string(ports & 0xffff) + (spec.tcp ? " 6" : " 17");
    }
    void end(const PacketSpec& spec, Flow& flow, uint64_t reason) {
        lines_.push_back(key_of(spec) + ": " + std::to_string(flow.packets) + " packets " + std::to_string(flow.octets) +
                         " octets " + std::to_string(flow.first / kMillisecond) + "-" +
                         std::to_string(flow.last / kMillisecond) + " flags " + std::to_string(flow.flags) + " tos " +
                         std::to_string(flow.tos) + " reason " + std::to_string(reason));
        flow = {};
    }
    const uint64_t idle_, active_;
    uint64_t newest_ = 0;
    std::map<std::string, Flow> flows_;
    std::vector<std::string> lines_;
};

std::vector<std::string> lines_of(const Exported& exported) {
    std::vector<std::string> lines;
    for (const IpfixRecord& flow : exported.flows)
        lines.push_back(std::to_string(flow.number(8)) + " " + std::to_string(flow.number(12)) + " " +
                        std::to_string(flow.number(7)) + " " + std::to_string(flow.number(11)) + " " +
                        std::to_string(flow.number(4)) + ": " + std::to_string(flow.number(kPackets)) + " packets " +
                        std::to_string(flow.number(kOctets)) + " octets " + std::to_string(flow.number(152)) + "-" +
                        std::to_string(flow.number(153)) + " flags " + std::to_string(flow.number(6)) + " tos " +
                        std::to_string(flow.number(5)) + " reason " + std::to_string(flow.number(kReason)));
    std::ranges::sort(lines);
    return lines;
}

/// Some flows with many packets and many with a few, with pauses of all lengths, beginnings and ends.
std::vector<Given> some_traffic(size_t count) {
    std::mt19937_64 rng(7);
    std::vector<Given> given;
    uint64_t time = kEpoch;
    for (size_t i = 0; i < count; ++i) {
        time += rng() % 400 == 0 ? rng() % (4 * kSecond) : rng() % (20 * kMillisecond);
        const auto flow = static_cast<uint32_t>(rng() % 4 == 0 ? rng() % 4 * 3 : std::min(rng() % 300, rng() % 300));
        Given& packet = given.emplace_back(Given{time, {}});
        packet.spec.ipv4.emplace();
        packet.spec.ipv4->src = 0x0a000000 + flow;
        packet.spec.ipv4->dst = 0x0b000000 + flow / 3;
        packet.spec.ipv4->tos = static_cast<uint8_t>(rng() % 3 * 4);
        if (flow % 3 == 0) {
            packet.spec.udp.emplace();
            packet.spec.udp->src = static_cast<uint16_t>(1000 + flow);
        } else {
            packet.spec.tcp.emplace();
            packet.spec.tcp->src = static_cast<uint16_t>(1000 + flow);
            constexpr uint8_t kFlags[] = {0x10, 0x18, 0x10, 0x18, 0x10, 0x11, 0x02, 0x04};
            packet.spec.tcp->flags = kFlags[rng() % 8];
        }
        packet.spec.payload = Frame(20 + rng() % 200);
    }
    return given;
}

class IpfixOn : public testing::TestWithParam<std::string>, public IpfixRuns {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
};
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

PacketSpec numbered(uint32_t flow) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.ipv4->src = 0x0a000000 + flow;
    spec.udp.emplace();
    return spec;
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
    expect(six, {{7, 1000}, {11, 443}, {4, 6}, {5, 0xb8}, {6, 0x1a}, {139, 0}, {58, 100}, {10, 1}, {14, 0},
                 {152, kEpoch / kMillisecond + 5}, {153, kEpoch / kMillisecond + 7}, {1, 2 * (40 + 20 + 10)}, {2, 2},
                 {136, 4}});
    expect(four, {{8, 0x0a000001}, {12, 0x0a000002}, {7, 0}, {11, 0}, {4, 1}, {5, 0}, {6, 0}, {32, 3 << 8 | 4}, {58, 0},
                  {10, 1}, {14, 0}, {1, 20 + 8 + 30}, {2, 1}, {136, 4}});
}

/// A generation goes on with flows, numbers and templates; one without the function ends them.
TEST_P(IpfixOn, GoesOnOverGenerations) {
    const std::string ports =
        "  in: {source: {count: 60000, rate: 60000, flows: 50, addresses: {src: 10.0.0.0/8, dst: 192.0.2.0/24}}}\n"
        "  out: {null: {}}\n";
    const std::string options = "active-timeout: 1000s";
    exec::Runtime runtime(load(GetParam(), options, {}, ports), {});
    runtime.start();
    for (int generation = 0; generation < 5; ++generation) {
        runtime.wait(std::chrono::milliseconds(100));
        chain::LoadOptions load_options;
        const auto current = runtime.configuration();
        load_options.device = GetParam();
        load_options.output_folder = folder_.path();
        load_options.previous = current.get();
        runtime.apply(chain::parse_configuration(
            "version: 1\nports:\n" + ports +
                "chains:\n  test:\n    input: in\n    output: out\n    nfs: [ipfix: {file: flows.ipfix, " + options +
                "}]\n",
            "(test)", load_options));
        runtime.tend();
    }
    EXPECT_TRUE(runtime.wait(std::chrono::minutes(1)));
    runtime.finish();
    const Exported exported = read(runtime);
    EXPECT_EQ(exported.flows.size(), 50u);
    EXPECT_EQ(exported.sum(kPackets), 60'000u);
    EXPECT_EQ(exported.of_reason(kForced), 50u);
    EXPECT_EQ(exported.statistics.at("entries-lost"), 0u);
}

TEST_P(IpfixOn, EndsItsFlowsWhereNoGenerationGoesOnWithThem) {
    const std::string ports =
        "  in: {source: {rate: 20000, flows: 50, addresses: {src: 10.0.0.0/8, dst: 192.0.2.0/24}}}\n"
        "  out: {null: {}}\n";
    exec::Runtime runtime(load(GetParam(), "active-timeout: 1000s", {}, ports), {});
    runtime.start();
    runtime.wait(std::chrono::milliseconds(300));
    chain::LoadOptions load_options;
    const auto first = runtime.configuration();
    load_options.device = GetParam();
    load_options.output_folder = folder_.path();
    load_options.previous = first.get();
    runtime.apply(chain::parse_configuration(
        "version: 1\nports:\n" + ports + "chains:\n  test:\n    input: in\n    output: out\n    nfs: [mirror]\n", "(test)",
        load_options));
    runtime.wait(std::chrono::milliseconds(200));
    runtime.stop();
    EXPECT_TRUE(runtime.wait(std::chrono::minutes(1)));
    runtime.finish();
    EXPECT_GT(exec::make_report(runtime).chains[0].nodes[0].packets, 1000u) << "packets of the generation behind it";
    const auto statistics = statistics_of(*first->chains[0]->nodes[0].nf);
    EXPECT_EQ(statistics.at("records-exported"), 50u);
    EXPECT_GT(statistics.at("packets-exported"), 1000u);
    EXPECT_EQ(statistics.at("packets-lost"), 0u);
}

}  // namespace
}  // namespace millrace::test
