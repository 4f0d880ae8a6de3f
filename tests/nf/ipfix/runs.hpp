// Runs of a chain with `ipfix` over packets of given times, and what has come of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "millrace/base/files/file.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "nf/ipfix/reader.hpp"
#include "support/end_of_run.hpp"
#include "support/devices.hpp"
#include "support/packet_builder.hpp"
#include "support/test_folder.hpp"

namespace millrace::test {

inline constexpr uint64_t kSecond = 1'000'000'000, kMillisecond = 1'000'000, kEpoch = 1'600'000'000 * kSecond;

struct Timed {
    uint64_t time_ns;
    Frame frame;
};

inline void write_capture(const std::string& path, const std::vector<Timed>& packets) {
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

inline std::map<std::string, uint64_t> statistics_of(const nf::NetworkFunction& nf) {
    std::map<std::string, uint64_t> all;
    for (const nf::Statistic& statistic : nf.statistics()) all[statistic.name] = statistic.value;
    return all;
}

inline constexpr uint16_t kOctets = 1, kPackets = 2, kReason = 136;
inline constexpr uint64_t kIdle = 1, kActive = 2, kEndOfFlow = 3, kForced = 4, kResources = 5;

/// Every packet that was counted is in a record, or among those that are lost.
inline void expect_conserved(const Exported& exported, uint64_t packets) {
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
        end_of_run(runtime);
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
    /// Expects that the device has done all of the work, unless `work` says otherwise.
    Exported read(const exec::Runtime& runtime, Work work = Work::device_alone) {
        Exported exported;
        const std::string all = read_file(folder_ / "flows.ipfix", {}, size_t{1} << 30);
        IpfixReader reader;
        reader.read({reinterpret_cast<const uint8_t*>(all.data()), all.size()});
        exported.flows = reader.flows();
        std::ranges::sort(exported.flows);
        const chain::Node& node = runtime.configuration()->chains[0]->nodes[0];
        exported.statistics = statistics_of(*node.nf);
        const exec::Report report = exec::make_report(runtime);
        for (const auto& outcome : report.chains[0].nodes[0].outcomes)
            exported.outcomes[outcome.name] = outcome.packets;
        EXPECT_EQ(report.chains[0].events_lost, 0u);
        expect_work(work, report);
        return exported;
    }
    TestFolder folder_;
};

inline PacketSpec numbered(uint32_t flow) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.ipv4->src = 0x0a000000 + flow;
    spec.udp.emplace();
    return spec;
}

class IpfixOn : public testing::TestWithParam<std::string>, public IpfixRuns {
protected:
    void SetUp() override { MILLRACE_NEEDS_DEVICE(GetParam()); }
};

}  // namespace millrace::test
