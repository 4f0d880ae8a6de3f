#include "millrace/exec/offload/batch/batch_buffers.hpp"

#include <utility>

namespace millrace::exec {

using device::host_array;

BatchBuffers::BatchBuffers(std::shared_ptr<device::Device> device, uint32_t max_packets, size_t max_bytes,
                           bool wants_visits)
    : device_(std::move(device)), max_packets_(max_packets), max_bytes_(max_bytes),
      frames_in_(host_array<uint8_t>(*device_, max_bytes)),
      input_(host_array<uint8_t>(*device_, PieceLayout::most_input(max_packets))),
      more_events_(host_array<Event>(*device_, event_room(max_packets))),
      device_work_(*device_, device::BatchWork(max_packets, work_).bytes(), "parsed packets") {
    if (!wants_visits) return;
    const size_t visits = size_t{max_packets} * device::kMaxStages;
    visits_ = host_array<Decision>(*device_, visits);
    device_visits_ = {*device_, visits * sizeof(Decision), "decisions of every NF"};
}

void BatchBuffers::fit(const RingNeeds& needs, std::shared_ptr<ResultBuffers> from) {
    give_back_buffer();
    buffers_ = std::move(from);
    result_buffer_ = buffers_->take();
    if (!work_.covers(needs.work)) {
        work_ = work_.with(needs.work);
        device_work_ = {};
        device_work_ = {*device_, device::BatchWork(max_packets_, work_).bytes(), "parsed packets"};
    }
    left_.reset();
    kept_.reset();
    journal_.reset();
    left_ = host_array<LeftEvents>(*device_, size_t{max_packets_} * needs.emitters);
    if (needs.keepers > 0)
        kept_ = host_array<uint8_t>(*device_, needs.keepers * PieceLayout::most_kept(max_packets_, max_bytes_));
    if (const size_t journal = needs.journal.bytes(max_packets_); journal > 0)
        journal_ = host_array<uint8_t>(*device_, journal);
}

void BatchBuffers::give_back_buffer() {
    if (result_buffer_ != nullptr) buffers_->give_back(*std::exchange(result_buffer_, nullptr));
    buffers_ = nullptr;
}

}  // namespace millrace::exec
