#include "millrace/exec/offload/batch/batch_pool.hpp"

#include <utility>

namespace millrace::exec {

namespace {
/// What there is room for from the start. Whatever asks for more has the ring made anew, which waits for the device and
/// for kernels that stay: the first of all chains to come should not.
constexpr size_t kUsualState = size_t{64} << 10;
constexpr size_t kUsualCounters = 512;
}  // namespace

BatchPool::BatchPool(std::shared_ptr<device::Device> device, const OffloadOptions& options, uint32_t most_packets,
                     bool wants_visits)
    : device_(std::move(device)), options_(options), most_packets_(most_packets),
      streams_(device_, options.depth, options.track != nullptr) {
    for (unsigned i = 0; i < options.depth; ++i) {
        batches_.push_back(std::make_unique<Batch>(device_, most_packets, options.batch_bytes, wants_visits));
        idle_.push_back(batches_.back().get());
    }
    in_flight_.reserve(options.depth);
    allocate({.state_bytes = kUsualState, .counters = kUsualCounters});
}

BatchPool::~BatchPool() {
    for (const auto& batch : batches_) batch->end();  // kernels that stay end before the ring does
}

void BatchPool::fit(const RingNeeds& needs) { allocate(has_.with(needs)); }

/// The packet ring, and what its pieces come back into.
void BatchPool::allocate(const RingNeeds& needs) {
    for (const auto& batch : batches_) batch->buffers().give_back_buffer();
    ring_memory_ = {};
    has_ = needs;
    const size_t frames = (1 + options_.blocks + needs.keepers) * options_.batch_bytes;  // staging takes as much again
    ring_ = PacketRing((frames + PieceLayout::most_beside_frames(most_packets_, needs)) * (options_.depth + 1),
                       options_.depth);
    ring_memory_ = {*device_, ring_.size(), "the shared packet buffer"};
    const auto buffers = std::make_shared<ResultBuffers>(
        device_, 3 * options_.depth, options_.batch_bytes + PieceLayout::most_back_beside_frames(most_packets_, needs));
    for (const auto& batch : batches_) batch->buffers().fit(needs, buffers);
}

bool BatchPool::begin() {
    Batch& batch = next();
    const size_t place = ring_.take(batch.input().piece.bytes);
    if (place == PacketRing::kNoRoom) return false;
    batch.place(ring_memory_.address() + place, streams_.take(batch.input().chain->program->gpu_share.sms));
    idle_.pop_back();
    in_flight_.push_back(&batch);
    return true;
}

void BatchPool::retire() {
    in_flight_.erase(in_flight_.begin());
    ring_.give_back();
}

void BatchPool::end(Batch& batch) {
    idle_.push_back(&batch);
    streams_.give(batch.stream());
    batch.end();
}

std::vector<Batch*> BatchPool::abandon() {
    std::vector<Batch*> in_flight = std::move(in_flight_);
    in_flight_.clear();
    return in_flight;
}

void BatchPool::stop_residents() const {
    for (const auto& batch : batches_)
        if (const auto& chain = batch->input().chain; chain != nullptr && chain->resident != nullptr)
            chain->resident->stop();
}

}  // namespace millrace::exec
