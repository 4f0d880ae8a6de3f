#include "millrace/exec/offload/finish/fail_over.hpp"

#include <spdlog/spdlog.h>

#include <vector>

namespace millrace::exec {

void FailOver::run(device::Status why, size_t packets) {
    const bool by_another = states_.break_off();
    launcher_.wait();
    // All kernels end, whatever they are at.
    queues_.stop_residents();
    batches_.stop_residents();
    spdlog::error("{}: {}; its chains go on on the CPU, {} packets are run again", device_->describe(),
                  by_another                    ? "this device, or one that its state comes from, has failed"
                  : why == device::Status::lost ? "the device is lost"
                                                : "a copy, a kernel or an allocation has failed",
                  packets);
    // Where the CPU has the chains it has their state, too, but for those that it had no packets of.
    if (member_ == nullptr || member_->all().place() != Placement::Place::cpu) lose_states();
    else
        for (size_t i = 0; i < queues_.size(); ++i)
            if (queues_[i].chain != nullptr) states_.take_back(*queues_[i].chain, batches_.idle_stream());
    const std::vector<Batch*> in_flight = batches_.abandon();
    if (member_ != nullptr) {
        member_->end_batches(in_flight.size());
        member_->detach();
    }
    for (const Batch* batch : in_flight) {
        const BatchInput& input = batch->input();
        for (size_t i = 0; i < input.mbufs.size(); ++i) input.write_metadata(i);
        cpu_.run(input.chain->program, *input.chain->counters, input.mbufs);
        for (const io::ReceiveBlock& block : input.receive_blocks)
            cpu_.run(input.chain->program, *input.chain->counters, block);
    }
    for (size_t i = 0; i < queues_.size(); ++i) cpu_.run_all(queues_[i]);
}

/// What does not come back with batches went with the device.
void FailOver::lose_states() {
    const auto lose = [](const LoadedChain* chain) {
        for (size_t i = 0; chain != nullptr && i < chain->program->nodes.size(); ++i)
            chain->program->nodes[i].nf->device_lost();
    };
    for (const Batch* batch : batches_.in_flight()) lose(batch->input().chain.get());
    for (size_t i = 0; i < queues_.size(); ++i) lose(queues_[i].chain.get());
}

}  // namespace millrace::exec
