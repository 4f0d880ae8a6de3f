// A chain with tenants' functions that goes through a device in one piece, while all of them run there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/exec/offload/offload_engine.hpp"
#include "millrace/exec/tenants.hpp"

namespace millrace::exec {

/// One worker's. It has an engine of its own: a function that takes long holds up nobody else's batches. Its packets
/// wait here while the chain goes over from its parts to the whole, or back, until all that is under way has gone: so
/// they keep their order.
class Undivided {
public:
    using MakeEngine = std::function<std::unique_ptr<OffloadEngine>(const std::shared_ptr<TenantsInChain>* tenants)>;
    /// `room`: packets that may wait. `make_engine` may be called once, later.
    Undivided(size_t room, MakeEngine make_engine) : room_(room), make_engine_(std::move(make_engine)) {
        held_.reserve(room);
    }
    ~Undivided();
    Undivided(const Undivided&) = delete;
    Undivided& operator=(const Undivided&) = delete;

    using FindTenants = std::function<std::unique_ptr<ChainTenants>()>;
    /// A new generation of the chain; null: it can't be in one piece any more. `tenants` is called where the functions
    /// of its tenants are not those of the one before.
    void follow(std::shared_ptr<const chain::Program> program, ChainCounters* counters, const FindTenants& tenants);

    /// Where its packets go.
    enum class Way : uint8_t {
        parts,
        whole,  ///< engine()
        held,   ///< hold()
    };
    Way way() const { return goes_over_ ? Way::held : whole_ ? Way::whole : Way::parts; }
    /// Where there is a program.
    OffloadEngine& engine() { return *engine_; }
    const std::shared_ptr<const chain::Program>& program() const { return program_; }
    ChainCounters& counters() { return *counters_; }
    /// Packets that wait; those that there is no room for are dropped and counted by `counters`.
    void hold(ChainCounters& counters, std::span<rte_mbuf* const> mbufs);

    /// Looks whether it has to go over, and goes over once nothing is under way. `in_parts`: packets under way there,
    /// to be asked if need be. True: those in `released` go on, by way().
    bool go_over(const std::function<size_t()>& in_parts, std::vector<rte_mbuf*>& released);
    /// As those of an engine.
    void poll() {
        if (engine_ != nullptr) engine_->poll();
    }
    size_t in_flight() const { return held_.size() + (engine_ != nullptr ? engine_->in_flight() : 0); }

private:
    bool wants_over();
    bool stop_going_over(std::vector<rte_mbuf*>& released);

    /// How long the packets of the parts may be as many as they were while others are to be dropped.
    static constexpr uint64_t kStillMs = 5;
    const size_t room_;
    const MakeEngine make_engine_;
    std::shared_ptr<TenantsInChain> settled_;
    std::unique_ptr<OffloadEngine> engine_;
    std::shared_ptr<const chain::Program> program_;
    ChainCounters* counters_ = nullptr;
    std::unique_ptr<ChainTenants> tenants_;
    bool whole_ = false, goes_over_ = false;
    std::vector<rte_mbuf*> held_;
    uint64_t not_before_ = 0;     // TSC
    size_t fewest_in_parts_ = 0;  // the fewest that were there while it goes over
    uint64_t moved_ = 0;          // TSC, when they became so few
};

}  // namespace millrace::exec
