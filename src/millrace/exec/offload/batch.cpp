#include "millrace/exec/offload/batch.hpp"

#include <utility>

namespace millrace::exec {

using device::Address;

Batch::Batch(std::shared_ptr<device::Device> device, uint32_t most_packets, size_t most_bytes, bool wants_visits,
             bool timed)
    : device_(std::move(device)), most_packets_(most_packets), most_bytes_(most_bytes) {
    const size_t n = most_packets;
    stream = device_->create_stream(timed);
    frames_in = static_cast<uint8_t*>(device_->allocate_host(most_bytes));
    input = static_cast<uint8_t*>(device_->allocate_host(PieceLayout::most_input(n)));
    more_events = static_cast<Event*>(device_->allocate_host(event_room(n) * sizeof(Event)));
    sources.resize(n);
    device_work = device_->allocate(device::BatchWork(n).bytes(), "parsed packets");
    if (wants_visits) {
        visits = static_cast<Decision*>(device_->allocate_host(n * device::kMaxNodes * sizeof(Decision)));
        device_visits = device_->allocate(n * device::kMaxNodes * sizeof(Decision), "decisions of every NF");
    }
    mbufs.reserve(n);
    pieces.reserve(n);
    receive_blocks.reserve(n);
    staged_ranges.reserve(n);
    bursts.reserve(n);
}

Batch::~Batch() {
    give_back_buffer();
    for (void* memory : {static_cast<void*>(frames_in), static_cast<void*>(input), static_cast<void*>(more_events),
                         static_cast<void*>(left), static_cast<void*>(kept), static_cast<void*>(visits)})
        if (memory != nullptr) device_->free_host(memory);
    for (const Address each : {device_work, device_visits})
        if (each != 0) device_->free(each);
}

void Batch::fit(const RingNeeds& needs, std::shared_ptr<ResultBuffers> from) {
    regions = std::move(from);
    region = regions->take();
    for (void* memory :
         {static_cast<void*>(std::exchange(left, nullptr)), static_cast<void*>(std::exchange(kept, nullptr))})
        if (memory != nullptr) device_->free_host(memory);
    left = static_cast<LeftEvents*>(device_->allocate_host(most_packets_ * needs.emitters * sizeof(LeftEvents)));
    if (needs.keepers > 0)
        kept = static_cast<uint8_t*>(
            device_->allocate_host(needs.keepers * PieceLayout::most_kept(most_packets_, most_bytes_)));
}

void Batch::give_back_buffer() {
    if (region != nullptr) regions->give_back(*std::exchange(region, nullptr));
    regions = nullptr;
}

}  // namespace millrace::exec
