#include "millrace/exec/worker/runtime.hpp"

#include <fmt/format.h>
#include <rte_pause.h>

#include <algorithm>
#include <map>

#include "millrace/chain/classified.hpp"
#include "millrace/device/open.hpp"
#include "millrace/exec/worker/thread.hpp"
#include "millrace/exec/transfer/transfer_figures.hpp"
#include "millrace/exec/worker/worker.hpp"
#include "millrace/io/clock.hpp"
#include "millrace/io/metadata.hpp"
#include "millrace/nf/changeable.hpp"

namespace millrace::exec {
namespace {

/// By how much all chains of a configuration together may make a frame grow: one may lead to the next.
nf::Growth growth_of(const chain::Configuration& configuration) {
    nf::Growth growth;
    for (const auto& program : configuration.chains) {
        growth.head += program->head_growth();
        growth.tail += program->tail_growth();
    }
    return growth;
}

void check_outputs(const chain::Configuration& configuration, const std::vector<std::unique_ptr<io::Port>>& ports) {
    for (const auto& program : configuration.chains)
        for (const uint16_t port : {program->output, program->punt_port})
            if (port < ports.size() && !ports[port]->can_send())
                throw ConfigError(Diagnostic{program->where,
                                             "port '" + configuration.port_names[port] + "' can't send, and chain '" +
                                                 program->name + "' wants to send there",
                                             "give it an output, or name another port"});
}

}  // namespace

Runtime::Runtime(chain::Configuration configuration, RuntimeOptions options) : options_(std::move(options)) {
    const size_t device_count = configuration.runs_on.devices.size();
    if (options_.workers == 0) options_.workers = std::max(static_cast<unsigned>(device_count), 1u);
    if (options_.workers < device_count)
        throw ConfigError(Diagnostic{{configuration.file, 0, 0},
                                     fmt::format("{} want {} workers at least, as each worker drives one of them",
                                                 configuration.device, device_count),
                                     "give more with --workers, or fewer devices"});
    io::PortEnvironment environment;
    environment.queues = static_cast<uint16_t>(options_.workers);
    environment.pool_packets = options_.pool_packets;
    environment.output_folder = configuration.output_folder;
    environment.warn = options_.warn;
    const nf::Growth growth = growth_of(configuration);
    environment.headroom_bytes = headroom_bytes_ = std::max(128u, (growth.head + 63) / 64 * 64);
    environment.tailroom_bytes = tailroom_bytes_ = std::max(64u, growth.tail);
    std::optional<FileLedger::Scope> scope;
    if (configuration.files != nullptr) scope.emplace(*configuration.files);
    ports_ = io::make_ports(*configuration.ports, environment);
    check_outputs(configuration, ports_);
    for (const auto& port : ports_) {
        const bool shared = port->info().send_queues < options_.workers;
        send_locks_.push_back(shared ? std::make_unique<SpinLock>() : nullptr);
    }
    devices_ = !options_.devices.empty() ? options_.devices : device::open_devices(configuration.runs_on.devices);
    if (devices_.size() > 1) options_.offload.gate = std::make_shared<device::OrderGate>();
    if (!devices_.empty() && options_.offload.figures == nullptr)
        options_.offload.figures = figures_of(devices_.front()->model());
    if (!devices_.empty())
        options_.offload.workers = std::max(options_.workers / static_cast<unsigned>(devices_.size()), 1u);
    if (!devices_.empty() && configuration.runs_on.cpu) {
        if (options_.offload.mode == device::Mode::persistent)
            throw ConfigError(
                Diagnostic{{configuration.file, 0, 0},
                           "a kernel that stays keeps the NFs' state, and can't share chains with the CPU",
                           "take --mode fused, or leave out '+cpu'"});
        options_.offload.placement = std::make_shared<Placement>();
    }
    pin_packets();
    options_.offload.most_waiting = most_packets();
    if (!options_.verdict_file.empty())
        verdicts_ = std::make_unique<VerdictLog>(options_.verdict_file, configuration.port_names,
                                                 configuration.reporter);
    if (!options_.timeline_file.empty())
        timeline_ = std::make_unique<Timeline>(options_.timeline_file, options_.timeline_slices);
    configuration_ = std::make_shared<const chain::Configuration>(std::move(configuration));
    generation_ = configuration_->generation;
    ready_ = make_ready(*configuration_);
    if (options_.offload.calls_by_thread)
        for (size_t i = 0; i < devices_.size(); ++i) call_threads_.push_back(std::make_shared<CallThread>());
    for (unsigned i = 0; i < options_.workers; ++i) workers_.push_back(std::make_unique<Worker>(*this, i));
}

Runtime::~Runtime() {
    stop();
    for (std::thread& thread : threads_)
        if (thread.joinable()) thread.join();
    workers_.clear();
    events_.finish();
    for (Injection left; injections_.take(left);) rte_pktmbuf_free(left.packet);
    for (const auto& port : ports_) port->close();
    for (const auto& [device, memory] : pinned_) device->unpin(memory);
}

/// Lets the devices reach the ports' receive buffers.
void Runtime::pin_packets() {
    options_.offload.pinned = true;
    // Verdicts are told of packets with mbufs; a master hands those on.
    const bool takes_blocks = !options_.master && options_.verdict_file.empty();
    options_.offload.blocks = takes_blocks && std::any_of(ports_.begin(), ports_.end(),
                                                          [](const auto& port) { return port->receives_blocks(); });
    for (const auto& device : devices_)
        for (const auto& port : ports_)
            for (const std::span<uint8_t> memory : port->memory()) {
                if (device->pin(memory.data(), memory.size())) pinned_.emplace_back(device, memory.data());
                else options_.offload.pinned = false;
            }
}

/// How many packets there can be at once.
size_t Runtime::most_packets() const {
    size_t most = size_t{1} << 14;  // ports without pools have contiguous frames
    for (const auto& port : ports_)
        for (const io::PacketPool* pool : port->pools()) most += pool->packets();
    return most;
}

std::vector<Runtime::Ready> Runtime::make_ready(const chain::Configuration& configuration) {
    std::vector<Ready> all;
    for (const auto& program : chain::programs_of(configuration)) {
        Ready& ready = all.emplace_back();
        ready.program = program;
        if (program->emits_events()) events_.start();
        for (const auto& device : devices_)
            // Of a device that has failed, the workers are on the CPU.
            if (device->state() == device::Status::ok)
                ready.loaded.push_back(device->load(program, steps_of(*program, options_.offload)));
        // A worker makes its own in the midst of its packets, which must not take long.
        const bool on_cpu = devices_.empty() || options_.offload.placement != nullptr;
        for (const chain::Node& node : program->nodes)
            if (on_cpu && options_.cpu.use_cpu_halves) ready.halves.push_back(node.nf->make_cpu_half());
    }
    return all;
}

std::optional<unsigned> Runtime::core(size_t thread) const {
    return thread < options_.cores.size() ? std::optional(options_.cores[thread]) : std::nullopt;
}

void Runtime::start() {
    std::vector<Worker*> all;
    for (const auto& worker : workers_) all.push_back(worker.get());
    if (options_.master) {
        threads_.push_back(start_thread(core(all.size()), [this, all] { run(all); }));
        return;
    }
    for (size_t i = 0; i < all.size(); ++i)
        threads_.push_back(start_thread(core(i), [this, worker = all[i]] { run({worker}); }));
}

void Runtime::stop() { stopping_ = true; }

/// A thread's main function: works for these workers until all have done.
void Runtime::run(const std::vector<Worker*>& workers) {
    try {
        std::vector<Worker*> left = workers;
        while (!left.empty()) std::erase_if(left, [](Worker* worker) { return !worker->advance(); });
    } catch (const std::exception& e) {
        add_trouble({{}, std::string("a worker has ended: ") + e.what(), ""});
    }
    {
        const std::lock_guard lock(mutex_);
        ended_ += static_cast<unsigned>(workers.size());
    }
    changed_.notify_all();
}

bool Runtime::wait(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, timeout, [this] { return woken_ || ended_ == workers_.size(); });
    woken_ = false;
    return ended_ == workers_.size();
}

void Runtime::wake() {
    {
        const std::lock_guard lock(mutex_);
        woken_ = true;
    }
    changed_.notify_all();
}

void Runtime::add_trouble(Diagnostic trouble) {
    const std::lock_guard lock(mutex_);
    const Location& where = trouble.where;
    trouble_ += (trouble_.empty() ? "" : "; ") + (where.file.empty() ? "" : where.file + ": ") + trouble.message;
    news_.push_back(std::move(trouble));
}

/// Takes over what network functions have told.
void Runtime::gather_news() {
    const auto current = configuration();
    for (Diagnostic& trouble : current->reporter.take_troubles()) add_trouble(std::move(trouble));
    const std::vector<Diagnostic> warnings = current->reporter.take_warnings();
    const std::lock_guard lock(mutex_);
    news_.insert(news_.end(), warnings.begin(), warnings.end());
}

std::vector<Diagnostic> Runtime::news() {
    gather_news();
    const std::lock_guard lock(mutex_);
    return std::exchange(news_, {});
}

std::string Runtime::trouble() const {
    const std::lock_guard lock(mutex_);
    return trouble_;
}

void Runtime::check_change(const chain::Configuration& next) const {
    const auto refuse = [&](const Location& where, const std::string& message, const std::string& hint) {
        throw ConfigError(Diagnostic{where, message, hint});
    };
    const chain::Configuration& now = *configuration_;
    const Location file{next.file, 0, 0};
    if (next.port_names != now.port_names || (next.ports && now.ports && next.ports->written() != now.ports->written()))
        refuse(next.ports ? next.ports->where() : file, "the ports can't change while packets flow",
               "keep what stands under 'ports:', or restart");
    // Field plans are made for a device.
    if (next.device != now.device)
        refuse(file, "the device can't change from " + now.device + " to " + next.device + " while packets flow",
               "keep 'device:', or restart");
    check_outputs(next, ports_);
    const nf::Growth growth = growth_of(next);
    if (growth.head > headroom_bytes_ || growth.tail > tailroom_bytes_)
        refuse(file,
               "these chains may make a frame grow by more than the ports' buffers, made at the start, have room for",
               "restart with it");
}

void Runtime::apply(chain::Configuration configuration) {
    check_change(configuration);
    auto next = std::make_shared<const chain::Configuration>(std::move(configuration));
    std::vector<Ready> ready = make_ready(*next);
    std::shared_ptr<const chain::Configuration> previous;
    std::unique_lock lock(mutex_);
    previous = std::exchange(configuration_, next);
    // Freeing tables takes its time: it is this thread's job, at the next change, when no worker holds them any more.
    previous.swap(retired_);
    ready_.swap(ready);
    generation_.store(next->generation, std::memory_order_release);
    lock.unlock();
    wait_until_taken(next->generation);
}

void Runtime::wait_until_taken(uint64_t generation) {
    // A worker between two bursts takes it within microseconds, and a thread takes longer to go to sleep and wake.
    constexpr auto kSpin = std::chrono::microseconds(50);
    const auto all_took_it = [&] {
        return threads_.empty() || std::all_of(workers_.begin(), workers_.end(),
                                               [&](const auto& worker) { return worker->generation() >= generation; });
    };
    for (const auto until = std::chrono::steady_clock::now() + kSpin; std::chrono::steady_clock::now() < until;) {
        if (all_took_it()) return;
        rte_pause();
    }
    // Workers that have ended take nothing any more.
    std::unique_lock lock(mutex_);
    while (ended_ < workers_.size() && !all_took_it()) changed_.wait_for(lock, std::chrono::milliseconds(10));
}

void Runtime::reload(const chain::LoadOptions& options) {
    // Room for the new tables first: never more than two generations at once.
    retired_.reset();
    const auto current = configuration();
    chain::LoadOptions with_state = options;
    with_state.previous = current.get();
    chain::Configuration next = chain::load_configuration(current->file, with_state);
    {
        const std::lock_guard lock(mutex_);
        news_.insert(news_.end(), next.warnings.begin(), next.warnings.end());
    }
    apply(std::move(next));
}

bool Runtime::apply_changes() {
    const auto current = configuration();
    chain::Configuration next = *current;
    next.generation = current->generation + 1;
    bool any = false;
    std::map<nf::Changeable*, std::shared_ptr<nf::NetworkFunction>> asked;  // chains may share a function
    for (auto& program : next.chains) {
        std::shared_ptr<chain::Program> changed;
        for (size_t i = 0; i < program->nodes.size(); ++i) {
            auto* const changeable = dynamic_cast<nf::Changeable*>(program->nodes[i].nf.get());
            if (changeable == nullptr) continue;
            const auto [made, first] = asked.try_emplace(changeable);
            if (first) made->second = changeable->next();
            if (made->second == nullptr) continue;
            if (changed == nullptr) changed = std::make_shared<chain::Program>(*program);
            changed->nodes[i].nf = made->second;
        }
        if (changed == nullptr) continue;
        changed->generation = next.generation;
        program = std::move(changed);
        any = true;
    }
    if (!any) return false;
    if (next.classified != nullptr) next.classified = chain::make_classified(next);
    apply(std::move(next));
    return true;
}

bool Runtime::inject(uint16_t chain, std::span<const uint8_t> frame, uint16_t in_port, uint16_t out_port) {
    for (const auto& port : ports_) {
        // Any pool will do, but must be one that devices know.
        for (const io::PacketPool* pool : port->pools()) {
            if (frame.size() > pool->max_frame_bytes()) continue;
            rte_mbuf* const packet = rte_pktmbuf_alloc(pool->mempool());
            if (packet == nullptr) continue;
            packet->data_off = static_cast<uint16_t>(pool->headroom_bytes());
            packet->port = in_port;
            packet->pkt_len = packet->data_len = static_cast<uint16_t>(frame.size());
            std::copy(frame.begin(), frame.end(), rte_pktmbuf_mtod(packet, uint8_t*));
            io::set_packet_metadata(packet, io::wall_clock_ns(), 0);
            if (injections_.put({packet, chain, out_port})) return true;
            rte_pktmbuf_free(packet);
            return false;
        }
    }
    return false;
}

std::shared_ptr<const chain::Configuration> Runtime::configuration() const {
    const std::lock_guard lock(mutex_);
    return configuration_;
}

double Runtime::progress() const {
    double least = 2;
    for (const auto& port : ports_) {
        if (!port->can_receive()) continue;
        const double progress = port->progress();
        if (progress < 0) return -1;
        least = std::min(least, progress);
    }
    return least > 1 ? -1 : least;
}

void Runtime::finish() {
    if (std::exchange(finished_, true)) return;
    for (std::thread& thread : threads_)
        if (thread.joinable()) thread.join();
    // What one of them can't write keeps no other from writing.
    const auto attempt = [&](const auto& write) {
        try {
            write();
        } catch (const std::exception& e) {
            gather_news();  // what led to it comes first
            add_trouble({{}, e.what(), ""});
        }
    };
    events_.finish();
    if (!events_.trouble().empty()) add_trouble({{}, events_.trouble(), ""});
    for (const auto& port : ports_) {
        attempt([&] { port->flush(); });
        attempt([&] { port->close(); });
        if (const std::string trouble = port->trouble(); !trouble.empty()) {
            const std::lock_guard lock(mutex_);
            news_.push_back({{}, "port " + port->name() + ": " + trouble, ""});
        }
    }
    for (const auto& program : configuration()->chains)
        for (const chain::Node& node : program->nodes) attempt([&] { node.nf->flush(); });
    if (verdicts_) attempt([&] { verdicts_->close(); });
    if (timeline_) attempt([&] { timeline_->write(); });
    gather_news();
}

}  // namespace millrace::exec
