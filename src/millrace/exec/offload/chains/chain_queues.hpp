// The queues of all chains of an engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/exec/offload/chains/chain_queue.hpp"

namespace millrace::exec {

/// Each chain has one queue of packets and one of frames without mbufs, whatever its generation.
class ChainQueues {
public:
    /// Sets memory aside for `max_waiting` packets of each.
    explicit ChainQueues(size_t max_waiting) : max_waiting_(max_waiting) {}

    /// The queue of that generation of a chain; null: it has none, or an earlier generation does.
    ChainQueue* find(const chain::Program* program, bool of_blocks) const {
        for (const std::unique_ptr<ChainQueue>& queue : queues_)
            if (queue->of_blocks() == of_blocks && queue->chain != nullptr && queue->chain->program.get() == program)
                return queue.get();
        return nullptr;
    }
    /// The queue of a chain by that name; a new one, without a generation, if there is none.
    ChainQueue& named(const std::string& chain, bool of_blocks);
    /// A queue, but for `own`, where frames of that port wait; null: there is none.
    ChainQueue* with_run_of(uint16_t port, const ChainQueue* own) const;

    /// All of them, in the order in which they came; more may come while somebody goes through them.
    size_t size() const { return queues_.size(); }
    ChainQueue& operator[](size_t index) const { return *queues_[index]; }
    /// Lets all kernels that stay end, whatever they are at.
    void stop_residents() const;

private:
    const size_t max_waiting_;
    std::vector<std::string> names_;
    std::vector<std::unique_ptr<ChainQueue>> queues_;  // of these
};

}  // namespace millrace::exec
