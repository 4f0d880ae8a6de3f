#include "cases/case.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "millrace/io/capture/capture_reader.hpp"
#include "millrace/io/capture/capture_writer.hpp"
#include "support/device_work.hpp"
#include "support/devices.hpp"

namespace millrace::test {
namespace {

namespace fs = std::filesystem;

// Packets are told apart in the captures that a run writes by their times.
constexpr uint64_t kFirstTime = 1'700'000'000'000'000'000;
constexpr uint64_t kTimeStep = 1'000'000;

/// A copy of a case's folder that vanishes with its owner.
class Workplace {
public:
    explicit Workplace(const std::string& folder) {
        std::string pattern = (fs::temp_directory_path() / "millrace-case-XXXXXX").string();
        path_ = mkdtemp(pattern.data());
        fs::copy(folder, path_, fs::copy_options::recursive);
        fs::create_directories(path_ / "out");
    }
    ~Workplace() {
        std::error_code error;
        fs::remove_all(path_, error);
    }
    std::string operator/(const std::string& name) const { return (path_ / name).string(); }

private:
    fs::path path_;
};

/// Writes in.pcap from in.yaml: a list of packets, or {packets, cut}; an entry may be {packet, snap}.
void write_input(const std::string& yaml, const std::string& capture) {
    const Config input = Config::load(yaml);
    const Config packets = input.is_map() ? input.at("packets") : input;
    uint64_t number = 0;
    {
        io::CaptureWriter writer(capture);
        for (const Config& entry : packets.items()) {
            const bool snapped = entry.has("packet");
            if (snapped) entry.only({"packet", "snap"});
            const Frame frame = build_packet(snapped ? entry.at("packet") : entry);
            const size_t present = snapped ? static_cast<size_t>(entry.at("snap").integer(0, 65535)) : frame.size();
            writer.write(kFirstTime + ++number * kTimeStep, std::span(frame).first(std::min(present, frame.size())),
                         static_cast<uint32_t>(frame.size()));
        }
    }
    if (input.is_map())
        fs::resize_file(capture, fs::file_size(capture) - static_cast<uintmax_t>(input.at("cut").integer(1, 65535)));
}

/// "tap wan": in the order of the alphabet.
std::string joined(const std::set<std::string>& ports) {
    std::string text;
    for (const std::string& port : ports) text += (text.empty() ? "" : " ") + port;
    return text;
}

/// One port, or the list of several.
std::string ports_of(const nlohmann::json& verdict) {
    const auto& to = verdict.at("to");
    return to.is_array() ? joined(to.get<std::set<std::string>>()) : to.get<std::string>();
}

std::string text_of(const nlohmann::json& object, const char* key) { return object.at(key).get<std::string>(); }

void read_verdicts(const std::string& path, const std::string& own_folder, CaseRun& run) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
        const auto verdict = nlohmann::json::parse(line);
        CaseRun::Packet packet;
        // Explanations name the rule's file, which lies in another folder every time.
        for (size_t at = line.find(own_folder); at != std::string::npos; at = line.find(own_folder))
            line.erase(at, own_folder.size());
        packet.line = line;
        packet.end = text_of(verdict, "end");
        packet.end += packet.end == "sent" ? " " + ports_of(verdict)
                                           : " " + text_of(verdict, "by") + "." + text_of(verdict, "reason");
        for (const auto& step : verdict.at("path")) {
            packet.path.push_back(text_of(step, "nf") + "." + text_of(step, "outcome"));
            packet.chains += text_of(step, "chain") + " ";
        }
        EXPECT_TRUE(run.packets.emplace(verdict.at("packet").get<uint64_t>(), packet).second)
            << "two verdicts: " << line;
    }
}

void read_capture(const std::string& path, const std::string& port, CaseRun& run) {
    io::CaptureReader reader(path);
    std::map<std::string, uint64_t> before;  // by the chains that the packets went through
    for (io::CaptureRecord record; reader.next(record);) {
        const uint64_t number = (record.timestamp_ns - kFirstTime) / kTimeStep;
        uint64_t& last = before[run.packets[number].chains];
        EXPECT_LT(last, number) << "packets left by '" << port << "' out of order";
        last = number;
        const Frame frame(record.bytes.begin(), record.bytes.end());
        CaseRun::Sent& sent = run.sent[number];
        EXPECT_TRUE(sent.ports.empty() || sent.frame == frame) << "packet " << number << " left with different bytes";
        EXPECT_TRUE(sent.ports.insert(port).second) << "packet " << number << " left twice";
        sent.frame = frame;
    }
    EXPECT_EQ(reader.error(), "");
}

void read_alerts(const std::string& path, CaseRun& run) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
        const auto event = nlohmann::json::parse(line);
        if (event.contains("alert")) ++run.alerts[event["alert"]["signature_id"].get<uint64_t>()];
    }
}

/// "{a: 1, b: 2}" as the counts of a map.
std::map<std::string, uint64_t> read_counts(const Config& expected) {
    std::map<std::string, uint64_t> counts;
    for (const auto& [name, count] : expected.entries()) counts[name.text()] = static_cast<uint64_t>(count.integer(0));
    return counts;
}

void check_packet(uint64_t number, const Config& expected, const CaseRun& run) {
    SCOPED_TRACE("packet " + std::to_string(number));
    const std::string end = expected.is_map() ? expected.at("end").text() : expected.text();
    const auto packet = run.packets.find(number);
    if (end == "unclassified") {
        EXPECT_TRUE(packet == run.packets.end());
        return;
    }
    ASSERT_TRUE(packet != run.packets.end()) << "there is no verdict on it";
    EXPECT_EQ(end, packet->second.end) << packet->second.line;
    const auto sent = run.sent.find(number);
    if (end.starts_with("sent ")) {
        ASSERT_TRUE(sent != run.sent.end()) << "it is in no capture";
        EXPECT_EQ(end.substr(5), joined(sent->second.ports));
    } else if (end.starts_with("drop ")) {
        EXPECT_TRUE(sent == run.sent.end()) << "it was dropped and left";
    }
    if (!expected.is_map()) return;
    expected.only({"end", "path", "packet", "to", "length"});
    if (const auto path = expected.find("path")) {
        std::vector<std::string> steps;
        for (const Config& step : path->items()) steps.push_back(step.text());
        EXPECT_EQ(steps, packet->second.path);
    }
    if (!expected.has("packet") && !expected.has("to") && !expected.has("length")) return;
    ASSERT_TRUE(sent != run.sent.end()) << "it is in no capture";
    if (const auto to = expected.find("to")) {
        EXPECT_EQ(to->text(), joined(sent->second.ports));
    }
    if (const auto length = expected.find("length")) {
        EXPECT_EQ(static_cast<size_t>(length->integer()), sent->second.frame.size());
    }
    if (const auto frame = expected.find("packet")) {
        EXPECT_EQ(hex_dump(build_packet(*frame)), hex_dump(sent->second.frame));
    }
}

/// Nothing is lost: by the report, by the verdicts, and by the captures.
void check_conservation(const CaseRun& run) {
    EXPECT_TRUE(run.report.conserved());
    uint64_t received = 0, sent = 0;
    for (const exec::PortReport& port : run.report.ports) {
        received += port.counters.received_packets;
        sent += port.counters.sent_packets;
    }
    EXPECT_EQ(received, run.packets.size() + run.report.unclassified_packets);
    size_t left = 0;
    for (const auto& [number, packet] : run.sent) left += packet.ports.size();
    EXPECT_EQ(sent, left);
    for (const exec::ChainReport& chain : run.report.chains) {
        EXPECT_EQ(chain.in_flight, 0u);
        EXPECT_EQ(chain.events_lost, 0u);
    }
}

/// The device did the work, but for the packets that `on_cpu` counts: those that the host must decide.
void check_work(const Variant& variant, const CaseRun& run, uint64_t on_cpu) {
    if (variant.device.ends_with("+cpu")) return;  // so few packets may all stay on the CPU
    expect_work(on_cpu > 0 ? Work::shared_with_cpu : Work::device_alone, run.report);
    if (variant.device == "cpu" || on_cpu == 0) return;
    uint64_t retried = 0;
    for (const exec::ChainReport& chain : run.report.chains) {
        retried += chain.retried_on_cpu;
        EXPECT_EQ(chain.kept_on_cpu, 0u);
    }
    EXPECT_EQ(retried, on_cpu);
}

}  // namespace

const std::vector<Variant>& variants() {
    static const std::vector<Variant> all = [] {
        std::vector<Variant> variants = {
            {.name = "cpu, CPU halves"},
            {.name = "cpu, CPU halves, bursts of 3", .burst = 3},
            {.name = "cpu, CPU halves, with a master", .threading = lab::Threading::master_worker},
            {.name = "cpu, device halves, 1 lane", .cpu_halves = false, .lanes = 1},
            {.name = "cpu, device halves, 8 lanes", .cpu_halves = false, .lanes = 8, .burst = 1},
            {.name = "cpu, device halves, 32 lanes", .cpu_halves = false, .lanes = 32},
        };
        for (const std::string& device : offload_devices()) {
            // Far apart, those with the same kernels: what one process of several compiles another finds.
            for (const uint16_t burst : {Variant().burst, uint16_t{3}})
                for (const device::Mode mode : device::kModes)
                    variants.push_back(
                        {.name = device + ", " + device::name_of(mode) + (burst == 3 ? ", bursts of 3" : ""),
                         .device = device,
                         .mode = mode,
                         .burst = burst});
            variants.push_back({.name = device + " and the cpu", .device = device + "+cpu", .burst = 3});
            variants.push_back({.name = device + ", with a master",
                                .device = device,
                                .threading = lab::Threading::master_worker,
                                .burst = 3});
        }
        return variants;
    }();
    return all;
}

CaseRun run_case(const std::string& folder, const Variant& variant) {
    const Workplace workplace(folder);
    if (fs::exists(workplace / "in.yaml")) write_input(workplace / "in.yaml", workplace / "in.pcap");
    chain::LoadOptions load;
    load.device = variant.device;
    load.lanes = variant.lanes;
    load.output_folder = workplace / "out";
    exec::RuntimeOptions options;
    options.cpu.use_cpu_halves = variant.cpu_halves;
    options.offload.mode = variant.mode;
    lab::set_threading(options, variant.threading);
    options.offload.batch_bytes = size_t{1} << 20;
    options.burst = variant.burst;
    options.devices = open_devices(variant.device);
    options.verdict_file = workplace / "verdicts.json";
    options.pool_packets = 1024;
    CaseRun run;
    {
        exec::Runtime runtime(chain::load_configuration(workplace / "chain.yaml", load), options);
        runtime.start();
        if (!runtime.wait(std::chrono::seconds(60))) throw std::runtime_error("the run does not end");
        runtime.finish();
        if (!runtime.trouble().empty()) throw std::runtime_error(runtime.trouble());
        run.report = exec::make_report(runtime);
    }
    read_verdicts(workplace / "verdicts.json", workplace / "", run);
    for (const exec::PortReport& port : run.report.ports) {
        // A capture lies in the output folder or beside the chain.
        for (const std::string& name : {"out/" + port.name + ".pcap", port.name + ".pcap"})
            if (port.kind == "output" && fs::exists(workplace / name)) read_capture(workplace / name, port.name, run);
    }
    read_alerts(workplace / "out/eve.json", run);
    return run;
}

void check_case(const std::string& folder, const Variant& variant, const CaseRun& run) {
    const Config expected = Config::load(folder + "/expect.yaml");
    expected.only({"packets", "drops", "alerts", "ports", "on-cpu"});
    std::set<uint64_t> numbers;
    uint64_t unclassified = 0;
    for (const auto& [number, packet] : expected.at("packets").entries()) {
        numbers.insert(static_cast<uint64_t>(number.integer(1)));
        unclassified += packet.is_scalar() && packet.text() == "unclassified";
        check_packet(static_cast<uint64_t>(number.integer(1)), packet, run);
    }
    for (const auto& [number, packet] : run.packets)
        EXPECT_TRUE(numbers.contains(number)) << "not expected: " << packet.line;
    EXPECT_EQ(unclassified, run.report.unclassified_packets);

    std::map<std::string, uint64_t> drops;
    for (const exec::ChainReport& chain : run.report.chains)
        for (const auto& [reason, count] : chain.drops) drops[chain.name + "." + reason] += count;
    EXPECT_EQ(expected.has("drops") ? read_counts(expected.at("drops")) : decltype(drops){}, drops);

    std::map<std::string, uint64_t> alerts;
    for (const auto& [sid, count] : run.alerts) alerts[std::to_string(sid)] = count;
    EXPECT_EQ(expected.has("alerts") ? read_counts(expected.at("alerts")) : decltype(alerts){}, alerts);

    if (const auto ports = expected.find("ports"))
        for (const auto& [name, counts] : ports->entries())
            for (const exec::PortReport& port : run.report.ports) {
                if (port.name != name.text()) continue;
                std::map<std::string, uint64_t> seen = {{"received", port.counters.received_packets},
                                                        {"sent", port.counters.sent_packets}};
                seen.insert(port.counters.drops.begin(), port.counters.drops.end());
                seen.insert(port.counters.details.begin(), port.counters.details.end());
                for (const auto& [what, count] : read_counts(counts))
                    EXPECT_EQ(count, seen[what]) << name.text() << ": " << what;
            }
    check_conservation(run);
    check_work(variant, run, static_cast<uint64_t>(expected.integer_or("on-cpu", 0, 0)));
}

}  // namespace millrace::test
