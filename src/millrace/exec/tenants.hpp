// Those who run the functions of tenants, as a runtime sees them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/chain/promises/shared_device.hpp"
#include "millrace/device/device.hpp"
#include "millrace/exec/engine.hpp"
#include "millrace/exec/promises/promise_report.hpp"

namespace millrace::exec {

/// What a tenant was asked, and how it behaves.
struct TenantReport {
    std::string name, chain, state;  ///< "attached", "away", or why it was detached last
    uint64_t user = 0;
    uint64_t process = 0;   ///< of the one that is attached; 0: none is
    uint64_t attached = 0;  ///< how many times
    uint64_t packets = 0, answered = 0, in_flight = 0;
    std::map<std::string, uint64_t> absent;         ///< packets, by chain::kAbsentForNames
    uint64_t batches = 0;                           ///< that it was asked
    uint64_t gpu_batches = 0;                       ///< of them those that its device half was asked
    uint64_t chain_batches = 0;                     ///< of these those that its chain went through in one piece
    std::string runs_on = "process";                ///< or "GPU, fenced", "GPU, checked"
    uint64_t instructions = 0;                      ///< there: of its PTX
    uint64_t fence_instructions = 0;                ///< there: that isolation adds to them
    uint64_t answer_p50_ns = 0, answer_p99_ns = 0;  ///< from a batch's question to its answer
    struct Times {
        uint64_t p50_ns = 0, p99_ns = 0;
    };
    /// Of a function with CPU stages around its device half ("before" and "after"; "device"): times of a batch.
    std::map<std::string, Times> stages;
    uint64_t stages_beside = 0;                ///< CPU stages that ended while the device had another batch
    std::map<std::string, uint64_t> misdeeds;  ///< "late" and "wrong" answers, "unasked" messages, "gone", "flood"
    PromiseReport promise;                     ///< as PromiseWatch::add_to has it
};

/// Tenants' functions in a chain that goes through a device in one piece (chain::Program::undivided), one worker's, as
/// they were when they were settled. Batches keep them.
class TenantsInChain {
public:
    virtual ~TenantsInChain() = default;
    /// A place in each of their windows, for a batch that is about to be launched. There are as many as an engine of
    /// such a chain has batches in flight (chain::kMaxUndividedDepth). On the worker's thread.
    virtual unsigned take_place() = 0;
    /// Puts a step of their functions (Step::Kind::confined) on the batch's stream. Any thread, one at a time for each
    /// place.
    virtual device::Status run(device::StreamId stream, const device::Step& step, const device::BatchView& batch,
                               unsigned place) const = 0;
    /// The batch is back, and its packets had these outcomes (BatchView::outcome_counts): its place is free. On the
    /// worker's thread.
    virtual void leave(unsigned place, const uint32_t* outcomes) = 0;
};

/// Who they are now. On the worker's thread, and while packets flow it waits for nobody.
class ChainTenants {
public:
    virtual ~ChainTenants() = default;
    /// Whether the functions of all of them run on the device.
    virtual bool ready() = 0;
    /// Those that batches go through from now on; none of the chain's may be under way. Null: they are not ready.
    virtual std::shared_ptr<TenantsInChain> settle() = 0;
    /// Whether those that were settled last are still there.
    virtual bool holds() = 0;
};

/// Runs the functions of tenants. Calls of the workers' engines are the workers' threads', others any thread's.
class Tenants {
public:
    virtual ~Tenants() = default;
    /// A device that tenants' device halves may run on, if it runs code of others. Before anything else, once.
    virtual void run_on(std::shared_ptr<device::Device> device) = 0;
    /// The engine of a worker for programs that are tenants' (chain::Program::is_tenants). It holds `most_packets` at
    /// a time, about.
    virtual std::unique_ptr<Engine> engine(Delivery& delivery, unsigned worker, size_t most_packets) = 0;
    /// The tenants of a chain in one piece; null: nobody runs them on a device.
    virtual std::unique_ptr<ChainTenants> in_chain(std::shared_ptr<const chain::Program> undivided,
                                                   unsigned worker) = 0;
    /// A generation is about to come: its tenants may attach from now on. Throws ConfigError.
    virtual void follow(const chain::Configuration& configuration) = 0;
    /// Those whose device halves run on the device.
    virtual chain::TenantsOnDevice on_device() const = 0;
    virtual std::vector<TenantReport> report() const = 0;
};

}  // namespace millrace::exec
