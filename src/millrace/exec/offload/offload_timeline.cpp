// What the timeline is told of a batch on a device.
#include <rte_cycles.h>

#include "millrace/exec/offload/offload_batch.hpp"

namespace millrace::exec {

void OffloadEngine::name_slices() {
    const auto name = [&](const char* text) { return name_in(options_.track, text); };
    names_ = {name("gathered"),         name("put on the device"),
              name("copied in"),        name("waiting for its turn"),
              name("away to the host"), name("in again"),
              name("copied back"),      name("rest copied back"),
              name("resident kernel"),  name("applied")};
}

/// Before the batch is taken from its queue; the worker has been at it since `put_from_ns`.
void OffloadEngine::begin_trace(const ChainQueue& queue, Slot& slot, uint64_t put_from_ns) {
    if (options_.track == nullptr) return;
    slot.batch = options_.track->next_batch();
    slot.put_from_ns = put_from_ns;
    slot.arrived_ns = std::min(put_from_ns, Timeline::now_ns() - to_nanoseconds(rte_rdtsc() - queue.oldest()));
    slot.marks.clear();
    mark(slot, nullptr);
}

/// What the stream does from the mark before to this one. An event more or less is no reason to give up a device, so
/// that a failure shows elsewhere.
void OffloadEngine::mark(Slot& slot, const std::string* name, uint64_t bytes) {
    if (options_.track == nullptr || slot.chain->resident != nullptr) return;
    device::EventId event = 0;
    if (device_->record(slot.stream, event) == device::Status::ok) slot.marks.push_back({name, event, bytes});
}

/// All about a batch that has come back and was applied until now.
void OffloadEngine::trace(const Slot& slot, uint64_t applied_from_ns) {
    if (options_.track == nullptr) return;
    using Place = TimelineSlice::Place;
    TimelineSlice slice{.chain = slot.chain->name,
                        .stream = slot.stream,
                        .packets = static_cast<uint32_t>(slot.frames.count),
                        .batch = slot.batch};
    const auto add = [&](const std::string* name, Place place, uint64_t bytes, uint64_t begin_ns, uint64_t end_ns) {
        slice.name = name;
        slice.place = place;
        slice.bytes = bytes;
        slice.begin_ns = begin_ns;
        slice.end_ns = std::max(begin_ns, end_ns);
        options_.track->add(slice);
    };
    add(names_.waiting, Place::waiting, slot.frames.crossing, slot.arrived_ns, slot.put_from_ns);
    add(names_.put, Place::worker, slot.frames.crossing, slot.put_from_ns, slot.put_until_ns);
    uint64_t before = 0;
    for (const Slot::Mark& mark : slot.marks) {
        const uint64_t time = device_->time_ns(mark.event);
        if (mark.name != nullptr && before != 0 && time != 0) add(mark.name, Place::stream, mark.bytes, before, time);
        before = time;
    }
    if (slot.chain->resident != nullptr)
        add(names_.resident, Place::stream, slot.frames.crossing, slot.put_until_ns, applied_from_ns);
    add(names_.applied, Place::worker, slot.frames.crossing, applied_from_ns, Timeline::now_ns());
}

}  // namespace millrace::exec
