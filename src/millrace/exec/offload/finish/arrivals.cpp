#include "millrace/exec/offload/finish/arrivals.hpp"

#include <rte_cycles.h>

#include <algorithm>

#include "millrace/exec/cpu/cpu_engine.hpp"

namespace millrace::exec {

using device::Status;

namespace {

/// Whether there is more to come than what comes without being asked for.
bool has_rest(const Batch& batch) {
    const BatchResults results = batch.results();
    return results.stored_events() > kEagerEvents || results.left_count() > 0;
}

}  // namespace

Status Arrivals::poll(Batch& batch) {
    if (batch.state() != Batch::State::back)
        if (const Status status = bring(batch); status != Status::ok) return status;
    // The batch waits for room for its events, so that the worker need not.
    if (events_ != nullptr && events_->room() < std::min<size_t>(batch.results().stored_events(), EventLine::kPlaces))
        return Status::pending;
    if (!states_.restore(batch)) return Status::lost;
    constexpr uint64_t kSmooth = 8;
    round_trip_ += (rte_rdtsc() - batch.input().launched) / kSmooth - round_trip_ / kSmooth;
    return Status::ok;
}

/// Brings the batch a state on, if it can be: ok once all of it is back.
Status Arrivals::bring(Batch& batch) {
    const Batch::State state = batch.state();
    if (state == Batch::State::laid_out || state == Batch::State::half)
        return too_late(batch) ? Status::lost : Status::pending;
    if (batch.record().status != Status::ok) return batch.record().status;
    Status status = ask_device(batch);
    if (status == Status::pending) {
        // What it waits for may never come when another device has failed.
        const bool hopeless = batch.record().order != 0 && states_.broken();
        return hopeless || too_late(batch) ? Status::lost : Status::pending;
    }
    if (status != Status::ok) return status;
    if (state == Batch::State::submitted && has_rest(batch)) {
        status = fetch_rest(batch);
        return status == Status::ok ? Status::pending : status;
    }
    batch.arrive();
    return Status::ok;
}

Status Arrivals::ask_device(const Batch& batch) const {
    const std::shared_ptr<device::Resident>& resident = batch.input().chain->resident;
    const bool on_list = resident != nullptr && batch.state() != Batch::State::rest;
    return on_list ? resident->query(batch.record().number) : device_->query(batch.record().done);
}

bool Arrivals::too_late(const Batch& batch) const {
    return to_nanoseconds(rte_rdtsc() - batch.input().launched) > static_cast<uint64_t>(patience_.count());
}

/// Asks for what could only be asked for once the results were here: more events, and the packets whose events were
/// left, as the NFs saw them if the host does not have them so.
Status Arrivals::fetch_rest(Batch& batch) {
    BatchSubmission& submission = batch.ask_for_rest();
    BatchRecord& record = submission.record();
    const PieceLayout& piece = batch.input().piece;
    const BatchBuffers& buffers = batch.buffers();
    const BatchResults results = batch.results();
    Status status = Status::ok;
    const auto bring = [&](void* to, size_t from, size_t bytes) {
        if (status == Status::ok)
            status = device_->copy_to_host(batch.stream(), to, batch.input().address + from, bytes);
        record.bytes_back += bytes;
    };
    if (const size_t stored = results.stored_events(); stored > kEagerEvents)
        bring(buffers.more_events(), piece.events_at, stored * sizeof(Event));
    if (const size_t left = results.left_count(); left > 0) {
        bring(buffers.left(), piece.left_at, left * sizeof(LeftEvents));
        if (const size_t kept = results.kept_bytes(); kept > 0) bring(buffers.kept(), piece.kept_at, kept);
    }
    timeline_.mark(submission, timeline_.names().rest);
    return status == Status::ok ? device_->announce(batch.stream(), record.done) : status;
}

}  // namespace millrace::exec
