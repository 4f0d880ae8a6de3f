#include "millrace/exec/offload/finish/ordered_state.hpp"

#include <rte_cycles.h>
#include <rte_pause.h>

#include <cstring>
#include <utility>

#include "millrace/exec/cpu/cpu_engine.hpp"

namespace millrace::exec {

using device::Status;

void OrderedState::expect(const LoadedChain& chain) {
    const std::lock_guard lock(gate_->mutex);
    for (const device::StateArray& state : chain.loaded->states())
        gate_->restored[state.host].try_emplace(state.bytes, 0);
}

Status OrderedState::bring(const LoadedChain& chain, uint64_t hand_overs, device::StreamId stream) {
    device::OrderGate& gate = *gate_;
    const std::lock_guard lock(gate.mutex);
    const std::vector<device::StateArray>& states = chain.loaded->states();
    // Another state may have come to lie where one was before.
    std::erase_if(gate.brought, [](const auto& entry) { return entry.second.owner.expired(); });
    Status status = Status::ok;
    for (size_t i = 0; i < states.size() && status == Status::ok; ++i) {
        const device::StateArray& state = states[i];
        uint32_t* const shared = chain.shared_states[i];
        auto& brought = gate.brought[{shared != nullptr ? nullptr : device_.get(), state.host}];
        if (brought.hand_over != hand_overs) brought = {.hand_over = hand_overs, .bytes = 0, .owner = state.owner};
        if (brought.bytes >= state.bytes) continue;
        const uint8_t* const from = static_cast<const uint8_t*>(state.host) + brought.bytes;
        const size_t more = state.bytes - std::exchange(brought.bytes, state.bytes);
        if (shared != nullptr) std::memcpy(reinterpret_cast<uint8_t*>(shared) + (state.bytes - more), from, more);
        else status = device_->copy_to_device(stream, state.address + (state.bytes - more), from, more);
    }
    for (const device::StateArray& state : chain.loaded->residents()) {
        auto& brought = gate.brought[{device_.get(), state.host}];
        if (status != Status::ok) continue;
        // What the CPU has had no packets for has stayed there.
        const bool is_there = brought.bytes == state.bytes &&
                              (brought.hand_over == hand_overs || !brought.has_returned);
        brought.hand_over = hand_overs;
        if (is_there) continue;
        brought = {.hand_over = hand_overs, .bytes = state.bytes, .owner = state.owner};
        status = device_->copy_to_device(stream, state.address, state.host, state.bytes);
    }
    // Other streams must not run ahead of it, which they can't while this one has the lock.
    return status == Status::ok ? arrive(stream) : status;
}

void OrderedState::take_back(const LoadedChain& chain, device::StreamId stream) {
    const std::lock_guard lock(gate_->mutex);
    Status status = Status::ok;
    bool waits = false;
    for (const device::StateArray& state : chain.loaded->residents()) {
        const auto brought = gate_->brought.find({device_.get(), state.host});
        if (brought == gate_->brought.end() || brought->second.has_returned) continue;
        brought->second.has_returned = true;
        waits = true;
        if (status == Status::ok) status = device_->copy_to_host(stream, state.host, state.address, state.bytes);
    }
    if (!waits) return;
    if (status == Status::ok) status = arrive(stream);
    // Others wait until the host's copy can be used: of what was on its way, or of what the journal has.
    if (status != Status::ok)
        for (const chain::Node& node : chain.program->nodes) node.nf->device_lost();
    else
        for (nf::KeepsJournal* const keeps : chain.journals)
            if (keeps != nullptr) keeps->returned();
}

/// Waits until all that was put on the stream is done.
Status OrderedState::arrive(device::StreamId stream) const {
    device::EventId arrived = 0;
    Status status = device_->record(stream, arrived);
    if (status != Status::ok) return status;
    const uint64_t from = rte_rdtsc();
    while ((status = device_->query(arrived)) == Status::pending &&
           to_nanoseconds(rte_rdtsc() - from) <= static_cast<uint64_t>(patience_.count()))
        rte_pause();
    return status == Status::pending ? Status::lost : status;
}

bool OrderedState::restore(const Batch& batch) {
    const uint64_t order = batch.record().order;
    if (order == 0) return true;
    // Who breaks off waits for those that are at it.
    gate_->restoring.fetch_add(1);
    const bool in_time = !gate_->broken && restore_snapshot(*batch.input().chain, batch.results().snapshot(), order);
    if (in_time && batch.results().head().journal().capacity != 0) apply_journal(batch);
    gate_->restoring.fetch_sub(1);
    return in_time;
}

/// Other workers apply those of other batches meanwhile.
void OrderedState::apply_journal(const Batch& batch) {
    const LoadedChain& chain = *batch.input().chain;
    const nf::Journal& journal = batch.results().head().journal();
    const uint32_t end = std::min(journal.used, journal.capacity);
    const uint8_t* const records = batch.buffers().journal();
    const auto* const times = reinterpret_cast<const uint64_t*>(batch.buffers().input() + batch.input().piece.times_at);
    uint32_t at = 0;
    while (end - at >= sizeof(nf::JournalRecord)) {
        const uint16_t node = reinterpret_cast<const nf::JournalRecord*>(records + at)->node;
        nf::KeepsJournal* const keeps = node < chain.journals.size() ? chain.journals[node] : nullptr;
        const uint32_t bytes = keeps != nullptr ? keeps->apply(records + at, end - at, node, batch.record().order) : 0;
        if (bytes == 0) break;
        at += bytes;
    }
    const bool is_whole = at == journal.used;
    for (nf::KeepsJournal* const keeps : chain.journals) {
        if (keeps == nullptr) continue;
        keeps->reached(times[batch.input().frames.count - 1]);
        if (!is_whole) keeps->missed();
    }
}

bool OrderedState::restore_snapshot(const LoadedChain& chain, const uint8_t* snapshot, uint64_t order) {
    device::OrderGate& gate = *gate_;
    const std::lock_guard lock(gate.mutex);
    if (gate.broken) return false;
    const uint8_t* from = snapshot;
    for (const device::StateArray& state : chain.loaded->states()) {
        auto& restored = gate.restored[state.host];
        uint64_t newer = 0;  // bytes at the start that a later batch has brought
        for (const auto& [bytes, brought_by] : restored)
            if (brought_by > order) newer = bytes;
        if (newer < state.bytes) {
            std::memcpy(static_cast<uint8_t*>(state.host) + newer, from + newer, state.bytes - newer);
            restored[state.bytes] = order;
        }
        from += state.bytes;
    }
    return true;
}

bool OrderedState::break_off() {
    bool by_another = false;
    {
        const std::lock_guard lock(gate_->mutex);
        by_another = gate_->broken.exchange(true);
    }
    while (gate_->restoring.load() != 0) rte_pause();
    return by_another;
}

}  // namespace millrace::exec
