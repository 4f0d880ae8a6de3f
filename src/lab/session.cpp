#include "lab/session.hpp"

#include <fmt/format.h>
#include <rte_cycles.h>

#include <algorithm>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "millrace/base/eal.hpp"
#include "lab/transfer/bus.hpp"
#include "millrace/chain/frames/whole_frames.hpp"
#include "lab/chain_profile.hpp"
#include "millrace/chain/classification/classified.hpp"
#include "millrace/chain/tenants/parts.hpp"
#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/device/open.hpp"

namespace millrace::lab {
namespace {

/// "AES-128-CTR and HMAC-SHA1-96", of a cipher as the options name it.
std::string algorithms_of(std::string cipher) {
    for (char& c : cipher) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (cipher.ends_with("GCM")) return cipher + ", extended sequence numbers";
    return cipher + (cipher.find("256") != std::string::npos ? " and HMAC-SHA-256-128" : " and HMAC-SHA1-96");
}

constexpr uint32_t kSamples = 2048;  // of each sink's queue

std::vector<std::string> split(const std::string& text, char by) {
    std::vector<std::string> parts;
    std::istringstream in(text);
    for (std::string part; std::getline(in, part, by);) parts.push_back(part);
    return parts;
}

/// What is loaded of a point.
std::string key_of(const Point& point) {
    std::string key = point.chain + " on " + point.device;
    if (point.apart)
        key += fmt::format(", {} within {} us, {} workers, {} batches, {}", schedule::name_of(point.apart->sharing),
                           point.apart->latency_us, point.apart->workers, point.apart->batches, point.traffic.text());
    return key;
}

}  // namespace

/// A chain with its tables, ready for a device.
struct Session::Loaded {
    chain::Configuration configuration;
    /// Keeps the tables on the device from one run to the next.
    std::vector<std::shared_ptr<device::LoadedProgram>> programs;
    ApartPlan apart;
};

Session::Session(SessionOptions options) : options_(std::move(options)) {
    start_eal();
    options_.progress("making the tables' inputs");
    workload_ = make_workload(options_.workload);
}

Session::~Session() {
    loaded_.clear();
    references_.clear();
    kernel_runs_.clear();
}

std::vector<std::shared_ptr<device::Device>> Session::devices(const std::string& name, const Comparison& compared) {
    std::vector<std::shared_ptr<device::Device>> devices;
    for (const DeviceName& one : parse_device_names(name).devices) {
        // One that works otherwise stands before the same one.
        const Comparison opened{.graphs = compared.graphs};
        auto& device = devices_[{text_of({.devices = {one}}), compared}];
        if (device == nullptr && compared != opened)
            device = compared.put_before(this->devices(text_of({.devices = {one}}), opened).front());
        if (device == nullptr) device = opened.open(one, options_.keep_kernels);
        devices.push_back(device);
    }
    return devices;
}

double Session::bus_limit(const std::string& name, double bytes_in, double bytes_out) {
    const auto own = devices(name);
    if (own.empty() || bytes_in <= 0) return 0;
    double& limit = limits_[fmt::format("{} {:.0f} {:.0f}", name, bytes_in, bytes_out)];
    if (limit == 0) {
        options_.progress(
            fmt::format("the bus of {} for {:.0f} bytes a packet there and {:.0f} back", name, bytes_in, bytes_out));
        std::vector<std::future<double>> shares;
        for (const auto& device : own)
            shares.push_back(std::async(std::launch::async, [&] {
                return lab::bus_limit(*device, bytes_in, bytes_out, options_.bus_seconds, options_.bus_piece);
            }));
        for (auto& share : shares) limit += share.get();
    }
    return limit;
}

nlohmann::json Session::inputs() const {
    return {{"firewall", workload_.rules_name},
            {"nids", workload_.pattern_name},
            {"nids-flows", workload_.nids_flows},
            {"router", workload_.route_name},
            {"ipsec", fmt::format("{} tunnel{}, {}", workload_.tunnels, workload_.tunnels == 1 ? "" : "s",
                                  algorithms_of(workload_.cipher))},
            {"payload", workload_.payload_name},
            {"flows", workload_.flows},
            {"popularity", workload_.popularity},
            {"chains", options_.chains},
            {"max-batch", options_.max_batch},
            {"max-delay", options_.max_delay},
            {"configuration", options_.config}};
}

const Session::Metered& Session::metered(const std::string& name) {
    const auto known = meters_.find(name);
    if (known != meters_.end()) return known->second;
    std::vector<std::string> gpus;
    for (const auto& device : devices(name))
        if (const auto* gpu = dynamic_cast<const device::cuda::CudaDevice*>(device.get()))
            gpus.push_back(gpu->bus_id());
    Metered metered{PowerMeter(std::move(gpus), options_.powercap), std::nullopt};
    if (options_.idle_seconds > 0 && metered.meter.there()) {
        options_.progress(fmt::format("the power of {} while it is idle", name));
        const PowerMeter::Reading before = metered.meter.read();
        std::this_thread::sleep_for(std::chrono::duration<double>(options_.idle_seconds));
        metered.idle = metered.meter.between(before, metered.meter.read());
    }
    return meters_.emplace(name, std::move(metered)).first->second;
}

chain::Configuration Session::load(const std::string& chain, const std::string& device) const {
    options_.progress(fmt::format("loading {} for {}", chain, device));
    chain::LoadOptions load;
    load.device = device;
    load.output_folder = options_.workload.scratch;
    ChainOptions own;
    own.kinds = split(chain, '+');
    if (chain == "none") own.kinds.clear();
    own.device = device;
    own.max_batch = options_.max_batch;
    own.max_delay = options_.max_delay;
    own.chains = options_.chains;
    chain::Configuration loaded = !options_.config.empty()
                                      ? chain::load_configuration(options_.config, load)
                                      : chain::parse_configuration(
                                            chain_yaml(workload_, own, "  in: {source: {}}\n  out: {sink: {}}\n"),
                                            "benchmark.yaml", load);
    loaded.idle = chain::Idle::poll;  // a source's packets are timed
    return loaded;
}

Session::Loaded& Session::configured(const Point& point) {
    auto& loaded = loaded_[key_of(point)];
    if (loaded != nullptr) return *loaded;
    loaded = std::make_unique<Loaded>();
    if (point.apart) {
        stand_apart(point, *loaded);
        return *loaded;
    }
    loaded->configuration = load(point.chain, point.device);
    options_.note_files(*loaded->configuration.files);
    return *loaded;
}

/// All ways to stand apart have the same tables.
void Session::stand_apart(const Point& point, Loaded& loaded) {
    auto& whole = apart_[point.chain + " on " + point.device];
    if (whole == nullptr) {
        whole = std::make_unique<chain::Configuration>(load(point.chain, point.device));
        options_.note_files(*whole->files);
        chain::cut_apart(*whole);
    }
    loaded.configuration = *whole;
    std::vector<schedule::ChainProfile> profiles;
    for (const auto& program : loaded.configuration.chains) profiles.push_back(profile(point, program));
    loaded.apart = share_out(loaded.configuration, profiles, devices(point.device).front()->partitions(), *point.apart);
}

KernelRun& Session::kernels(const std::string& device) {
    auto& run = kernel_runs_[device];
    if (run == nullptr) run = std::make_unique<KernelRun>(*devices(device).front());
    return *run;
}

const schedule::ChainProfile& Session::profile(const Point& point,
                                               const std::shared_ptr<const chain::Program>& program) {
    auto& known = profiles_[fmt::format("{} {} {}", point.device, program->nodes.front().name, point.traffic.text())];
    if (!known.points.empty()) return known;
    const DeviceName device = parse_device_names(point.device).devices.front();
    ChainProfileOptions options;
    const io::TrafficFrames frames = frames_of(workload_, point.traffic);
    options.progress = options_.progress;
    known = profile_chain(*devices(point.device).front(), kernels(point.device), program, frames,
                          device::multiprocessors_of(device), options);
    return known;
}

Session::Loaded& Session::loaded(const Point& point) {
    Loaded& loaded = configured(point);
    loaded.programs.clear();
    const chain::Configuration& planned = loaded.configuration;
    const auto programs = chain::programs_of(point.run.whole_frames ? with_whole_frames(planned) : planned);
    for (const auto& device : devices(point.device, point.run.compared)) {
        const exec::OffloadOptions offload = point.run.compared.apply(point.run.offload, device->model());
        for (const auto& program : programs)
            loaded.programs.push_back(device->load(program, exec::steps_of(*program, offload)));
    }
    return loaded;
}

Reference& Session::reference(const std::string& chain, bool cpu_halves) {
    auto& reference = references_[chain + (cpu_halves ? "" : " device halves")];
    if (reference == nullptr) reference = std::make_unique<Reference>(load(chain, "cpu"), cpu_halves);
    return *reference;
}

/// What sources must write so that every frame is a fresh one, and no more.
io::Restore Session::restore_for(const Point& point, const chain::Configuration& configuration) const {
    using io::Restore;
    if (options_.contiguous) return Restore::nothing;
    if (options_.restore) return *options_.restore;
    const bool on_cpu = parse_device_names(point.device).cpu;
    bool payload = !point.traffic.replay.empty(), in_place = false;
    for (const auto& program : configuration.chains) {
        const Fields back = program->plan.to_host_total();
        const uint32_t bytes = back.empty() ? 0 : chain::prefix_bytes(back);
        // A device hands whole frames back in other memory, and heads in the receive buffers.
        in_place |= on_cpu || (bytes != 0 && bytes <= 128 && !point.run.whole_frames);
        for (const chain::Node& node : program->nodes)
            for (const Fields fields : {node.type->reads, node.type->cpu_reads, node.type->cpu_writes})
                payload |= !fields.empty() && chain::prefix_bytes(fields) == chain::kWholeFrame;
    }
    // With new headers alone all frames have one payload.
    return !in_place ? Restore::nothing : payload ? Restore::all : Restore::headers;
}

io::SourceDelivery Session::delivery_for(const Point& point, const chain::Configuration& configuration) const {
    return {restore_for(point, configuration), options_.contiguous, point.run.sources.descriptors};
}

std::unique_ptr<Run> Session::open(const Point& point) {
    if (stopped()) throw Stopped();
    Loaded& own = loaded(point);
    RunOptions run = point.run;
    run.sources = delivery_for(point, own.configuration);
    run.devices = devices(point.device, point.run.compared);
    const std::string sink = fmt::format("{{keep: {}, sample: true, latency: {}}}", options_.checked ? kSamples : 0,
                                         point.timed);
    return std::make_unique<Run>(
        own.configuration, bench_ports(own.configuration, source_options(workload_, point.traffic), sink, run), run);
}

Result Session::close(const Point& point, Run& run, const Counts& counts) {
    Result result;
    result.point = point;
    result.point.run.sources = delivery_for(point, loaded_.at(key_of(point))->configuration);
    result.apart = loaded_.at(key_of(point))->apart;
    result.counts = counts;
    result.ending = run.finish();
    if (options_.checked) {
        options_.progress(fmt::format("comparing {} packets with the cpu", result.ending.samples.size()));
        // On the cpu itself, with the other halves.
        result.check = check(reference(point.chain, point.device != "cpu" || !point.run.cpu.use_cpu_halves),
                             result.ending.samples);
    }
    result.ending.samples.clear();
    if (counts.received_packets > 0)
        result.crossing_limit = bus_limit(point.device, counts.per_packet(counts.bytes_to_device),
                                          counts.per_packet(counts.bytes_to_host));
    if (counts.received_packets > 0)
        result.bus_limit = bus_limit(
            point.device, static_cast<double>(counts.received_bytes) / static_cast<double>(counts.received_packets),
            static_cast<double>(counts.sent_bytes) / static_cast<double>(counts.received_packets));
    return result;
}

KernelTimes Session::time_kernels(const Point& point, uint32_t batch) {
    if (stopped()) throw Stopped();
    const auto own = devices(point.device);
    if (own.empty()) throw std::invalid_argument("the cpu has no kernels to time; name a device such as cuda or sim");
    const auto programs = chain::programs_of(configured(point).configuration);
    options_.progress(
        fmt::format("kernels of {} on {}, {} packets of {}", point.chain, point.device, batch, point.traffic.text()));
    return kernels(point.device)
        .measure(programs.front(), frames_of(workload_, point.traffic),
                 {.mode = point.run.compared.apply(point.run.offload, own.front()->model()).mode, .batch = batch});
}

void Session::watch(const Run& run, double seconds, const std::string& what) const {
    constexpr double kLook = 0.05, kTell = 10;
    const Counts before = run.counts();
    const double end = before.seconds + seconds;
    for (double tell = before.seconds + kTell; !stopped() && run.elapsed() < end;) {
        run.sleep(std::min(end - run.elapsed(), kLook));
        if (run.elapsed() < tell || run.elapsed() >= end) continue;
        tell += kTell;
        const Counts spent = run.counts() - before;
        options_.progress(fmt::format("{}: {:.0f} of {:g} s, {:.3f} Mpkt/s", what, spent.seconds, seconds,
                                      spent.packet_rate() * 1e-6));
    }
}

Result Session::measure(const Point& point) {
    if (stopped()) throw Stopped();
    const Metered& metered = this->metered(point.device);
    auto run = open(point);
    const std::string what = fmt::format("{} on {}, {}, {} worker{}", point.chain, point.device, point.traffic.text(),
                                         point.run.workers, point.run.workers == 1 ? "" : "s");
    options_.progress(what);
    run->start();
    watch(*run, options_.warm_up, what + ", warming up");
    if (stopped()) {
        run->finish();
        throw Stopped();
    }
    const PowerMeter::Reading begin = metered.meter.read();
    const Counts before = run->counts();
    watch(*run, options_.seconds, what);
    const Counts after = run->counts();
    const PowerMeter::Reading end = metered.meter.read();
    Result result = close(point, *run, after - before);
    result.power = metered.meter.between(begin, end, metered.idle ? &*metered.idle : nullptr);
    return result;
}

}  // namespace millrace::lab
