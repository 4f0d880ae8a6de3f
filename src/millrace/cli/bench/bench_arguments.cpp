#include "millrace/cli/bench/bench_arguments.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "lab/machine.hpp"
#include "millrace/base/files/output_file.hpp"
#include "millrace/cli/process/output_files.hpp"

namespace millrace::cli {
namespace {

volatile std::sig_atomic_t stop_asked = 0;

/// Counters of energy tell a new value some ten times a second.
constexpr double kIdleSeconds = 0.5;

const std::vector<std::string> kSizes = {"64", "128", "256", "512", "1024", "1518"};

/// A power of two, up to `most`.
CLI::Validator power_of_two(uint32_t most) {
    return {[most](const std::string& text) {
                uint32_t number = 0;
                const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
                const bool good = read.ec == std::errc() && read.ptr == text.data() + text.size() &&
                                  std::has_single_bit(number) && number <= most;
                return good ? std::string() : fmt::format("'{}' is no power of two up to {}", text, most);
            },
            ""};
}

}  // namespace

void BenchArguments::add_to(CLI::App& command) {
    command
        .add_option("--chain", chains,
                    "Network functions in order, such as firewall+nids+router+ipsec; may be given again")
        ->type_name("NF+NF…");
    command
        .add_option("--config", session.config,
                    "The chains of this configuration, with sources and a sink in place of its ports")
        ->type_name("FILE");
    command
        .add_option("-d,--device", devices,
                    "Devices to run on, one after the other: cpu, sim, cuda, cuda:1; and several at once, "
                    "cuda:0+cuda:1, cuda+cpu")
        ->delimiter(',')
        ->check(device_check())
        ->type_name("DEVICE,…");
    command.add_option("-w,--workers", workers, "Worker threads")
        ->delimiter(',')
        ->check(CLI::Range(1, 256))
        ->type_name("N,…");
    command.add_option("--cores", cores, "Pin the workers to these cores, in order")
        ->delimiter(',')
        ->type_name("N,N,…");
    command.add_option("--sizes", sizes, "Frames in bytes, without CRC; or imix")->delimiter(',')->type_name("BYTES,…");
    command.add_option("--replay", replay, "Send the frames of this capture, over and over, in place of --sizes")
        ->type_name("FILE");
    command.add_option("--for", session.seconds, "Seconds that count, at each point")
        ->check(positive_number())
        ->capture_default_str();
    command.add_option("--warm-up", session.warm_up, "Seconds before them")
        ->check(number_from_zero())
        ->capture_default_str();
    offload.add_to(command);
    command.add_option("--max-batch", session.max_batch, "Most packets in a batch")
        ->check(CLI::Range(1, 1 << 20))
        ->capture_default_str();
    command.add_option("--max-delay", session.max_delay, "Longest that a packet waits for its batch to fill")
        ->type_name("TIME")
        ->capture_default_str();
    command.add_option("--chains", session.chains, "Equal chains that share the packets, by their source ports")
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    command.add_option("--burst", burst, "Packets asked of a source at once")
        ->check(CLI::Range(1, 4096))
        ->capture_default_str();
    command.add_option("--buffers", buffers, "Packet buffers of each worker; 0: as many as its batches want")
        ->capture_default_str();
    command.add_flag("--many-rules", session.workload.many_rules,
                     "About 10,000 rules for the firewall in place of about 1,000");
    command.add_option("--patterns", session.workload.patterns, "Patterns of the NIDS, at most; 0: all of about 3,000")
        ->capture_default_str();
    command
        .add_option("--rules", session.workload.nids_rules,
                    "Rules of Snort or Suricata for the NIDS, in place of bare patterns; may be given again")
        ->delimiter(',')
        ->check(CLI::ExistingFile)
        ->type_name("FILE,…");
    command
        .add_option("--nids-flows", session.workload.nids_flows,
                    "What the NIDS keeps of flows: nothing; their state; TCP streams, too, as it does by default; HTTP "
                    "messages, too")
        ->check(CLI::IsMember({"none", "flows", "streams", "messages"}))
        ->capture_default_str();
    command.add_option("--payload", session.workload.payload, "What frames carry")
        ->check(CLI::IsMember({"http", "capture", "random"}))
        ->capture_default_str();
    command.add_option("--flows", session.workload.flows, "Five-tuples")
        ->check(CLI::Range(1, 1 << 24))
        ->capture_default_str();
    command
        .add_option("--popularity", session.workload.popularity,
                    "Whether packets are of each five-tuple in turn, or of some far more often, by Zipf's law")
        ->check(CLI::IsMember({"even", "zipf"}))
        ->capture_default_str();
    command
        .add_option("--tunnels", session.workload.tunnels,
                    "ESP tunnels, by destination; one has numbers for 4,294,967,295 packets")
        ->check(power_of_two(lab::kMaxTunnels))
        ->capture_default_str();
    command.add_option("--cipher", session.workload.cipher, "Of the ESP tunnels")
        ->check(CLI::IsMember(lab::kCiphers))
        ->capture_default_str();
    command
        .add_option("--data", session.workload.data,
                    "Folder of published rules, patterns, routes and payload; without it they are made up")
        ->envname("MILLRACE_DATA")
        ->type_name("DIR");
    command.add_option("--layout", layout, "How received frames lie: each in a buffer of its own, or contiguous")
        ->check(CLI::IsMember({"buffers", "contiguous"}))
        ->capture_default_str();
    command.add_option("--restore", restore, "What sources write into a buffer that comes back into use")
        ->check(CLI::IsMember({"auto", "all", "headers", "nothing"}))
        ->capture_default_str();
    command.add_flag("--unchecked", unchecked, "Do not hold a sample of packets against the cpu");
    command
        .add_option("--timeline", timeline_file,
                    "Write when each batch of the last run was gathered, copied, run and applied, for ui.perfetto.dev")
        ->type_name("FILE");
    command.add_option("--json", json_file, "Write the results as JSON")->type_name("FILE");
}

std::vector<lab::Traffic> BenchArguments::traffics() const {
    std::vector<lab::Traffic> traffics;
    if (!replay.empty()) {
        lab::Traffic traffic;
        traffic.replay = std::filesystem::absolute(replay);
        return {traffic};
    }
    for (const std::string& size : sizes.empty() ? kSizes : sizes) {
        lab::Traffic traffic;
        traffic.size = size;
        traffics.push_back(traffic);
    }
    return traffics;
}

lab::Point BenchArguments::point(const std::string& chain, const std::string& device, const lab::Traffic& traffic,
                                 unsigned worker_count) const {
    lab::Point point;
    point.chain = chain;
    point.device = device;
    point.traffic = traffic;
    point.run.workers = worker_count;
    point.run.cores = cores;
    point.run.timeline_file = timeline_file;
    point.run.burst = burst;
    point.run.cpu = offload.cpu_options();
    point.run.offload = offload.options();
    point.run.compared = offload.compared();
    point.run.whole_frames = offload.whole_frames;
    point.run.threading = offload.threads();
    // In flight, and as many again on their way in and out; the cpu is best off with what fits its cache.
    point.run.buffers = buffers != 0      ? buffers
                        : device == "cpu" ? 2048
                                          : std::max(session.max_batch * (point.run.offload.depth + 2), 16384u);
    return point;
}

void BenchArguments::for_each_point(const std::function<void(const lab::Point&)>& measure) const {
    try {
        for (const std::string& device : devices)
            for (const std::string& chain : chains)
                for (const unsigned worker_count : workers)
                    for (const lab::Traffic& traffic : traffics()) measure(point(chain, device, traffic, worker_count));
    } catch (const lab::Stopped&) {  // NOLINT(bugprone-empty-catch): what was measured until then is told
    }
}

void BenchArguments::note_files(FileLedger& ledger) const {
    if (!session.config.empty()) ledger.note(FileLedger::Use::read, session.config, {"--config", 0, 0});
    if (!replay.empty()) ledger.note(FileLedger::Use::read, replay, {"--replay", 0, 0});
    for (const std::string& file : session.workload.nids_rules)
        ledger.note(FileLedger::Use::read, file, {"--rules", 0, 0});
    note_outputs(ledger, {{"--json", json_file}, {"--timeline", timeline_file}});
}

lab::SessionOptions BenchArguments::session_options(const std::string& scratch) const {
    FileLedger named;
    note_files(named);
    lab::SessionOptions options = session;
    options.note_files = [*this](FileLedger& ledger) { note_files(ledger); };
    options.workload.scratch = scratch;
    for (std::string& file : options.workload.nids_rules) file = std::filesystem::absolute(file);
    options.contiguous = layout == "contiguous";
    if (const auto* name = std::ranges::find(lab::kRestoreNames, restore); name != std::end(lab::kRestoreNames))
        options.restore = static_cast<io::Restore>(name - lab::kRestoreNames);
    options.checked = !unchecked;
    options.idle_seconds = kIdleSeconds;
    options.keep_kernels = offload.keep_kernels;
    options.progress = show_progress;
    options.stopped = stop_on_signals();
    return options;
}

std::function<bool()> stop_on_signals() {
    struct sigaction stop{};
    stop.sa_handler = [](int) { stop_asked = 1; };
    stop.sa_flags = SA_RESETHAND;
    for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &stop, nullptr);
    return [] { return stop_asked != 0; };
}

void BenchOutput::add(const lab::Result& result, std::string note) {
    if (result.counts.missed > 0) note += fmt::format("{}missed {}", note.empty() ? "" : "; ", result.counts.missed);
    if (const auto exhausted = result.ending.drops.find("ipsec.sequence-exhausted");
        exhausted != result.ending.drops.end())
        note += fmt::format("{}{} packets found their tunnel's sequence numbers used up, see --tunnels",
                            note.empty() ? "" : "; ", exhausted->second);
    if (result.ending.events > 0)
        note += fmt::format("{}{} alerts{}", note.empty() ? "" : "; ", result.ending.events,
                            result.ending.events_lost > 0 ? fmt::format(", {} lost", result.ending.events_lost) : "");
    if (!std::exchange(headed_, true))
        std::cout << "device  workers  chain                          frames      Mpkt/s    Gb/s  of bus  cycles/pkt   "
                     " batch   p50      p99      checked\n";
    const lab::Counts& counts = result.counts;
    const auto time = [&](double percent) {
        return time_text(static_cast<uint64_t>(counts.latency_us(percent) * 1e3));
    };
    std::cout << fmt::format(
                     "{:6}  {:7}  {:29}  {:>8}  {:9.3f}  {:6.1f}  {:>6}  {:10.0f}  {:7.0f}  {:7}  {:7}  {:7}  {}\n",
                     result.point.device, result.point.run.workers, result.point.chain,
                     std::filesystem::path(result.point.traffic.text()).filename().string(),
                     counts.packet_rate() * 1e-6, counts.bit_rate() * 1e-9,
                     result.bus_limit > 0 ? fmt::format("{:.2f}", result.share_of_bus()) : "-",
                     result.cycles_per_packet(),
                     counts.batches > 0
                         ? static_cast<double>(counts.received_packets) / static_cast<double>(counts.batches)
                         : 0,
                     time(50), time(99), result.check.equal, note)
              << std::flush;
    if (const std::string power = result.power.text(); !power.empty()) std::cout << "        power: " << power << "\n";
    for (const auto& [what, watts] : {std::pair("the GPU", &result.power.gpu), {"the CPU", &result.power.cpu}})
        if (!watts->missing.empty() && without_power_.insert(what).second)
            std::cout << fmt::format("        no power of {}: {}\n", what, watts->missing);
    if (const std::string mistake = result.mistake(); !mistake.empty()) {
        ++mistakes_;
        std::cout << "        WRONG: " << mistake << "\n";
    }
    results_.push_back(result.json());
}

int BenchOutput::finish(const lab::Session& session, const nlohmann::json& more) {
    if (!json_file_.empty()) {
        nlohmann::json content = {{"inputs", session.inputs()}, {"results", results_}, {"stopped", session.stopped()}};
        content.update(more);
        write_json(json_file_, std::move(content));
    }
    if (mistakes_ > 0) std::cout << mistakes_ << " of " << results_.size() << " measurements are wrong\n";
    if (session.stopped()) std::cout << "stopped before its end: what was measured until then is told\n";
    return mistakes_ > 0 || session.stopped() ? kFailed : kOk;
}

void write_json(const std::string& file, nlohmann::json content) {
    nlohmann::json whole = lab::provenance();
    whole.update(content);
    WholeFile out(file);
    out.stream() << whole.dump(1) << "\n";
    out.finish();
}

void show_progress(const std::string& what) {
    if (isatty(STDERR_FILENO) != 0) std::cerr << "\r" << what << "\x1b[K" << "\r" << std::flush;
    else std::cerr << what << "\n";
}

}  // namespace millrace::cli
