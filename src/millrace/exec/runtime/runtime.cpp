#include "millrace/exec/runtime/runtime.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>

#include "millrace/device/open.hpp"
#include "millrace/exec/runtime/thread.hpp"
#include "millrace/exec/transfer/transfer_figures.hpp"
#include "millrace/exec/worker/worker.hpp"
#include "millrace/io/clock.hpp"
#include "millrace/io/metadata.hpp"

namespace millrace::exec {

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
    environment.sources = options_.sources;
    environment.warn = options_.warn;
    environment.stand_ins = stand_ins_of(configuration);
    const nf::Growth growth = growth_of(configuration);
    environment.headroom_bytes = headroom_bytes_ = std::max(128u, (growth.head + 63) / 64 * 64);
    environment.tailroom_bytes = tailroom_bytes_ = std::max(64u, growth.tail);
    std::optional<FileLedger::Scope> scope;
    if (configuration.files != nullptr) scope.emplace(*configuration.files);
    ports_ = io::make_ports(*configuration.ports, environment);
    check_outputs(configuration);
    stand_ins_ = std::make_unique<io::StandIns>(ports_);
    stand_ins_->follow(environment.stand_ins);
    if (const uint32_t packets = whole_packets_for(configuration); packets > 0)
        whole_packets_ = std::make_unique<WholePackets>(packets, headroom_bytes_, tailroom_bytes_);
    for (const auto& port : ports_) {
        const bool shared = port->info().send_queues < options_.workers;
        send_locks_.push_back(shared ? std::make_unique<SpinLock>() : nullptr);
    }
    devices_ = !options_.devices.empty() ? options_.devices : device::open_devices(configuration.runs_on.devices);
    // Kernels that stay would be stopped each time that a tenant comes or goes.
    if (options_.tenants != nullptr && !devices_.empty() && options_.offload.mode != device::Mode::persistent)
        options_.tenants->run_on(devices_.front());
    follow_tenants(configuration);
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
    if (!devices_.empty()) device_states_ = std::make_unique<DeviceStates>(options_.offload.placement);
    pin_packets();
    options_.offload.most_waiting = most_packets();
    if (!options_.verdict_file.empty())
        verdicts_ = std::make_unique<VerdictLog>(options_.verdict_file, configuration.port_names,
                                                 configuration.reporter);
    if (!options_.timeline_file.empty())
        timeline_ = std::make_unique<Timeline>(options_.timeline_file, options_.timeline_slices);
    configuration_ = std::make_shared<const chain::Configuration>(std::move(configuration));
    generation_ = at_work_ = configuration_->generation;
    ready_ = make_ready(*configuration_);
    look_for_tended();
    if (options_.offload.calls_by_thread)
        for (size_t i = 0; i < devices_.size(); ++i)
            call_threads_.push_back(std::make_shared<CallThread>(configuration_->idle == chain::Idle::poll));
    for (unsigned i = 0; i < options_.workers; ++i) workers_.push_back(std::make_unique<Worker>(*this, i));
}

Runtime::~Runtime() {
    listen_for_changes(*configuration_, false);
    stop();
    for (std::thread& thread : threads_)
        if (thread.joinable()) thread.join();
    workers_.clear();
    events_.finish();
    for (Injection left; injections_.take(left);) rte_pktmbuf_free(left.packet);
    stand_ins_.reset();
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
    const auto pin = [&](const std::shared_ptr<device::Device>& device, std::span<uint8_t> memory) {
        if (device->pin(memory.data(), memory.size())) pinned_.emplace_back(device, memory.data());
        else options_.offload.pinned = false;
    };
    for (const auto& device : devices_) {
        for (const auto& port : ports_)
            for (const std::span<uint8_t> memory : port->memory()) pin(device, memory);
        if (whole_packets_ != nullptr)
            pin(device, {whole_packets_->pool().memory(), whole_packets_->pool().memory_bytes()});
    }
}

/// How many packets there can be at once.
size_t Runtime::most_packets() const {
    size_t most = size_t{1} << 14;  // ports without pools have contiguous frames
    for (const auto& port : ports_) {
        for (const io::PacketPool* pool : port->pools()) most += pool->packets();
        if (port->uncut_pool() != nullptr) most += port->uncut_pool()->packets();
    }
    return most + (whole_packets_ != nullptr ? whole_packets_->pool().packets() : 0);
}

std::optional<unsigned> Runtime::core(size_t thread) const {
    return thread < options_.cores.size() ? std::optional(options_.cores[thread]) : std::nullopt;
}

void Runtime::start() {
    listen_for_changes(*configuration(), true);
    std::vector<Worker*> all;
    for (const auto& worker : workers_) all.push_back(worker.get());
    if (options_.master) {
        threads_.push_back(start_thread(core(all.size()), [this, all] { run(all); }));
        return;
    }
    for (size_t i = 0; i < all.size(); ++i)
        threads_.push_back(start_thread(core(i), [this, worker = all[i]] { run({worker}); }));
}

void Runtime::stop() {
    stopping_ = true;
    wake_workers();
}

void Runtime::wake_workers() const {
    for (const auto& worker : workers_) worker->wake();
}

/// A thread's main function: works for these workers until all have done.
void Runtime::run(const std::vector<Worker*>& workers) {
    pthread_setname_np(pthread_self(),
                       workers.size() == 1 ? ("worker-" + std::to_string(workers[0]->index())).c_str() : "workers");
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
            if (injections_.put({packet, chain, out_port})) {
                workers_[0]->wake();
                return true;
            }
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
    attempt([&] { end_tended(); });
    stand_ins_.reset();
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
