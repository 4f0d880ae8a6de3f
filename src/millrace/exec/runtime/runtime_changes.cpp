// How a runtime gets from one generation to the next.
#include <rte_pause.h>

#include <algorithm>
#include <map>

#include "millrace/base/running.hpp"
#include "millrace/chain/classification/classified.hpp"
#include "millrace/chain/tenants/parts.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/exec/worker/worker.hpp"
#include "millrace/nf/changeable.hpp"
#include "millrace/nf/stands_in.hpp"

namespace millrace::exec {
namespace {

bool has_tenants(const chain::Program& program) {
    return std::ranges::any_of(program.nodes, [](const chain::Node& node) { return node.type->is_tenants; });
}

}  // namespace

nf::Growth Runtime::growth_of(const chain::Configuration& configuration) {
    nf::Growth growth;
    for (const auto& program : configuration.chains) {
        growth.head += program->head_growth();
        growth.tail += program->tail_growth();
    }
    return growth;
}

uint32_t Runtime::whole_packets_for(const chain::Configuration& configuration) {
    constexpr uint32_t kUnderWay = 512;  // behind that: in batches, and in queues of ports
    uint32_t packets = 0;
    for (const auto& program : configuration.chains)
        if (program->reassembly) packets += program->reassembly->max_packets;
    return packets > 0 ? packets + kUnderWay : 0;
}

void Runtime::check_outputs(const chain::Configuration& configuration) const {
    for (const auto& program : configuration.chains)
        for (const uint16_t port : {program->output, program->punt_port})
            if (port < ports_.size() && !ports_[port]->can_send())
                throw ConfigError(Diagnostic{program->where,
                                             "port '" + configuration.port_names[port] + "' can't send, and chain '" +
                                                 program->name + "' wants to send there",
                                             "give it an output, or name another port"});
}

void Runtime::follow_tenants(const chain::Configuration& configuration) const {
    for (const auto& program : configuration.chains)
        if (program->is_tenants && (options_.tenants == nullptr || options_.master))
            throw ConfigError(
                Diagnostic{program->where, "nobody can attach as a tenant here", "'millrace run' listens"});
    if (options_.tenants != nullptr) options_.tenants->follow(configuration);
}

std::shared_ptr<device::Device> Runtime::tenants_device() const {
    const bool runs_them = options_.tenants != nullptr && !options_.master && !devices_.empty() &&
                           options_.offload.mode != device::Mode::persistent &&
                           !devices_.front()->ptx_architecture().empty();
    return runs_them ? devices_.front() : nullptr;
}

std::vector<Runtime::Ready> Runtime::make_ready(const chain::Configuration& configuration) {
    std::vector<Ready> all;
    std::vector<std::shared_ptr<const chain::Program>> programs = chain::programs_of(configuration);
    if (tenants_device() != nullptr)
        for (const auto& program : configuration.chains)
            if (program->undivided != nullptr) programs.push_back(program->undivided);
    for (const auto& program : programs) {
        for (const auto& device : devices_) device->prepare(program->gpu_share.sms);
        if (program->is_tenants) continue;
        Ready& ready = all.emplace_back();
        ready.program = program;
        if (program->emits_events()) events_.start();
        for (const auto& device : devices_)
            // Of a device that has failed, the workers are on the CPU.
            if (device->state() == device::Status::ok && (!has_tenants(*program) || device == devices_.front())) {
                ready.loaded.push_back(device->load(program, steps_of(*program, options_.offload)));
                device_states_->add(device, ready.loaded.back());
            }
        // A worker makes its own in the midst of its packets, which must not take long.
        const bool on_cpu = devices_.empty() || options_.offload.placement != nullptr;
        for (const chain::Node& node : program->nodes)
            if (on_cpu && options_.cpu.use_cpu_halves) {
                const Running running(node.name, program->name, Call::making);
                ready.halves.push_back(node.nf->make_cpu_half());
            }
    }
    return all;
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
    check_outputs(next);
    const nf::Growth growth = growth_of(next);
    if (growth.head > headroom_bytes_ || growth.tail > tailroom_bytes_)
        refuse(file,
               "these chains may make a frame grow by more than the ports' buffers, made at the start, have room for",
               "restart with it");
    if (whole_packets_for(next) > (whole_packets_ != nullptr ? whole_packets_->pool().packets() : 0))
        refuse(file, "these chains put more fragments together at a time than buffers were made for at the start",
               "lower 'max-packets', or restart");
}

void Runtime::apply(chain::Configuration configuration) {
    const std::lock_guard changing(changing_);
    check_change(configuration);
    bring_in(std::move(configuration));
}

void Runtime::bring_in(chain::Configuration configuration, bool same_chains) {
    chain::renew_undivided(configuration);
    auto next = std::make_shared<const chain::Configuration>(std::move(configuration));
    std::vector<Ready> ready = make_ready(*next);
    if (!same_chains) follow_tenants(*next);
    if (!same_chains) {
        listen_for_changes(*this->configuration(), false);
        listen_for_changes(*next, true);
        if (stand_ins_ != nullptr) stand_ins_->follow(stand_ins_of(*next));
    }
    std::shared_ptr<const chain::Configuration> previous;
    std::unique_lock lock(mutex_);
    previous = std::exchange(configuration_, next);
    const auto before = previous;
    // Freeing tables takes its time: it is this thread's job, at the next change, when no worker holds them any more.
    previous.swap(retired_);
    ready_.swap(ready);
    if (!same_chains) other_chains_since_.store(next->generation, std::memory_order_seq_cst);
    generation_.store(next->generation, std::memory_order_seq_cst);
    lock.unlock();
    // A worker that sleeps is at rest: it takes tables of the same chains before it touches a packet.
    if (!same_chains) wake_workers();
    wait_until_taken(next->generation, same_chains);
    at_work_.store(next->generation, std::memory_order_release);
    if (!same_chains) retire(before, std::move(ready));
}

std::vector<io::StandIn> Runtime::stand_ins_of(const chain::Configuration& configuration) {
    std::vector<io::StandIn> all;
    for (const auto& linux_port : configuration.linux_ports) all.push_back({linux_port.interface, linux_port.port});
    for (const auto& program : configuration.chains)
        for (const auto& node : program->nodes)
            if (const auto* const function = dynamic_cast<const nf::StandsIn*>(node.nf.get()))
                for (const auto& [interface, port] : function->stand_ins()) all.push_back({interface, port});
    return all;
}

/// Has the NFs that take changes wake whoever applies them, or no more.
void Runtime::listen_for_changes(const chain::Configuration& configuration, bool listens) {
    for (const auto& program : configuration.chains)
        for (const auto& node : program->nodes)
            if (auto* const changeable = dynamic_cast<nf::Changeable*>(node.nf.get()))
                changeable->on_change(listens ? [this] { wake(); } : std::function<void()>());
}

void Runtime::wait_until_taken(uint64_t generation, bool same_chains) {
    // A worker between two bursts takes it within microseconds, and a thread takes longer to go to sleep and wake.
    constexpr auto kSpin = std::chrono::microseconds(50);
    const auto all_took_it = [&] {
        return threads_.empty() || std::all_of(workers_.begin(), workers_.end(), [&](const auto& worker) {
                   return worker->generation() >= generation || (same_chains && worker->at_rest());
               });
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
    const std::lock_guard changing(changing_);
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
    check_change(next);
    options_.admit(next);
    bring_in(std::move(next));
}

bool Runtime::adjust(const std::function<bool(chain::Configuration& next)>& edit) {
    const std::lock_guard changing(changing_);
    chain::Configuration next = *configuration();
    ++next.generation;
    if (!edit(next)) return false;
    if (next.classified != nullptr) next.classified = chain::make_classified(next);
    bring_in(std::move(next), true);
    return true;
}

bool Runtime::apply_changes() {
    const std::lock_guard changing(changing_);
    if (change_failed_) std::rethrow_exception(std::exchange(change_failed_, nullptr));
    return bring_in_changes();
}

void Runtime::hurry_changes() {
    {
        const std::unique_lock changing(changing_, std::try_to_lock);
        if (changing && !change_failed_) {
            try {
                bring_in_changes();
                return;
            } catch (...) {
                change_failed_ = std::current_exception();
            }
        }
    }
    wake();
}

/// What is asked of ports and chains holds for changes within network functions: they need no check.
bool Runtime::bring_in_changes() {
    const auto current = configuration();
    chain::Configuration next = *current;
    next.generation = current->generation + 1;
    std::map<nf::Changeable*, std::shared_ptr<nf::NetworkFunction>> asked;  // chains may share a function
    bool any = false;
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
    bring_in(std::move(next), true);
    for (const auto& [changeable, made] : asked)
        if (auto* const at_work = dynamic_cast<nf::Changeable*>(made.get())) at_work->at_work();
    return true;
}

}  // namespace millrace::exec
