#include "millrace/exec/offload/device_path.hpp"

#include <rte_cycles.h>
#include <spdlog/spdlog.h>

namespace millrace::exec {

using device::Status;

DevicePath::DevicePath(const std::shared_ptr<device::Device>& device, Delivery& delivery, const ChainQueues& queues,
                       CpuPath& cpu, Placement::Member* member, uint32_t max_batch, const OffloadOptions& options)
    : gate_(options.gate != nullptr ? options.gate : device->order_gate()), member_(member),
      states_(device, gate_, options.patience), timeline_(options.track, device),
      batches_(device, options, max_batch, delivery.wants_visits()),
      loader_(device, gate_, states_, cpu, options, max_batch),
      launcher_(device, gate_, batches_, states_, timeline_, member, options),
      arrivals_(device, states_, timeline_, options.events, options.patience),
      completion_(delivery, options.frames, cpu, timeline_, max_batch),
      fail_over_(device, states_, launcher_, batches_, queues, cpu, member) {}

void DevicePath::load(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                      ChainQueue& queue) {
    try {
        completion_.keep_room(*program);
        loader_.load(program, counters, queue);
        if (batches_.fits(queue.chain->needs)) return;
        finish_all();
        if (!failed_) batches_.fit(queue.chain->needs);
    } catch (const device::DeviceError& e) {
        spdlog::error("chain '{}': {}", program->name, e.what());
        finish_all();  // the device still works: its batches may come back
        give_up(Status::failed);
    }
}

bool DevicePath::launch(ChainQueue& queue) {
    const std::optional<Status> status = launcher_.launch(queue);
    if (status && *status != Status::ok) give_up(*status);
    return status.has_value();
}

size_t DevicePath::run_on_cpu(ChainQueue& queue, CpuPath& cpu, Placement::Member& member) {
    if (batches_.idle() == 0) return 0;
    const size_t packets = cpu.run_some(queue, member, states_, batches_.idle_stream());
    under_way_ -= packets;
    return packets;
}

bool DevicePath::finish_front() {
    if (batches_.in_flight().empty() || failed_) return false;
    if (const Status status = launcher_.submit_ordered(); status != Status::ok) {
        give_up(status);
        return false;
    }
    Batch& batch = *batches_.in_flight().front();
    const Status status = arrivals_.poll(batch);
    if (status == Status::pending) return false;
    if (status != Status::ok) {
        give_up(status);
        return false;
    }
    batches_.retire();
    completion_.deliver(batch, rte_rdtsc());
    under_way_ -= batch.input().frames.count;
    if (member_) member_->end_batches(1);
    batches_.end(batch);
    return true;
}

size_t DevicePath::in_batches_of(const chain::Program& program) const {
    size_t packets = 0;
    for (const Batch* const batch : batches_.in_flight())
        if (batch->input().chain->program->name == program.name) packets += batch->input().frames.count;
    return packets;
}

void DevicePath::finish_all() {
    while (!batches_.in_flight().empty() && !failed_) finish_front();
}

void DevicePath::give_up(Status status) {
    if (failed_.exchange(true)) return;
    fail_over_.run(status, under_way_);
    under_way_ = 0;
}

}  // namespace millrace::exec
