// Benchmarks measure what they say, and notice when what they measure is wrong.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "millrace/base/eal.hpp"
#include "lab/transfer/bus.hpp"
#include "lab/machine.hpp"
#include "lab/sessions.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/io/capture/capture_writer.hpp"
#include "millrace/packet/bytes.hpp"
#include "support/data.hpp"
#include "support/devices.hpp"
#include "support/packet_builder.hpp"

namespace millrace::lab {
namespace {

TEST_F(Sessions, EndEarlyWithWhatWasMeasuredAndBeginNothingFurther) {
    SessionOptions options = this->options();
    options.seconds = 3600;
    std::atomic<bool> stop{false};
    options.stopped = [&] { return stop.load(); };
    Session session(options);
    {
        const auto loaded = session.open(point("router", "cpu"));
        loaded->start();
        EXPECT_TRUE(loaded->finish().conserved);
    }
    const std::jthread stopper([&] {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        stop = true;
    });
    const Result result = session.measure(point("router", "cpu"));
    EXPECT_EQ(result.mistake(), "");
    EXPECT_GT(result.counts.received_packets, 0u);
    EXPECT_LT(result.counts.seconds, 3600);
    EXPECT_GT(result.check.equal, 0u);
    EXPECT_THROW(session.measure(point("router", "cpu")), Stopped);
    EXPECT_THROW(session.open(point("router", "cpu")), Stopped);
}

TEST_F(Sessions, MeasureChainsOnEveryDeviceAndFindTheirPacketsRight) {
    Session session(options());
    for (const std::string& device : test::test_devices()) {
        MILLRACE_NEEDS_DEVICE(device);
        for (const char* chain : {"firewall+nids+router+ipsec", "router", "none"})
            for (const char* size : {"64", "imix"}) {
                SCOPED_TRACE(device + " " + chain + " " + size);
                const Result result = session.measure(point(chain, device, size));
                EXPECT_EQ(result.mistake(), "");
                EXPECT_GT(result.check.equal, 30u);
                EXPECT_EQ(result.check.different, 0u);
                EXPECT_GT(result.counts.packet_rate(), 0);
                EXPECT_GE(result.counts.seconds, 0.1) << "what was asked for";
                EXPECT_EQ(result.bus_limit > 0, device != "cpu");
                const nlohmann::json json = result.json();
                EXPECT_GT(json.at("gbps").get<double>(), 0);
                EXPECT_EQ(json.at("restore"), device != "cpu" && std::string(chain) != "router"       ? "nothing"
                                              : std::string(chain).find("ipsec") != std::string::npos ? "all"
                                                                                                      : "headers");
            }
    }
}

TEST_F(Sessions, MeasureEqualChainsThatShareAPort) {
    // As many functions as a device's program holds, and more.
    for (const auto& [chains, kinds] : {std::pair(2u, "firewall+mirror"), std::pair(20u, "mirror")}) {
        SessionOptions options = this->options();
        options.chains = chains;
        Session session(options);
        for (const std::string& device : test::test_devices()) {
            MILLRACE_NEEDS_DEVICE(device);
            SCOPED_TRACE(device + " " + std::to_string(chains));
            const Result result = session.measure(point(kinds, device, "64"));
            EXPECT_EQ(result.mistake(), "");
            EXPECT_GT(result.check.equal, 30u);
            EXPECT_EQ(result.check.different, 0u);
            EXPECT_GT(result.counts.packet_rate(), 0);
            EXPECT_EQ(session.inputs().at("chains"), chains);
        }
    }
}

TEST_F(Sessions, RaiseTheAlertsOfTheRulesThatTheyAreGiven) {
    SessionOptions options = this->options();
    const std::string file = files_.write("own.rules",
                                          "alert tcp any any -> any 80:90 (msg:\"every\"; dsize:>0; sid:1;)\n"
                                          "drop udp any any -> any any (msg:\"none\"; sid:2;)\n");
    options.workload.nids_rules = {file};
    Session session(options);
    EXPECT_EQ(session.inputs().at("nids"), "rules of " + file);
    for (const std::string& device : test::test_devices()) {
        MILLRACE_NEEDS_DEVICE(device);
        SCOPED_TRACE(device);
        const Result result = session.measure(point("nids", device));
        EXPECT_EQ(result.mistake(), "");
        EXPECT_GE(result.ending.events, result.counts.received_packets) << "one for each packet";
        EXPECT_EQ(result.json().at("events"), result.ending.events);
        EXPECT_EQ(result.json().at("restore"), device == "cpu" ? "all" : "nothing")
            << "each packet has a payload of its own, as the NIDS reads it";
        EXPECT_EQ(result.ending.drops.count("nids.block"), 0u);
    }
}

TEST_F(Sessions, TellWhatEachNfTakesOfTheKernels) {
    Session session(options());
    for (const std::string& device : test::offload_devices()) {
        MILLRACE_NEEDS_DEVICE(device);
        for (const device::Mode mode : {device::Mode::fused, device::Mode::pipelined})
            for (const char* size : {"64", "imix"}) {
                SCOPED_TRACE(device + " " + device::name_of(mode) + " " + size);
                Point one = point("firewall+nids+router+ipsec", device, size);
                one.run.offload.mode = mode;
                const KernelTimes times = session.time_kernels(one, 33);
                EXPECT_EQ(times.batch, 33u);
                EXPECT_GE(times.frame_bytes, 64);
                double whole = 0;
                std::map<std::string, double> parts;
                for (const KernelTimes::Part& part : times.parts) {
                    whole += part.ns_per_packet * 33e-3;
                    parts[part.name] = part.ns_per_packet;
                }
                EXPECT_EQ(parts.size(), times.parts.size()) << "each part once";
                EXPECT_NEAR(whole, times.batch_us, times.batch_us * 1e-6);
                for (const char* name :
                     {"parsing", "firewall", "nids", "router", "ipsec", "numbering for ipsec", "results"})
                    EXPECT_GT(parts[name], 0) << name;
                EXPECT_GT(times.kernel_rate, 0);
                EXPECT_GT(times.bus_rate, 0);
                // A busy machine may interrupt any part of a simulated kernel, hardly the same one five times.
                bool plausible = parts["nids"] + parts["ipsec"] > parts["parsing"];
                for (int again = 0; again < 4 && !plausible; ++again) {
                    for (const KernelTimes::Part& part : session.time_kernels(one, 33).parts)
                        parts[part.name] = part.ns_per_packet;
                    plausible = parts["nids"] + parts["ipsec"] > parts["parsing"];
                }
                EXPECT_TRUE(plausible) << "a search and a cipher cost more than a look at the headers";
            }
    }
    EXPECT_THROW(session.time_kernels(point("router", "cpu"), 10), std::invalid_argument);
}

TEST_F(Sessions, ReplayCapturesAndRunConfigurationFiles) {
    {
        io::CaptureWriter writer(scratch_ + "/replayed.pcap");
        for (int i = 0; i < 300; ++i)
            writer.write(1, test::build_packet("{ipv4: {src: 10.0.0." + std::to_string(i % 200) +
                                               ", dst: 64.0.0.1}, udp: {src: 5, dst: 6}, payload: hello}"));
    }
    std::ofstream(scratch_ + "/own.yaml") << "version: 1\nports: {a: {null: {}}, b: {null: {}}}\nchains:\n  first: "
                                             "{input: a, nfs: [mirror: {}], output: b}\n";
    SessionOptions own = options();
    own.config = scratch_ + "/own.yaml";
    Session session(own);
    Point replayed = point("own.yaml", "cpu");
    replayed.traffic.replay = scratch_ + "/replayed.pcap";
    const Result result = session.measure(replayed);
    EXPECT_EQ(result.mistake(), "");
    EXPECT_GT(result.check.equal, 30u);
    EXPECT_NEAR(result.json().at("frame-bytes-in").get<double>(), 47, 0.1);

    std::ofstream(scratch_ + "/both.yaml")
        << "version: 1\nports: {a: {null: {}}}\nchains:\n  first: {input: a, nfs: [mirror], output: a}\n";
    own.config = scratch_ + "/both.yaml";
    EXPECT_THROW(Session(own).measure(point("both.yaml", "cpu")), ConfigError);
}

TEST_F(Sessions, SayWhenSourcesHandOutFramesThatTheChainChanged) {
    SessionOptions wrong = options();
    wrong.restore = io::Restore::nothing;
    const Result result = Session(wrong).measure(point("firewall+nids+router+ipsec", "cpu"));
    EXPECT_NE(result.mistake().find("sources restore nothing"), std::string::npos) << result.mistake();
}

TEST_F(Sessions, CountWhatComesBeyondCapacityAsMissedAndTimeTheRest) {
    Session session(options());
    Point slow = point("router", "cpu");
    slow.traffic.rate = 20e3;
    slow.run.sources.descriptors = 4096;
    slow.timed = true;
    const Result relaxed = session.measure(slow);
    EXPECT_EQ(relaxed.mistake(), "");
    EXPECT_GT(relaxed.counts.received_packets, 0u);
    EXPECT_GT(relaxed.counts.latency_us(50), 0);
    slow.traffic.rate = 2e9;
    const Result flooded = session.measure(slow);
    EXPECT_EQ(flooded.mistake(), "");
    EXPECT_GT(flooded.counts.missed, flooded.counts.received_packets);
    const auto offered = [](const Counts& counts) { return counts.received_packets + counts.missed; };
    EXPECT_LT(offered(relaxed.counts), offered(flooded.counts));
    EXPECT_GT(flooded.counts.latency_us(50), relaxed.counts.latency_us(1));
}

TEST_F(Sessions, ChangeTheRateOfARunAtWork) {
    Session session(options());
    Point slow = point("none", "cpu");
    slow.traffic.rate = 1e3;
    auto run = session.open(slow);
    run->start();
    const Counts begin = run->counts();
    run->sleep(0.1);
    const Counts middle = run->counts();
    // A source may make up for 10 ms, and starts with what is due at once.
    EXPECT_LE(static_cast<double>(middle.received_packets), 1e3 * run->elapsed() + 20);
    run->set_rate(1e6);
    // More than the old rate would give in any time, however slow the machine is.
    wait_for(*run, [&](const Counts& now) {
        return static_cast<double>(now.received_packets - middle.received_packets) > 2e3 * run->elapsed() + 2000;
    });
    const Counts end = run->counts();
    EXPECT_EQ(session.close(slow, *run, end - begin).mistake(), "");
}

/// Each tunnel has its share of the packets, and all of them come out as on the cpu.
TEST_F(Sessions, ShareDestinationsOutAmongTunnels) {
    SessionOptions options = this->options();
    options.workload.tunnels = 4;
    Session session(options);
    const Result result = session.measure(point("ipsec", "cpu"));
    EXPECT_EQ(result.mistake(), "");
    EXPECT_GT(result.check.equal, 100u);
    EXPECT_EQ(result.ending.drops.count("ipsec.sequence-exhausted"), 0u);
    std::map<uint32_t, size_t> by_spi;
    auto run = session.open(point("ipsec", "cpu"));
    run->start();
    wait_for(*run, [](const Counts& now) { return now.sent_packets >= 1000; });
    for (const Sample& sample : run->finish().samples) {
        ASSERT_GT(sample.after.size(), 38u);
        EXPECT_EQ(sample.before[30] >> 4 & 3, sample.after[37] - 1)
            << "the destination's third and fourth bit choose the tunnel";
        ++by_spi[load_be32(sample.after.data() + 34)];
    }
    EXPECT_EQ(by_spi.size(), 4u);
}

TEST(Workloads, AreMadeUpWhereThereAreNoPublishedFiles) {
    const test::TestFolder scratch;
    WorkloadOptions options;
    options.scratch = scratch.path();
    options.patterns = 50;
    const Workload workload = make_workload(options);
    EXPECT_EQ(workload.patterns.size(), 50u);
    chain::LoadOptions load;
    load.output_folder = scratch.path();
    const auto configuration = chain::parse_configuration(
        chain_yaml(workload, {.kinds = {"firewall", "nids", "router", "ipsec", "mirror", "crc"}},
                   "  in: {source: {}}\n  out: {sink: {}}\n"),
        "test.yaml", load);
    EXPECT_EQ(configuration.chains[0]->nodes.size(), 6u);
    EXPECT_TRUE(configuration.warnings.empty()) << configuration.warnings.front().render();
    EXPECT_EQ(frames_of(workload, {.size = "500"}).templates.front().length, 500u);
    EXPECT_THROW(chain_yaml(workload, {.kinds = {"nat"}}, ""), std::invalid_argument);
}

TEST(Workloads, RefuseTunnelsThatDestinationsCannotBeSharedOutAmong) {
    for (const uint32_t tunnels : {0u, 3u, 6u, 2 * kMaxTunnels, UINT32_MAX}) {
        WorkloadOptions options;
        options.tunnels = tunnels;
        EXPECT_THROW(make_workload(options), std::invalid_argument) << tunnels;
    }
}

TEST(Bus, CarriesEachWayAndBothAtOnce) {
    device::sim::SimDevice device;
    BusOptions options;
    options.seconds = 0.02;
    options.to_device_bytes = 1 << 16;
    const BusRate in = measure_bus(device, options);
    EXPECT_GT(in.to_device_gbs, 0);
    EXPECT_EQ(in.to_host_gbs, 0);
    EXPECT_NEAR(in.to_device_gbs, in.pieces_per_second * 65536e-9, in.to_device_gbs * 0.01);
    options.to_host_bytes = 1 << 15;
    const BusRate both = measure_bus(device, options);
    // The shorter pieces make half the bytes. A way that is not ahead begins with as many as may be under way.
    const double pieces = both.to_device_gbs * 1e9 * options.seconds / static_cast<double>(options.to_device_bytes);
    EXPECT_NEAR(both.to_host_gbs, both.to_device_gbs / 2, both.to_device_gbs * 2 * options.depth / pieces);
    options.to_host_bytes = 0;
    options.row_bytes = 64;
    EXPECT_GT(measure_bus(device, options).to_device_gbs, 0);
    EXPECT_GT(bus_limit(device, 64, 100, 0.3), bus_limit(device, 1518, 1570, 0.3));
}

TEST(Provenance, SaysWhereFiguresComeFrom) {
    start_eal();
    const nlohmann::json from = provenance();
    EXPECT_EQ(from.at("command").get<std::string>().substr(0, 8), "test_lab");
    EXPECT_EQ(from.at("date").get<std::string>().size(), 10u);
    EXPECT_GT(from.at("machine").at("tsc-ghz").get<double>(), 0.1);
}

}  // namespace
}  // namespace millrace::lab
