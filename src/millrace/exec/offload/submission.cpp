#include "millrace/exec/offload/submission.hpp"

#include <rte_cycles.h>

#include <algorithm>
#include <utility>

namespace millrace::exec {

using device::Address;
using device::Status;

Submission::Submission(std::shared_ptr<device::Device> device, std::shared_ptr<device::OrderGate> gate,
                       const BatchTimeline& timeline, const OffloadOptions& options)
    : device_(std::move(device)), gate_(std::move(gate)), timeline_(timeline), graphs_(options.graphs),
      between_devices_(options.gate != nullptr), sequence_place_(gate_->engines++ % device::Sequencer::kPlaces) {
    if (options.mode == device::Mode::persistent) sequence_word_ = gate_->sequence_word(device_);
}

void Submission::put(Batch& batch) {
    batch.calls_from = rte_rdtsc();
    batch.put_status = batch.chain->resident != nullptr ? put_on_list(batch) : put_on_stream(batch);
    batch.put_until_ns = timeline_.now_ns();
    batch.told = rte_rdtsc();
    batch.state.store(Batch::State::told, std::memory_order_release);
}

/// All calls that a batch takes.
Status Submission::put_on_stream(Batch& batch) {
    if (graphs_) device_->hold(batch.stream);
    std::unique_lock<SpinLock> in_order;
    Status status = send(batch);
    if (status == Status::ok) status = run_steps(batch, in_order);
    if (status == Status::ok) status = fetch(batch);
    return status == Status::ok ? device_->submit(batch.stream) : status;
}

Status Submission::send(Batch& batch) {
    const size_t input_bytes = batch.piece.input_bytes();
    const Status status = device_->copy_to_device(batch.stream, batch.address, batch.input, input_bytes);
    const Status sent = status == Status::ok ? send_frames(batch) : status;
    timeline_.mark(batch, timeline_.names().in, input_bytes + batch.frames.crossing);
    return sent;
}

Status Submission::send_frames(Batch& batch) {
    if (batch.is_staged()) return send_staged(batch);
    if (batch.transfer == TransferIn::packed) return send_packed(batch);
    if (batch.transfer == TransferIn::rows) return send_rows(batch);
    batch.bytes_in += batch.frames.crossing;
    return Status::ok;  // the first step fetches them, or those that read them do
}

/// One 2-D copy for each run of buffers at one distance. A row is as long as the run's longest frame.
Status Submission::send_rows(Batch& batch) {
    const device::FrameDescriptor* const descriptors = batch.descriptors();
    const Address frames = batch.address + batch.piece.frames_at;
    Status status = Status::ok;
    size_t first = 0;  // of the run
    uint64_t from = batch.first_source(), expected = from;
    uint32_t width = 0;
    const auto send = [&](size_t next) {
        if (status != Status::ok) return;
        batch.bytes_in += uint64_t{width} * (next - first);
        status = device_->copy_rows_to_device(batch.stream, frames + descriptors[first].offset, batch.frames.spacing,
                                              reinterpret_cast<const void*>(from),
                                              static_cast<size_t>(batch.frames.pitch), width, next - first);
    };
    if (batch.frames.runs == 1) {
        width = batch.frames.widest;
    } else {
        batch.for_each_source([&](size_t i, uint64_t source) {
            if (source != expected) {
                send(i);
                first = i;
                from = source;
                width = 0;
            }
            width = std::max<uint32_t>(width, descriptors[i].present);
            expected = source + static_cast<uint64_t>(batch.frames.pitch);
        });
    }
    send(batch.frames.count);
    return status;
}

Status Submission::send_packed(Batch& batch) {
    batch.bytes_in += batch.frames.bytes;
    return device_->copy_to_device(batch.stream, batch.address + batch.piece.frames_at, batch.frames_in,
                                   batch.frames.bytes);
}

/// Frames as they lie contiguous; the step that begins scatters them.
Status Submission::send_staged(Batch& batch) {
    const Address staging = batch.address + batch.piece.staging_at;
    Status status = Status::ok;
    for (const StagedRange& each : batch.staged_ranges.all()) {
        if (status == Status::ok)
            status = device_->copy_to_device(batch.stream, staging + each.at, each.from, each.bytes);
        batch.bytes_in += each.bytes;
    }
    return status;
}

/// `in_order` is to be held, if it is, until the batch has been submitted: batches of several devices follow each other
/// in the order of their launches.
Status Submission::run_steps(Batch& batch, std::unique_lock<SpinLock>& in_order) {
    const auto is_ordered = [](const device::Step& step) { return step.in_order(); };
    const std::vector<device::Step>& steps = batch.chain->loaded->steps();
    const auto first = std::find_if(steps.begin(), steps.end(), is_ordered);
    const auto behind = std::find_if(steps.rbegin(), steps.rend(), is_ordered).base();
    const auto launch = [&](auto from, auto to) {
        Status status = Status::ok;
        for (auto step = from; step != to && status == Status::ok; ++step)
            if (step->kind != device::Step::Kind::gather || batch.transfer == TransferIn::gather) {
                const auto index = static_cast<size_t>(step - steps.begin());
                if (step->crosses) status = cross(batch);
                if (status == Status::ok)
                    status = device_->launch(batch.stream, *batch.chain->loaded, index, batch.view);
                timeline_.mark(batch, batch.chain->step_names[index], batch.frames.crossing);
            }
        return status;
    };
    if (Status status = launch(steps.begin(), first); status != Status::ok || first == steps.end()) return status;
    // The ordered parts of batches come one after the other.
    device::OrderGate& gate = *gate_;
    in_order = std::unique_lock(gate.mutex);
    if (gate.broken) return Status::lost;
    batch.order = ++gate.batches;
    Status status = Status::ok;
    if (!between_devices_) {
        batch.view.sequence = ++gate.launched_sequences * device::Sequencer::kPlaces + sequence_place_;
        batch.view.after = std::exchange(last_sequence_, batch.view.sequence);
        batch.unsequenced = gate.batches - gate.launched_sequences;
        in_order.unlock();  // the kernels wait for their sequence themselves
        status = launch(first, behind);
    } else {
        if (gate.last != 0) status = device_->wait(batch.stream, *gate.last_device, gate.last);
        timeline_.mark(batch, timeline_.names().order);
        if (status == Status::ok) status = launch(first, behind);
        if (status == Status::ok) status = device_->record(batch.stream, gate.last);
        gate.last_device = device_.get();
        if (!graphs_) in_order.unlock();
    }
    return status == Status::ok ? launch(behind, steps.end()) : status;
}

/// The frames go to where the results will come, and back from there, for the next NF.
Status Submission::cross(Batch& batch) {
    const Address frames = batch.address + batch.piece.frames_at;
    uint8_t* const host = batch.region->data();
    Status status = device_->copy_to_host(batch.stream, host, frames, batch.frames.bytes);
    batch.bytes_back += batch.frames.bytes;
    timeline_.mark(batch, timeline_.names().away, batch.frames.bytes);
    if (status == Status::ok) status = device_->copy_to_device(batch.stream, frames, host, batch.frames.bytes);
    batch.bytes_in += batch.frames.bytes;
    timeline_.mark(batch, timeline_.names().again, batch.frames.bytes);
    return status;
}

/// What comes back: all from the head to the first events, in one piece; the frames are among it, unless only those
/// that are left shall come. Then what every NF decided, where that is wanted.
void Submission::list_back(const Batch& batch, std::vector<device::CopyPiece>& pieces) {
    const size_t end = batch.piece.back_end(batch.chain->program->emits_events());
    const auto add = [&](size_t from, size_t to) {
        pieces.push_back({batch.back(from), batch.address + from, static_cast<uint32_t>(to - from)});
    };
    pieces.clear();
    if (batch.way_back == TransferOut::selective) {
        add(batch.piece.head_at, batch.piece.back_at);
        add(batch.piece.results_at, end);
    } else {
        add(batch.piece.head_at, end);
    }
    if (batch.visits != nullptr && !batch.chain->program->nodes.empty())
        pieces.push_back(
            {batch.visits, batch.device_visits,
             static_cast<uint32_t>(batch.frames.count * batch.chain->program->nodes.size() * sizeof(Decision))});
}

Status Submission::fetch(Batch& batch) {
    list_back(batch, batch.pieces);
    // Or a kernel brings the heads.
    uint64_t bytes = batch.way_back == TransferOut::zero_copy ? batch.frames.count * batch.chain->prefixes.back : 0;
    Status status = Status::ok;
    for (const device::CopyPiece& piece : batch.pieces) {
        if (status == Status::ok) status = device_->copy_to_host(batch.stream, piece.host, piece.device, piece.bytes);
        bytes += piece.bytes;
    }
    batch.bytes_back += bytes;
    timeline_.mark(batch, timeline_.names().back, bytes);
    if (status == Status::ok) status = device_->announce(batch.stream, batch.done);
    return status;
}

/// The batch's view and input are there.
Status Submission::put_on_list(Batch& batch) {
    const auto at = [&](size_t offset) { return reinterpret_cast<uint8_t*>(batch.address + offset); };
    device::ResidentBatch work;
    work.view = batch.view;
    work.in[0] = {batch.input, at(0), batch.piece.input_bytes()};
    if (batch.transfer == TransferIn::packed)
        work.in[1] = {batch.frames_in, at(batch.piece.frames_at), batch.frames.bytes};
    work.gather = batch.transfer == TransferIn::gather;
    batch.bytes_in += work.in[1].bytes != 0 ? batch.frames.bytes : batch.frames.crossing;
    std::vector<device::CopyPiece>& back = batch.pieces;
    list_back(batch, back);
    if (batch.way_back == TransferOut::zero_copy) batch.bytes_back += batch.frames.count * batch.chain->prefixes.back;
    for (size_t i = 0; i < back.size(); ++i) {
        work.out[i] = {static_cast<uint8_t*>(back[i].host), reinterpret_cast<uint8_t*>(back[i].device), back[i].bytes};
        batch.bytes_back += back[i].bytes;
    }
    const std::vector<device::Step>& steps = batch.chain->loaded->steps();
    if (std::none_of(steps.begin(), steps.end(), [](const device::Step& step) { return step.in_order(); }))
        return batch.chain->resident->put(work, batch.number);
    // Batches must be on the lists in the order of their sequence: a kernel that waits for a batch behind another of
    // its own list would wait for ever.
    device::OrderGate& gate = *gate_;
    const std::lock_guard lock(gate.mutex);
    if (gate.broken) return Status::lost;
    work.sequence = ++gate.resident_sequences;
    work.sequence_word = sequence_word_.get();
    batch.order = ++gate.batches;
    return batch.chain->resident->put(work, batch.number);
}

}  // namespace millrace::exec
