#include "lab/compared/master_worker.hpp"

#include <rte_pause.h>

#include <algorithm>
#include <stdexcept>

#include "millrace/exec/runtime/thread.hpp"

namespace millrace::lab {

using exec::ChainCounters, exec::Delivery, exec::Verdict, exec::Visit;

void set_threading(exec::RuntimeOptions& options, Threading threading) {
    options.master.reset();
    if (threading == Threading::full_path) return;
    options.master = exec::Master{[](Delivery& delivery, const exec::Master::MakeEngine& make,
                                     std::optional<unsigned> core) -> std::unique_ptr<exec::Engine> {
        return std::make_unique<HandOverEngine>(delivery, make, core);
    }};
}

HandOverEngine::HandOverEngine(Delivery& delivery, const exec::Master::MakeEngine& make, std::optional<unsigned> core)
    : delivery_(delivery), core_(core), engine_(make(*this)) {}

HandOverEngine::~HandOverEngine() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
}

void HandOverEngine::submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                            rte_mbuf* const* mbufs, size_t count) {
    if (!thread_.joinable()) thread_ = exec::start_thread(core_, [this] { work(); });
    for (size_t first = 0; first < count; first += kBurst) {
        Place* place = nullptr;
        // A worker that is behind: what it has done makes room for it to go on.
        while ((place = down_.to_fill()) == nullptr) {
            poll();
            rte_pause();
        }
        place->program = program;
        place->counters = &counters;
        place->count = std::min(kBurst, count - first);
        std::copy_n(mbufs + first, place->count, place->mbufs);
        in_flight_ += place->count;
        down_.fill(*place);
    }
}

void HandOverEngine::poll() {
    if (failed_) throw std::runtime_error(trouble_);
    while (Place* place = up_.to_empty()) {
        in_flight_ -= place->count;
        delivery_.deliver(*place->program, *place->counters, place->mbufs, place->verdicts, place->count);
        up_.empty(*place);
    }
}

void HandOverEngine::drain() {
    for (; in_flight_ > 0; rte_pause()) poll();
    if (!thread_.joinable()) return;
    // The engine still counts what became of the packets that it delivered last.
    for (const uint64_t round = rounds_.load(); rounds_.load(std::memory_order_acquire) == round; rte_pause()) poll();
}

/// The worker's thread.
void HandOverEngine::work() {
    try {
        while (!stop_) {
            bool any = false;
            while (Place* place = down_.to_empty()) {
                engine_->submit(place->program, *place->counters, place->mbufs, place->count);
                down_.empty(*place);
                any = true;
            }
            engine_->poll();
            rounds_.fetch_add(1, std::memory_order_release);
            if (!any) rte_pause();
        }
    } catch (const std::exception& e) {
        trouble_ = e.what();
        failed_ = true;
    }
}

void HandOverEngine::deliver(const chain::Program& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                             const Verdict* verdicts, size_t count) {
    for (size_t first = 0; first < count; first += kBurst) {
        Place* place = nullptr;
        while ((place = up_.to_fill()) == nullptr && !stop_) rte_pause();
        if (place == nullptr) return;  // the master has gone, and asks for nothing any more
        place->program = program.shared_from_this();
        place->counters = &counters;
        place->count = std::min(kBurst, count - first);
        std::copy_n(mbufs + first, place->count, place->mbufs);
        std::copy_n(verdicts + first, place->count, place->verdicts);
        up_.fill(*place);
    }
}

void HandOverEngine::visits(const chain::Program& program, rte_mbuf* mbuf, std::span<const Visit> visits,
                            const Verdict& verdict) {
    delivery_.visits(program, mbuf, visits, verdict);
}

}  // namespace millrace::lab
