#include "millrace/exec/offload/batch/batch.hpp"

#include <cassert>
#include <utility>

namespace millrace::exec {

Batch::Batch(std::shared_ptr<device::Device> device, uint32_t max_packets, size_t max_bytes, bool wants_visits)
    : buffers_(device, max_packets, max_bytes, wants_visits), input_(max_packets),
      submission_(*this, input_, buffers_) {
    submission_.record_.pieces.reserve(max_packets);
}

BatchInput& Batch::begin(std::shared_ptr<const LoadedChain> chain) {
    assert(state() == State::idle);
    input_.chain = std::move(chain);
    submission_.record_.clear();
    return input_;
}

BatchSubmission& Batch::lay_down(BatchPart part) {
    assert(state() == (part == BatchPart::ordered ? State::half : State::idle));
    submission_.part_ = part;
    state_.store(State::laid_out, std::memory_order_relaxed);
    return submission_;
}

BatchSubmission& Batch::ask_for_rest() {
    assert(state() == State::submitted);
    state_.store(State::rest, std::memory_order_relaxed);
    return submission_;
}

void Batch::end() {
    state_.store(State::idle, std::memory_order_relaxed);
    input_.chain = nullptr;
    input_.tenants = nullptr;
}

void Batch::count_bytes() {
    BatchRecord& record = submission_.record_;
    input_.chain->counters->bytes_to_device.add(std::exchange(record.bytes_in, 0));
    input_.chain->counters->bytes_to_host.add(std::exchange(record.bytes_back, 0));
}

}  // namespace millrace::exec
