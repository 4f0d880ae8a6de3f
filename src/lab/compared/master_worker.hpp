// Master-worker threading, which full-path threading is measured against (UCL thesis, 2.2.1 and figure 4.7): engines on
// threads of their own.
//
// The master receives and sends for all workers; each worker's thread runs nothing but its engine. Packets go there and
// come back in bursts through lists of fixed length with a flag in each place, so that neither thread ever waits for a
// lock.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "millrace/exec/runtime/runtime.hpp"

namespace millrace::lab {

/// Who does what. Packets of a flow keep their order either way.
enum class Threading {
    full_path,      ///< each worker receives, runs and sends on its own core, as `millrace run` has it
    master_worker,  ///< one thread receives and sends for all workers, which do nothing but run chains
};
inline constexpr const char* kThreadingNames[] = {"full-path", "master-worker"};
/// Has a runtime work so.
void set_threading(exec::RuntimeOptions& options, Threading threading);

/// An engine for the master that has another one do the work. `Delivery::visits` is called on the worker's thread, all
/// else on the master's.
class HandOverEngine : public exec::Engine, private exec::Delivery {
public:
    /// `make` makes the engine that works; its thread starts with the first packets, on `core` if there is one.
    HandOverEngine(exec::Delivery& delivery, const exec::Master::MakeEngine& make, std::optional<unsigned> core);
    ~HandOverEngine() override;

    void submit(const std::shared_ptr<const chain::Program>& program, exec::ChainCounters& counters,
                rte_mbuf* const* mbufs, size_t count) override;
    /// Throws what the engine has thrown on its thread.
    void poll() override;
    size_t in_flight() const override { return in_flight_; }
    void drain() override;
    std::string describe() const override { return engine_->describe(); }

private:
    static constexpr size_t kBurst = 256;
    static constexpr size_t kPlaces = 64;

    /// One place of a list: filled by one thread when it is free, emptied by the other when it is ready.
    struct Place {
        std::atomic<bool> ready{false};
        std::shared_ptr<const chain::Program> program;
        exec::ChainCounters* counters = nullptr;
        size_t count = 0;
        rte_mbuf* mbufs[kBurst];
        exec::Verdict verdicts[kBurst];  ///< on the way back
    };
    struct List {
        std::vector<Place> places{kPlaces};
        size_t filled = 0;   // the filling thread's
        size_t emptied = 0;  // the emptying thread's
        /// The place to fill next; null while it is not free.
        Place* to_fill() {
            Place& place = places[filled % kPlaces];
            return place.ready.load(std::memory_order_acquire) ? nullptr : &place;
        }
        void fill(Place& place) {
            ++filled;
            place.ready.store(true, std::memory_order_release);
        }
        /// The place to empty next; null while there is none.
        Place* to_empty() {
            Place& place = places[emptied % kPlaces];
            return place.ready.load(std::memory_order_acquire) ? &place : nullptr;
        }
        void empty(Place& place) {
            ++emptied;
            place.program = nullptr;
            place.ready.store(false, std::memory_order_release);
        }
    };

    void deliver(const chain::Program& program, exec::ChainCounters& counters, rte_mbuf* const* mbufs,
                 const exec::Verdict* verdicts, size_t count) override;
    bool wants_visits() const override { return delivery_.wants_visits(); }
    void visits(const chain::Program& program, rte_mbuf* mbuf, std::span<const exec::Visit> visits,
                const exec::Verdict& verdict) override;
    void work();

    exec::Delivery& delivery_;
    const std::optional<unsigned> core_;
    List down_, up_;
    size_t in_flight_ = 0;  // the master's
    std::unique_ptr<exec::Engine> engine_;
    std::atomic<bool> stop_{false}, failed_{false};
    std::atomic<uint64_t> rounds_{0};  // that the worker's thread has ended
    std::string trouble_;
    std::thread thread_;
};

}  // namespace millrace::lab
