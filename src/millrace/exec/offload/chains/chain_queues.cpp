#include "millrace/exec/offload/chains/chain_queues.hpp"

namespace millrace::exec {

ChainQueue& ChainQueues::named(const std::string& chain, bool of_blocks) {
    for (size_t i = 0; i < queues_.size(); ++i)
        if (names_[i] == chain && queues_[i]->of_blocks() == of_blocks) return *queues_[i];
    names_.push_back(chain);
    return *queues_.emplace_back(std::make_unique<ChainQueue>(of_blocks, max_waiting_));
}

ChainQueue* ChainQueues::with_run_of(uint16_t port, const ChainQueue* own) const {
    for (const std::unique_ptr<ChainQueue>& queue : queues_)
        if (queue.get() != own && queue->of_blocks() && queue->has_block_of(port)) return queue.get();
    return nullptr;
}

void ChainQueues::stop_residents() const {
    for (const std::unique_ptr<ChainQueue>& queue : queues_)
        if (queue->chain != nullptr && queue->chain->resident != nullptr) queue->chain->resident->stop();
}

}  // namespace millrace::exec
