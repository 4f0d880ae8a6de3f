#include "millrace/exec/offload/batch/batch_launcher.hpp"

#include <rte_cycles.h>

#include "millrace/exec/cpu/cpu_engine.hpp"
#include "millrace/exec/tenants.hpp"

namespace millrace::exec {

using device::Status;

BatchLauncher::BatchLauncher(std::shared_ptr<device::Device> device, const std::shared_ptr<device::OrderGate>& gate,
                             BatchPool& batches, OrderedState& states, const BatchTimeline& timeline,
                             Placement::Member* member, const OffloadOptions& options)
    : device_(device), batches_(batches), states_(states), timeline_(timeline), member_(member), options_(options),
      submission_(std::move(device), gate, timeline, options) {
    // A kernel that stays is told through memory.
    if (options.call_thread != nullptr && options.mode != device::Mode::persistent)
        submissions_.emplace(options.call_thread, submit_);
}

bool BatchLauncher::is_due(const ChainQueue& queue, uint64_t now, size_t packets, uint64_t round_trip) const {
    if (queue.waiting() == 0 || batches_.idle() == 0) return false;
    BatchPolicy::Load load;
    load.waiting = queue.waiting();
    load.waited_ns = to_nanoseconds(now - queue.oldest());
    load.more = queue.more;
    load.free_batches = batches_.idle();
    load.in_flight = batches_.in_flight().size();
    for (const Batch* const batch : batches_.in_flight()) load.of_chain += batch->input().chain == queue.chain ? 1 : 0;
    load.packets = packets;
    load.since_start = batches_.in_flight().empty() ? 0 : now - batches_.in_flight().back()->input().launched;
    load.round_trip = round_trip;
    if (submissions_)
        load.line = submissions_->busy()   ? BatchPolicy::Line::own
                    : submissions_->line() ? BatchPolicy::Line::others
                                           : BatchPolicy::Line::none;
    load.calls_ns = to_nanoseconds(queue.calls);
    return queue.policy.is_due(load);
}

std::optional<Status> BatchLauncher::launch(ChainQueue& queue) {
    if (batches_.idle() == 0 || (member_ != nullptr && !member_->begin_batch())) return std::nullopt;
    const uint64_t begun_ns = timeline_.now_ns(), begun = rte_rdtsc();
    Batch& batch = batches_.next();
    BatchInput& input = batch.begin(queue.chain);
    input.begun = begun;
    lay_out(queue, options_, input, batch.buffers());
    if (!batches_.begin()) {
        if (member_ != nullptr) member_->end_batches(1);
        batch.end();
        return std::nullopt;
    }
    if (options_.tenants != nullptr) {
        input.tenants = *options_.tenants;
        input.tenants_place = input.tenants->take_place();
    }
    input.launched = rte_rdtsc();
    timeline_.begin(queue, input, begun_ns);
    queue.take(input.frames.count, input.bursts);
    const Status status = bring_state(queue, batch.stream());
    write_input(input, batch.buffers());
    input.laid_out = rte_rdtsc();
    if (status != Status::ok) return status;
    const BatchPart part = first_part(input);
    halves_ += part == BatchPart::unordered;
    const Status submitted = submit(batch.lay_down(part));
    if (!submissions_) {
        batch.count_bytes();
        const uint64_t took = rte_rdtsc() - input.laid_out;
        queue.calls = queue.calls == 0 ? took : (7 * queue.calls + took) / 8;
    }
    return submitted;
}

/// How that went, as far as it is known.
Status BatchLauncher::submit(BatchSubmission& part) {
    if (submissions_) {
        submissions_->submit(&part);
        return Status::ok;
    }
    submission_.submit(part);
    return part.record().status;
}

/// A worker's batches have the order of their launches: behind a long one all wait, as a flow may go on in them.
BatchPart BatchLauncher::first_part(const BatchInput& input) const {
    const LoadedChain& chain = *input.chain;
    const bool is_ordered = chain.resident == nullptr && chain.ordered_from < chain.ordered_to;
    const bool is_long = input.frames.crossing >= options_.long_batch_bytes && !chain.program->gpu_share.in_turn;
    return is_ordered && (is_long || halves_ > 0) ? BatchPart::unordered : BatchPart::all;
}

Status BatchLauncher::submit_halves() {
    for (Batch* const batch : batches_.in_flight()) {
        if (batch->part() != BatchPart::unordered) continue;
        if (batch->state() == Batch::State::laid_out) break;  // its first part is not there yet
        Status status = batch->record().status;
        if (status == Status::ok) status = device_->query(batch->record().done);
        if (status == Status::pending) break;
        if (status != Status::ok) return status;
        --halves_;
        status = submit(batch->lay_down(BatchPart::ordered));
        if (status != Status::ok) return status;
    }
    return Status::ok;
}

/// The NFs' state, if the CPU had it meanwhile.
Status BatchLauncher::bring_state(ChainQueue& queue, device::StreamId stream) {
    if (member_ == nullptr || queue.hand_overs == member_->all().hand_overs()) return Status::ok;
    queue.hand_overs = member_->all().hand_overs();
    return states_.bring(*queue.chain, queue.hand_overs, stream);
}

}  // namespace millrace::exec
