// Chains with tenants' functions: through a device in one piece, or through their parts.
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/exec/worker/worker.hpp"

namespace millrace::exec {

/// The chains of a new generation, by their names. Tenants' functions are on the first device.
void Worker::follow_undivided() {
    const RuntimeOptions& options = runtime_.options_;
    const std::shared_ptr<device::Device> device = runtime_.tenants_device();
    if (device == nullptr || runtime_.devices_[index_ % runtime_.devices_.size()] != device) return;
    for (const auto& program : configuration_->chains) {
        auto found = all_undivided_.find(program->name);
        if (program->undivided == nullptr && found == all_undivided_.end()) continue;
        if (found == all_undivided_.end()) {
            const auto make = [this, device](const std::shared_ptr<TenantsInChain>* tenants) {
                // Shorter batches, in less memory: there may be many such chains.
                constexpr size_t kBatchBytes = size_t{4} << 20;
                // Each function may spend its budget on every packet: that is no sign that the device is gone.
                constexpr std::chrono::seconds kPatience{120};
                OffloadOptions own = offload_;
                own.placement = nullptr;
                own.tenants = tenants;
                own.patience = std::max<std::chrono::nanoseconds>(own.patience, kPatience);
                own.depth = std::min(own.depth, chain::kMaxUndividedDepth);
                own.batch_bytes = std::min(own.batch_bytes, kBatchBytes);
                return std::make_unique<OffloadEngine>(device, *this, chain::kMaxUndividedBatch, own);
            };
            found = all_undivided_.emplace(program->name, std::make_unique<Undivided>(options.pool_packets / 4, make))
                        .first;
        }
        undivided_[program->index] = found->second.get();
        found->second->follow(program->undivided,
                              program->undivided != nullptr ? &counters_for(*program->undivided) : nullptr,
                              [&] { return options.tenants->in_chain(program->undivided, index_); });
    }
    go_over_undivided();  // nothing may be under way: then it is in one piece from its first packet on
}

/// Who takes all that a port receives.
Worker::Taker Worker::taker_of(uint16_t port) {
    const uint16_t chain = configuration_->classification.chain_of_port(port);
    if (chain == chain::kNoChain) {
        if (classified_counters_ == nullptr) return {};
        return {engine_.get(), &configuration_->classified, classified_counters_};
    }
    if (Undivided* const own = undivided_[chain]; own != nullptr && own->way() != Undivided::Way::parts) {
        if (own->way() == Undivided::Way::held) return {};
        return {&own->engine(), &own->program(), &own->counters()};
    }
    const auto& program = configuration_->chains[chain];
    if (reassemblers_[chain] != nullptr || program->is_tenants) return {};
    return {engine_.get(), &program, chain_counters_[chain]};
}

void Worker::go_over_undivided() {
    for (const auto& [name, own] : all_undivided_) {
        if (!own->go_over([this, &name] { return in_parts(name); }, released_)) continue;
        const chain::Program* const program = configuration_->find_chain(name);
        if (program != nullptr) {
            submit(program->index, released_.data(), released_.size());
        } else {
            stray_injections_.add(released_.size());
            rte_pktmbuf_free_bulk(released_.data(), static_cast<unsigned>(released_.size()));
        }
    }
}

/// Packets that are under way in the parts of a chain.
size_t Worker::in_parts(const std::string& whole) const {
    size_t packets = 0;
    for (const auto& program : configuration_->chains) {
        if (program->whole != whole) continue;
        const Engine& engine = program->is_tenants ? *tenants_ : *engine_;
        packets += engine.in_flight_of(*program) + passed_on_[program->index].size();
    }
    return packets;
}

size_t Worker::in_flight() const {
    size_t packets = engine_->in_flight() + (tenants_ != nullptr ? tenants_->in_flight() : 0);
    for (const auto& [name, own] : all_undivided_) packets += own->in_flight();
    return packets + gate_.held();
}

}  // namespace millrace::exec
