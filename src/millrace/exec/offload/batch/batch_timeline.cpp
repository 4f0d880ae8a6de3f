#include "millrace/exec/offload/batch/batch_timeline.hpp"

#include <rte_cycles.h>

#include <algorithm>

#include "millrace/exec/cpu/cpu_engine.hpp"

namespace millrace::exec {

BatchTimeline::BatchTimeline(TimelineTrack* track, std::shared_ptr<device::Device> device)
    : track_(track), device_(std::move(device)) {
    const auto name = [&](const char* text) { return name_in(track, text); };
    names_ = {name("gathered"),    name("submitted"),        name("copied in"),       name("waiting for its sequence"),
              name("copied back"), name("rest copied back"), name("resident kernel"), name("applied")};
}

void BatchTimeline::begin(const ChainQueue& queue, BatchInput& batch, uint64_t begun_ns) const {
    if (track_ == nullptr) return;
    batch.timeline_number = track_->next_batch();
    batch.begun_ns = begun_ns;
    batch.arrived_ns = std::min(begun_ns, Timeline::now_ns() - to_nanoseconds(rte_rdtsc() - queue.oldest()));
}

void BatchTimeline::mark(BatchSubmission& batch, const std::string* name, uint64_t bytes) const {
    if (track_ == nullptr || batch.input().chain->resident != nullptr) return;
    device::EventId event = 0;
    if (device_->record(batch.stream(), event) == device::Status::ok)
        batch.record().marks.push_back({name, event, bytes});
}

void BatchTimeline::end(const Batch& batch, uint64_t applied_from_ns) const {
    if (track_ == nullptr) return;
    using Place = TimelineSlice::Place;
    const BatchInput& input = batch.input();
    const BatchRecord& record = batch.record();
    TimelineSlice slice{.chain = input.chain->name,
                        .stream = batch.stream(),
                        .packets = static_cast<uint32_t>(input.frames.count),
                        .batch = input.timeline_number};
    const auto add = [&](const std::string* name, Place place, uint64_t bytes, uint64_t begin_ns, uint64_t end_ns) {
        slice.name = name;
        slice.place = place;
        slice.bytes = bytes;
        slice.begin_ns = begin_ns;
        slice.end_ns = std::max(begin_ns, end_ns);
        track_->add(slice);
    };
    add(names_.waiting, Place::waiting, input.frames.crossing, input.arrived_ns, input.begun_ns);
    add(names_.submit, Place::worker, input.frames.crossing, input.begun_ns, record.submitted_ns);
    uint64_t before = 0;
    for (const BatchRecord::Mark& mark : record.marks) {
        const uint64_t time = device_->time_ns(mark.event);
        if (mark.name != nullptr && before != 0 && time != 0) add(mark.name, Place::stream, mark.bytes, before, time);
        before = time;
    }
    if (input.chain->resident != nullptr)
        add(names_.resident, Place::stream, input.frames.crossing, record.submitted_ns, applied_from_ns);
    add(names_.applied, Place::worker, input.frames.crossing, applied_from_ns, Timeline::now_ns());
}

}  // namespace millrace::exec
