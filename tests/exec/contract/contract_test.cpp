// The packet path allocates nothing, locks nothing, sleeps nowhere, and neither writes nor logs: workers run steady
// traffic through every network function that is shipped, while all that they do is counted.
#include <gtest/gtest.h>
#include <rte_log.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <mutex>
#include <thread>

#include "exec/contract/played_gpu.hpp"
#include "exec/contract/watch.hpp"
#include "lab/compared/master_worker.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/worker/runtime.hpp"
#include "millrace/exec/worker/worker.hpp"
#include "support/data.hpp"
#include "support/device_work.hpp"

namespace millrace::test {
namespace {

// --- What the watch can see -----------------------------------------------------------------------------------------

class CountingSink : public spdlog::sinks::base_sink<std::mutex> {
protected:
    void sink_it_(const spdlog::details::log_msg&) override { count_log_call(); }
    void flush_() override {}
};

/// Logs of workers count from here on, spdlog's and DPDK's.
void count_logs() {
    static const bool once = [] {
        spdlog::set_default_logger(std::make_shared<spdlog::logger>("contract", std::make_shared<CountingSink>()));
        cookie_io_functions_t functions{};
        functions.write = [](void*, const char*, size_t bytes) {
            count_log_call();
            return static_cast<ssize_t>(bytes);
        };
        rte_openlog_stream(fopencookie(nullptr, "w", functions));
        return true;
    }();
    ASSERT_TRUE(once);
}

// --- The runs -------------------------------------------------------------------------------------------------------

/// One way of running packets.
struct Way {
    std::string name;
    std::string device = "cpu";
    bool contiguous = false;
    unsigned workers = 1;
    lab::Threading threading = lab::Threading::full_path;
    device::Mode mode = device::Mode::fused;
    bool cpu_halves = true;
    bool call_thread = false;
    exec::TransferIn transfer_in = exec::TransferIn::automatic;
    exec::TransferOut transfer_out = exec::TransferOut::automatic;
    unsigned send_queues = 0;  ///< of the port that packets leave by; 0: one for each worker
};

/// One configuration, without its ports `in`, `out` and `other`.
struct Chains {
    std::string name;
    std::string text;
    std::string source = "{replay: examples/traffic.pcap}";
    bool alerts = false;
};

void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }
void PrintTo(const Chains& chains, std::ostream* out) { *out << chains.name; }

chain::Configuration configuration(const Chains& chains, const Way& way) {
    const std::string queues = std::to_string(way.workers);
    const std::string text = "version: 1\nports:\n  in: {source: " + chains.source + ", queues: " + queues +
                             "}\n  out: {sink: {latency: true}, queues: " +
                             std::to_string(way.send_queues > 0 ? way.send_queues : way.workers) +
                             "}\n  other: {sink: {}, queues: " + queues + "}\n" + chains.text;
    chain::LoadOptions options;
    options.device = way.device;
    options.output_folder = testing::TempDir() + "contract_" + std::to_string(getpid());
    std::filesystem::create_directories(options.output_folder);
    // Files are named as from the top of the tree.
    return chain::parse_configuration(text, source_path("contract.yaml"), options);
}

/// What a run did while it was watched.
struct Watched {
    uint64_t packets = 0, batches = 0, passed_on = 0, events = 0, dropped = 0;
    uint64_t deeds = 0;
    std::string text;
};

Watched sum(const exec::Runtime& runtime) {
    Watched all;
    for (const auto& worker : runtime.workers())
        for (const exec::ChainCounters* counters : worker->counters()) {
            all.packets += counters->received_packets.get();
            all.batches += counters->batches.get();
            all.passed_on += counters->passed_on.get();
            all.events += counters->events.get();
            all.dropped += counters->dropped();
        }
    return all;
}

/// Lets so many more packets come in; false when they don't.
bool pass(const exec::Runtime& runtime, uint64_t packets) {
    const uint64_t until = sum(runtime).packets + packets;
    for (unsigned looks = 0; looks < 30'000; ++looks) {
        if (sum(runtime).packets >= until) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
}

/// Lets packets come in until every worker has run every chain a few times; false when they don't.
bool warm_up(const exec::Runtime& runtime, uint64_t packets) {
    constexpr uint64_t kFew = 4;
    const auto is_cold = [](const exec::ChainCounters* counters) { return counters->batches.get() < kFew; };
    // A worker may wait long for a core of a busy machine.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (std::chrono::steady_clock::now() < end) {
        if (!pass(runtime, packets)) return false;
        if (std::none_of(runtime.workers().begin(), runtime.workers().end(), [&](const auto& worker) {
                const auto all = worker->counters();
                // Where a device classifies, chains share batches, which count for all of them.
                const auto shares = [&](const exec::ChainCounters* one) {
                    return std::ranges::any_of(all, [&](const exec::ChainCounters* group) {
                        return std::ranges::find(group->parts, one) != group->parts.end();
                    });
                };
                return std::ranges::any_of(all, [&](const auto* one) { return is_cold(one) && !shares(one); });
            }))
            return true;
    }
    return false;
}

Watched watch(const Chains& chains, const Way& way) {
    count_logs();
    exec::RuntimeOptions options;
    options.workers = way.workers;
    options.sources.contiguous = way.contiguous;
    lab::set_threading(options, way.threading);
    options.cpu.use_cpu_halves = way.cpu_halves;
    options.offload.mode = way.mode;
    options.offload.calls_by_thread = way.call_thread;
    options.offload.transfer_in = way.transfer_in;
    options.offload.transfer_out = way.transfer_out;
    if (way.device == "sim") options.devices = {std::make_shared<PlayedGpu>()};
    exec::Runtime runtime(configuration(chains, way), options);
    runtime.start();
    // Until all that grows with use has grown: to the largest batch, the longest queue, the last flow. What has not by
    // then is a finding.
    const uint64_t packets = chains.alerts ? 30'000 : way.device == "cpu" ? 150'000 : 60'000;
    EXPECT_TRUE(warm_up(runtime, packets / 3));
    const Watched before = sum(runtime);
    Watch watch;
    EXPECT_TRUE(pass(runtime, packets));
    watch.end();
    Watched during = sum(runtime);
    during.packets -= before.packets;
    during.batches -= before.batches;
    during.passed_on -= before.passed_on;
    during.events -= before.events;
    during.dropped -= before.dropped;
    during.deeds = watch.all();
    during.text = watch.text();
    runtime.stop();
    EXPECT_TRUE(runtime.wait(std::chrono::seconds(60)));
    runtime.finish();
    EXPECT_EQ(runtime.trouble(), "");
    const exec::Report report = exec::make_report(runtime);
    EXPECT_TRUE(report.conserved());
    expect_work(Work::shared_with_cpu, report);
    return during;
}

const std::string kTunnel =
    "ipsec: {sas: [{name: a, direction: out, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1, cipher: aes-128-ctr, "
    "key: 7e24067817fae0d743d6ce1f32539163, nonce: \"006cb6db\", auth-key: "
    "1f2e3d4c5b6a79880123456789abcdeffedcba98}], policies: [{dst: 0.0.0.0/0, action: protect, sa: a}], "
    "default: bypass}";

std::vector<Chains> all_chains() {
    const auto one = [](const std::string& nfs) {
        return "chains: {c: {input: in, output: out, punt: other, nfs: [" + nfs + "]}}\n";
    };
    std::vector<Chains> all;
    all.push_back({.name = "Nothing", .text = one("")});
    all.push_back({.name = "Mirror", .text = one("mirror")});
    all.push_back({.name = "Firewall", .text = one("firewall: {file: examples/firewall.rules, default: permit}")});
    all.push_back({.name = "Router",
                   .text = one("router: {routes: [{prefix: 0.0.0.0/0, via: [a, b]}, {prefix: \"::/0\", via: b}], "
                               "next-hops: {a: {mac: \"02:00:00:00:00:0a\"}, b: {mac: \"02:00:00:00:00:0b\", port: "
                               "other}}}")});
    all.push_back({.name = "Ipsec", .text = one(kTunnel)});
    all.push_back({.name = "Conntrack", .text = one("conntrack")});
    all.push_back({.name = "Nat", .text = one("nat: {inside: 10.0.0.0/8, pool: 198.51.100.0/30, ports: 1024-9215}")});
    all.push_back({.name = "Policer", .text = one("policer: {rate: 10Mpps, per: source/24}")});
    // Records all the time, to nobody.
    all.push_back({.name = "Ipfix",
                   .text = one("ipfix: {collector: \"192.0.2.1:4739\", max-flows: 64, idle-timeout: 1us}"),
                   .alerts = true});
    // Several alerts for each packet, some more than a device has room for, thresholds, and packets that are dropped.
    std::string many;
    for (unsigned sid = 100; sid < 140; ++sid)
        many += ", 'alert udp any any -> any 53 (msg:\"many\"; sid:" + std::to_string(sid) + ";)'";
    all.push_back({.name = "Nids",
                   .text = one("nids: {mode: ips, rule: ['alert ip any any -> any any (msg:\"any\"; sid:1;)', 'alert "
                               "tcp any any -> any any (msg:\"limited\"; content:\"a\"; nocase; pcre:\"/a[b-f]+/i\"; "
                               "threshold: type limit, track by_src, count 1, seconds 1; sid:2;)', 'drop udp any any "
                               "-> any any (msg:\"dropped\"; dsize:>300; sid:3;)'" +
                               many + "]}"),
                   .alerts = true});
    all.push_back(
        {.name = "NidsOfFlows",
         .text = one("nids: {flows: {max-flows: 1k}, rule: ['alert udp any any -> any any (msg:\"sets\"; "
                     "content:\"a\"; nocase; flowbits:set,seen; sid:1;)', 'alert ip any any -> any any "
                     "(msg:\"asks\"; flow:to_server; flowbits:isset,seen; sid:2;)', 'alert tcp any any -> any "
                     "any (msg:\"never\"; flow:established; sid:3;)']}"),
         .alerts = true});
    all.push_back(
        {.name = "NidsOfNumbers",
         .text = one("nids: {flows: {max-flows: 1k, midstream: true}, rule: ['alert tcp any any -> any any "
                     "(msg:\"counts\"; content:\"a\"; nocase; stream_size:client,>,200; sid:1;)', 'alert tcp any any "
                     "-> any any (msg:\"asks\"; flow:to_server; stream_size:either,<,9000; flowint:n,+,1; sid:2;)', "
                     "'alert ip any any -> any any (msg:\"more\"; flowint:n,>,2; sid:3;)']}"),
         .alerts = true});
    all.push_back(
        {.name = "NidsOfStreams",
         .text = one(
             "nids: {flows: {max-flows: 1k, midstream: true, streams: {}}, rule: ['alert tcp any any -> any any "
             "(msg:\"two\"; content:\"a\"; content:\"b\"; nocase; sid:1;)', 'alert ip any any -> any any "
             "(msg:\"all\"; flow:to_server; sid:2;)']}"),
         .alerts = true});
    all.push_back({.name = "Switch",
                   .text = one("switch: {flows: ['priority=9,udp,actions=output:out,output:other', "
                               "'priority=8,icmp,actions=controller', "
                               "'priority=7,ip,actions=dec_ttl,push_vlan:0x8100,set_field:0x1014->"
                               "vlan_vid,output:out', 'priority=1,actions=flood']}")});
    all.push_back({.name = "Gateway",
                   .text = R"(
chains:
  gateway:
    input: in
    output: out
    punt: other
    nfs:
      - firewall: {file: examples/firewall.rules, default: permit}
      - nids: {rules: [examples/nids.rules], mode: ips}
      - router:
          local: [10.0.10.1/32]
          routes: [{prefix: 0.0.0.0/0, via: a}, {prefix: "::/0", via: a}]
          next-hops: {a: {mac: "02:00:00:00:00:0a"}}
        on: {ttl-expired: punt}
      - )" + kTunnel + "\n",
                   .alerts = true});
    // A chain for every port of a server, which lead to one that all share, which leads to a last one.
    std::string classify = "classify:\n", chains = "chains:\n";
    for (unsigned i = 0; i < 40; ++i) {
        const std::string name = "c" + std::to_string(i), port = std::to_string(1000 + i);
        classify += "  - {match: {port: in, dst-port: " + port + "}, chain: " + name + "}\n";
        chains += "  " + name + ": {output: out, nfs: [{firewall: {default: permit}, on: {permit: chain shared}}]}\n";
    }
    chains +=
        "  shared: {output: out, nfs: [{mirror: , on: {forward: chain last}}]}\n"
        "  last: {output: out, nfs: [{firewall: {default: permit, rules: [deny udp from any to any port 1003]}}]}"
        "\n";
    const std::string source = "{size: [64, 700], flows: 4096, ports: {dst: 1000-1043}}";
    all.push_back({.name = "Classified", .text = classify + chains, .source = source});
    // So few that a device finds their packets' chains by itself; some packets are for none.
    all.push_back({.name = "ClassifiedOnTheDevice",
                   .text = R"(classify:
  - {match: {port: in, dst-port: 1000-1013}, chain: a}
  - {match: {port: in, dst-port: 1014-1030}, chain: b}
  - {match: {port: in, dst-port: 1031-1040}, chain: c}
chains:
  a: {output: out, nfs: [{firewall: {default: permit, rules: [deny udp from any to any port 1003]}}, mirror]}
  b: {output: out, nfs: [mirror]}
  c: {output: out, nfs: []}
)",
                   .source = source});
    return all;
}

std::vector<Way> all_ways() {
    using exec::TransferIn;
    using exec::TransferOut;
    return {
        {.name = "Cpu"},
        {.name = "CpuTwoWorkers", .workers = 2},
        {.name = "CpuOneSendQueue", .workers = 2, .send_queues = 1},
        {.name = "CpuDeviceHalves", .workers = 2, .cpu_halves = false},
        {.name = "CpuMaster", .workers = 2, .threading = lab::Threading::master_worker},
        {.name = "Sim", .device = "sim"},
        {.name = "SimTwoWorkers", .device = "sim", .workers = 2},
        {.name = "SimRuns", .device = "sim", .contiguous = true, .workers = 2},
        {.name = "SimRunsOneSendQueue", .device = "sim", .contiguous = true, .workers = 2, .send_queues = 1},
        {.name = "SimCallThread", .device = "sim", .workers = 2, .call_thread = true},
        {.name = "SimPersistent", .device = "sim", .workers = 2, .mode = device::Mode::persistent},
        {.name = "SimPipelined", .device = "sim", .mode = device::Mode::pipelined},
        {.name = "SimRows", .device = "sim", .transfer_in = TransferIn::rows},
        {.name = "SimMaster", .device = "sim", .workers = 2, .threading = lab::Threading::master_worker},
    };
}

class Contract : public testing::TestWithParam<std::tuple<Way, Chains>> {};

TEST_P(Contract, AllocatesLocksAndLogsNothing) {
    const auto& [way, chains] = GetParam();
    const Watched run = watch(chains, way);
    EXPECT_EQ(run.deeds, 0u) << "in " << run.packets << " packets of " << run.batches << " batches, with "
                             << run.passed_on << " passed on and " << run.events << " events:\n"
                             << run.text;
    EXPECT_EQ(run.events > 0, chains.alerts);
    const bool by_device = way.device != "cpu" && chains.name == "ClassifiedOnTheDevice";
    EXPECT_EQ(run.passed_on > 0, chains.name == "Classified" || by_device);
}

std::string case_name(const testing::TestParamInfo<Contract::ParamType>& info) {
    return std::get<0>(info.param).name + std::get<1>(info.param).name;
}
INSTANTIATE_TEST_SUITE_P(OfThePacketPath, Contract,
                         testing::Combine(testing::ValuesIn(all_ways()), testing::ValuesIn(all_chains())), case_name);

class Broken : public testing::TestWithParam<unsigned> {};

TEST_P(Broken, ContractIsNoticed) {
    static constexpr const char* kWords[kDeeds] = {"allocation", "lock", "sleep", "write", "log"};
    const Chains chains{.name = "Hoarder",
                        .text = std::string("chains: {c: {input: in, output: out, nfs: [hoarder: {deed: ") +
                                kWords[GetParam()] + "}]}}\n"};
    const Watched run = watch(chains, {.name = "Cpu"});
    EXPECT_GE(run.deeds, run.packets / 1000 / 2);
    EXPECT_NE(run.text.find(kDeedNames[GetParam()]), std::string::npos) << run.text;
}

INSTANTIATE_TEST_SUITE_P(ByEachDeed, Broken, testing::Range(0u, kDeeds));

}  // namespace
}  // namespace millrace::test
