#include "millrace/exec/offload/submit/submission.hpp"

#include <rte_cycles.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "millrace/device/turns.hpp"
#include "millrace/exec/tenants.hpp"

namespace millrace::exec {

using device::Address;
using device::Status;

Submission::Submission(std::shared_ptr<device::Device> device, std::shared_ptr<device::OrderGate> gate,
                       const BatchTimeline& timeline, const OffloadOptions& options)
    : device_(std::move(device)), gate_(std::move(gate)), timeline_(timeline),
      between_devices_(options.gate != nullptr) {
    if (options.mode == device::Mode::persistent) sequence_word_ = gate_->sequence_word(device_);
}

void Submission::submit(BatchSubmission& batch) {
    BatchRecord& record = batch.record();
    const uint64_t begin = rte_rdtsc();
    timeline_.mark(batch, nullptr);
    const Status status = batch.input().chain->resident != nullptr ? put_on_list(batch) : put_on_stream(batch);
    const uint64_t end = rte_rdtsc();
    record.calls += end - begin;
    if (batch.part() != BatchPart::ordered) {
        record.submit_begin = begin;
        record.submitted_ns = timeline_.now_ns();
        record.submitted = end;
    }
    batch.submitted(status);
}

/// All calls that a part of a batch takes.
Status Submission::put_on_stream(BatchSubmission& batch) {
    Status status = batch.part() != BatchPart::ordered ? send(batch) : Status::ok;
    if (status == Status::ok)
        status = batch.input().chain->program->gpu_share.in_turn
                     ? device_->turns().take(*device_, batch.stream(), [&] { return run_steps(batch); })
                     : run_steps(batch);
    if (status != Status::ok) return status;
    return batch.part() == BatchPart::unordered ? device_->announce(batch.stream(), batch.record().done) : fetch(batch);
}

Status Submission::send(BatchSubmission& batch) {
    const BatchInput& input = batch.input();
    const size_t input_bytes = input.piece.input_bytes();
    batch.record().bytes_in += input_bytes;
    const Status status = device_->copy_to_device(batch.stream(), input.address, batch.buffers().input(), input_bytes);
    const Status sent = status == Status::ok ? send_frames(batch) : status;
    timeline_.mark(batch, timeline_.names().in, input_bytes + input.frames.crossing);
    return sent;
}

Status Submission::send_frames(BatchSubmission& batch) {
    const BatchInput& input = batch.input();
    if (input.is_staged()) return send_staged(batch);
    if (input.transfer == TransferIn::packed) return send_packed(batch);
    if (input.transfer == TransferIn::rows) return send_rows(batch);
    batch.record().bytes_in += input.frames.crossing;
    return Status::ok;  // the first step fetches them, or those that read them do
}

/// One 2-D copy for each run of buffers at one distance. A row is as long as the run's longest frame.
Status Submission::send_rows(BatchSubmission& batch) {
    const BatchInput& input = batch.input();
    const device::FrameDescriptor* const descriptors = batch.buffers().descriptors();
    const Address frames = input.address + input.piece.frames_at;
    Status status = Status::ok;
    size_t first = 0;  // of the run
    uint64_t from = input.first_source(), expected = from;
    uint32_t width = 0;
    const auto send = [&](size_t next) {
        if (status != Status::ok) return;
        batch.record().bytes_in += uint64_t{width} * (next - first);
        status = device_->copy_rows_to_device(batch.stream(), frames + descriptors[first].offset, input.frames.spacing,
                                              reinterpret_cast<const void*>(from),
                                              static_cast<size_t>(input.frames.pitch), width, next - first);
    };
    if (input.frames.runs == 1) {
        width = input.frames.widest;
    } else {
        input.for_each_source([&](size_t i, uint64_t source) {
            if (source != expected) {
                send(i);
                first = i;
                from = source;
                width = 0;
            }
            width = std::max<uint32_t>(width, descriptors[i].present);
            expected = source + static_cast<uint64_t>(input.frames.pitch);
        });
    }
    send(input.frames.count);
    return status;
}

Status Submission::send_packed(BatchSubmission& batch) {
    const BatchInput& input = batch.input();
    batch.record().bytes_in += input.frames.bytes;
    return device_->copy_to_device(batch.stream(), input.address + input.piece.frames_at, batch.buffers().frames_in(),
                                   input.frames.bytes);
}

/// Frames as they lie contiguous; the step that begins scatters them.
Status Submission::send_staged(BatchSubmission& batch) {
    const BatchInput& input = batch.input();
    const Address staging = input.address + input.piece.staging_at;
    Status status = Status::ok;
    for (const StagedRange& each : input.staged_ranges.all()) {
        if (status == Status::ok)
            status = device_->copy_to_device(batch.stream(), staging + each.at, each.from, each.bytes);
        batch.record().bytes_in += each.bytes;
    }
    return status;
}

/// Batches of several devices follow each other in the order of their launches.
Status Submission::run_steps(BatchSubmission& batch) {
    const LoadedChain& chain = *batch.input().chain;
    device::BatchView view = batch.input().view;
    view.numbered = !between_devices_;
    for (size_t i = 0; i < chain.sequences.size(); ++i) view.after[i] = {chain.sequences[i]->place()};
    if (batch.part() != BatchPart::ordered) {
        const Status status = launch_steps(batch, view, 0, chain.ordered_from);
        if (status != Status::ok || batch.part() == BatchPart::unordered) return status;
    }
    if (chain.ordered_from < chain.ordered_to) {
        const std::lock_guard launching(gate_->launching);
        Status status = begin_order(batch, view);
        if (status == Status::ok) status = launch_steps(batch, view, chain.ordered_from, chain.ordered_to);
        if (status == Status::ok && between_devices_) status = leave_to_others(batch);
        if (status != Status::ok) return status;
    }
    return launch_steps(batch, view, chain.ordered_to, chain.loaded->steps().size());
}

/// Those from `from` to before `to`.
Status Submission::launch_steps(BatchSubmission& batch, const device::BatchView& view, size_t from, size_t to) {
    const BatchInput& input = batch.input();
    Status status = Status::ok;
    for (size_t i = from; i < to && status == Status::ok; ++i) {
        using Kind = device::Step::Kind;
        const device::Step& step = input.chain->loaded->steps()[i];
        if (step.kind == Kind::gather && input.transfer != TransferIn::gather) continue;
        if (step.kind == Kind::confined) status = input.tenants->run(batch.stream(), step, view, input.tenants_place);
        else status = device_->launch(batch.stream(), *input.chain->loaded, i, view);
        timeline_.mark(batch, input.chain->step_names[i], input.frames.crossing);
    }
    return status;
}

/// The ordered parts of batches come one after the other, as they are launched.
Status Submission::begin_order(BatchSubmission& batch, device::BatchView& view) {
    device::OrderGate& gate = *gate_;
    {
        const std::lock_guard lock(gate.mutex);
        if (gate.broken) return Status::lost;
        batch.record().order = ++gate.batches;
    }
    if (!between_devices_) {  // the kernels wait for their places themselves
        view.sequence = batch.record().order;
        const auto& sequences = batch.input().chain->sequences;
        for (size_t i = 0; i < sequences.size(); ++i) view.after[i] = sequences[i]->follow(view.sequence);
        return Status::ok;
    }
    const Status status = gate.last != 0 ? device_->wait(batch.stream(), *gate.last_device, gate.last) : Status::ok;
    timeline_.mark(batch, timeline_.names().order);
    return status;
}

/// The next batch, of whichever device, waits for what is on the stream so far.
Status Submission::leave_to_others(BatchSubmission& batch) {
    gate_->last_device = device_.get();
    return device_->record(batch.stream(), gate_->last);
}

/// What comes back: all from the head to the first events, in one piece, the frames among it. Then what every NF
/// decided, where that is wanted.
void Submission::list_back(const BatchSubmission& batch, std::vector<device::CopyPiece>& pieces) {
    const BatchInput& input = batch.input();
    const size_t end = input.piece.back_end(input.chain->program->emits_events());
    pieces.clear();
    pieces.push_back({batch.buffers().back(input.piece, input.piece.head_at), input.address + input.piece.head_at,
                      static_cast<uint32_t>(end - input.piece.head_at)});
    if (batch.buffers().visits() != nullptr && !input.chain->program->nodes.empty())
        pieces.push_back(
            {batch.buffers().visits(), batch.buffers().device_visits(),
             static_cast<uint32_t>(input.frames.count * input.chain->program->stage_count() * sizeof(Decision))});
}

Status Submission::fetch(BatchSubmission& batch) {
    const BatchInput& input = batch.input();
    BatchRecord& record = batch.record();
    list_back(batch, record.pieces);
    // Or a kernel brings the heads.
    uint64_t bytes = input.way_back == TransferOut::zero_copy ? input.frames.count * input.prefixes.back : 0;
    Status status = Status::ok;
    for (const device::CopyPiece& piece : record.pieces) {
        if (status == Status::ok) status = device_->copy_to_host(batch.stream(), piece.host, piece.device, piece.bytes);
        bytes += piece.bytes;
    }
    record.bytes_back += bytes;
    timeline_.mark(batch, timeline_.names().back, bytes);
    if (status == Status::ok) status = device_->announce(batch.stream(), record.done);
    return status;
}

/// The batch's view and input are there.
Status Submission::put_on_list(BatchSubmission& batch) {
    const BatchInput& input = batch.input();
    BatchRecord& record = batch.record();
    const auto at = [&](size_t offset) { return reinterpret_cast<uint8_t*>(input.address + offset); };
    device::ResidentBatch work;
    work.view = input.view;
    work.in[0] = {batch.buffers().input(), at(0), input.piece.input_bytes()};
    if (input.transfer == TransferIn::packed)
        work.in[1] = {batch.buffers().frames_in(), at(input.piece.frames_at), input.frames.bytes};
    work.gather = input.transfer == TransferIn::gather;
    record.bytes_in += work.in[0].bytes + (work.in[1].bytes != 0 ? input.frames.bytes : input.frames.crossing);
    std::vector<device::CopyPiece>& back = record.pieces;
    list_back(batch, back);
    if (input.way_back == TransferOut::zero_copy) record.bytes_back += input.frames.count * input.prefixes.back;
    for (size_t i = 0; i < back.size(); ++i) {
        work.out[i] = {static_cast<uint8_t*>(back[i].host), reinterpret_cast<uint8_t*>(back[i].device), back[i].bytes};
        record.bytes_back += back[i].bytes;
    }
    if (input.chain->ordered_from == input.chain->ordered_to) return input.chain->resident->submit(work, record.number);
    // Batches must be on the lists in the order of their sequence: a kernel that waits for a batch behind another of
    // its own list would wait for ever.
    device::OrderGate& gate = *gate_;
    const std::lock_guard lock(gate.mutex);
    if (gate.broken) return Status::lost;
    work.sequence = ++gate.resident_sequences;
    work.sequence_word = sequence_word_.get();
    record.order = ++gate.batches;
    return input.chain->resident->submit(work, record.number);
}

}  // namespace millrace::exec
