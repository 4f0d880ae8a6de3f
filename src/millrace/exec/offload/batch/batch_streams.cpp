#include "millrace/exec/offload/batch/batch_streams.hpp"

#include <algorithm>
#include <utility>

namespace millrace::exec {

BatchStreams::BatchStreams(std::shared_ptr<device::Device> device, unsigned depth, bool timed)
    : device_(std::move(device)), timed_(timed), most_(depth * kPartitions) {
    streams_.reserve(most_);
    for (unsigned i = 0; i < depth; ++i) streams_.push_back({device_->create_stream(timed_), {}, false});
}

device::StreamId BatchStreams::take(schedule::SmRange sms) {
    const auto is_free = [](const Own& own) { return !own.taken; };
    auto found = std::ranges::find_if(streams_, [&](const Own& own) { return is_free(own) && own.sms == sms; });
    if (found == streams_.end() && streams_.size() < most_) {
        streams_.push_back({device_->create_stream(timed_), {}, false});
        found = streams_.end() - 1;
    }
    if (found == streams_.end()) found = std::ranges::find_if(streams_, is_free);
    if (found->sms != sms) device_->move_stream(found->id, sms);
    found->sms = sms;
    found->taken = true;
    return found->id;
}

void BatchStreams::give(device::StreamId stream) { std::ranges::find(streams_, stream, &Own::id)->taken = false; }

device::StreamId BatchStreams::idle() const { return std::ranges::find(streams_, false, &Own::taken)->id; }

}  // namespace millrace::exec
