// What is put on a simulated device's streams, and when it is carried out.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "millrace/device/node_counters.hpp"
#include "millrace/device/sim/loaded.hpp"

namespace millrace::device::sim {
namespace {

uint64_t steady_ns() {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

}  // namespace

Status SimDevice::put(StreamId stream, Operation operation) {
    const std::lock_guard lock(mutex_);
    if (state_ != Status::ok) return state_;
    streams_.at(stream).push_back(std::move(operation));
    return Status::ok;
}

Status SimDevice::copy_to_device(StreamId stream, Address to, const void* from, size_t bytes) {
    return put(stream, {Operation::Kind::copy, [=, this] { return copy(const_cast<void*>(from), to, bytes, true); }});
}
Status SimDevice::copy_to_host(StreamId stream, void* to, Address from, size_t bytes) {
    return put(stream, {Operation::Kind::copy, [=, this] { return copy(to, from, bytes, false); }});
}
Status SimDevice::copy_rows_to_device(StreamId stream, Address to, size_t to_pitch, const void* from, size_t from_pitch,
                                      size_t width, size_t rows) {
    // A GPU's driver refuses rows that overlap.
    return put(stream, {Operation::Kind::copy, [=, this] {
                            if (to_pitch < width || from_pitch < width) return false;
                            for (size_t row = 0; row < rows; ++row) {
                                auto* host = const_cast<uint8_t*>(static_cast<const uint8_t*>(from)) + row * from_pitch;
                                if (!copy(host, to + row * to_pitch, width, true)) return false;
                            }
                            return true;
                        }});
}
Status SimDevice::copy_rows_to_host(StreamId stream, void* to, size_t to_pitch, Address from, size_t from_pitch,
                                    size_t width, size_t rows) {
    return put(stream,
               {Operation::Kind::copy, [=, this] {
                    for (size_t row = 0; row < rows; ++row)
                        if (!copy(static_cast<uint8_t*>(to) + row * to_pitch, from + row * from_pitch, width, false))
                            return false;
                    return true;
                }});
}
Status SimDevice::launch(StreamId stream, const LoadedProgram& program, size_t step, const BatchView& batch) {
    const Step& kind = program.steps()[step];
    const std::vector<SequencePoint> sequences(batch.after + kind.first_sequence, batch.after + kind.last_sequence);
    if (batch.sequence != 0 && kind.awaits_sequence)
        if (const Status status = put(stream, {Operation::Kind::await_sequence, nullptr, 0, nullptr, sequences});
            status != Status::ok)
            return status;
    const bool passes = batch.sequence != 0 && kind.releases_sequence;
    return put(stream, {Operation::Kind::kernel, [=, this, &program] {
                            const schedule::SmRange sms = sms_[stream];
                            if (program.steps()[step].begin) packets_on_[{sms.first, sms.count}] += batch.count;
                            const bool sound = run(program, step, batch);
                            for (const SequencePoint& point : sequences)
                                if (passes) sequences_done_[point.place()] = batch.sequence;
                            return sound;
                        }});
}

/// With the mutex held. False: a bad address.
bool SimDevice::run(const LoadedProgram& program, size_t step, const BatchView& batch) {
    const auto& loaded = static_cast<const Loaded&>(program);
    if (loaded.steps()[step].begin) packets_ += batch.count;
    BatchView view = batch;
    const size_t count = batch.count, counters = std::max<size_t>(counters_of(loaded.program()), 1),
                 stages = std::max<size_t>(loaded.program().stage_count(), 1);
    bool sound = true;
    const auto translate = [&](auto*& pointer, size_t bytes) {
        // Kernels may follow the host's addresses.
        if (pointer == nullptr || reinterpret_cast<Address>(pointer) < kFirstAddress) return;
        auto* real = memory(reinterpret_cast<Address>(pointer), bytes);
        sound &= real != nullptr;
        pointer = reinterpret_cast<std::remove_reference_t<decltype(pointer)>>(real);
    };
    translate(view.frames, 1);
    translate(view.sources, count * sizeof(uint64_t));
    std::vector<uint64_t> sources;
    if (batch.staged && loaded.steps()[step].begin && sound) {
        translate(view.descriptors, count * sizeof(FrameDescriptor));
        for (uint32_t i = 0; i < batch.count && sound; ++i) {
            auto* source = reinterpret_cast<uint8_t*>(view.source_of(i));
            translate(source, view.descriptors[i].present);
            sources.push_back(reinterpret_cast<uint64_t>(source));
        }
        view.sources = sources.data();
    }
    size_t state_words = 0;
    for (StateWords& state : view.states) {
        translate(state.words, state.count * sizeof(uint32_t));
        state_words += state.count;
    }
    translate(view.snapshot, state_words * sizeof(uint32_t));
    translate(view.descriptors, count * sizeof(FrameDescriptor));
    translate(view.times, count * sizeof(uint64_t));
    translate(view.packets, count * sizeof(Packet));
    translate(view.at, count * sizeof(uint16_t));
    translate(view.kept, count * kKeptWords * sizeof(uint32_t));
    translate(view.keys, count * sizeof(uint32_t));
    translate(view.ranks, count * sizeof(uint16_t));
    translate(view.bases, count * sizeof(uint64_t));
    translate(view.key_table, 2 * count * sizeof(uint64_t));
    translate(view.decisions, count * sizeof(Decision));
    translate(view.results, count * sizeof(PacketResult));
    translate(view.events, sizeof(EventBuffer));
    translate(view.journal, sizeof(nf::Journal));
    translate(view.visits, count * stages * sizeof(Decision));
    translate(view.prefixes, count * batch.prefix_bytes);
    translate(view.part_times, kPartCount * sizeof(uint64_t));
    translate(view.outcome_counts, counters * sizeof(uint32_t));
    if (!sound) return false;
    EventBuffer as_told;
    if (view.events != nullptr) {
        as_told = *view.events;
        translate(view.events->events, size_t{as_told.capacity} * sizeof(Event));
        translate(view.events->left, size_t{as_told.left_capacity} * sizeof(LeftEvents));
        translate(view.events->kept, as_told.kept_capacity);
        if (!sound) return false;
    }
    run_step(loaded.program(), loaded.tables(), loaded.steps()[step], view, static_cast<uint32_t>(random_()),
             options_.watch);
    if (view.events != nullptr) {
        as_told.count = view.events->count;
        as_told.left_count = view.events->left_count;
        as_told.kept_bytes = view.events->kept_bytes;
        *view.events = as_told;
    }
    return true;
}

Status SimDevice::launch(StreamId stream, const LoadedTask& task, const TaskBatch& batch) {
    const auto& loaded = static_cast<const TaskLoaded&>(task);
    return put(stream, {Operation::Kind::kernel, [=, this, &loaded] {
                            const size_t words = batch.count * sizeof(uint32_t);
                            const TaskBatch view{
                                reinterpret_cast<const uint32_t*>(
                                    memory(reinterpret_cast<Address>(batch.in), words * loaded.task().in_words)),
                                reinterpret_cast<uint32_t*>(
                                    memory(reinterpret_cast<Address>(batch.out), words * loaded.task().out_words)),
                                batch.count};
                            if (view.in == nullptr || view.out == nullptr) return false;
                            for (uint32_t i = 0; i < batch.count; ++i) loaded.task().run(loaded.tables(), view, i);
                            return true;
                        }});
}

Status SimDevice::record(StreamId stream, EventId& event) {
    {
        const std::lock_guard lock(mutex_);
        event = next_event_++;
        events_[event] = std::make_shared<std::atomic<bool>>(false);
    }
    return put(stream, {Operation::Kind::record, nullptr, event});
}

Status SimDevice::wait(StreamId stream, Device& of, EventId event) {
    auto& other = static_cast<SimDevice&>(of);
    std::shared_ptr<std::atomic<bool>> awaited;
    {
        const std::lock_guard lock(other.mutex_);
        const auto found = other.events_.find(event);
        if (found != other.events_.end()) awaited = found->second;
    }
    return awaited != nullptr ? put(stream, {Operation::Kind::wait, nullptr, event, awaited}) : Status::ok;
}

/// Counts an operation; whether a fault keeps it from being carried out, now or for ever.
bool SimDevice::goes_wrong(Operation::Kind kind) {
    ++operations_;
    if (kind == Operation::Kind::kernel && !breaks_down_) ++all().kernels;
    for (auto fault = faults_.begin(); fault != faults_.end(); ++fault) {
        if (operations_ <= fault->after_operations) continue;
        const bool hits = fault->kind == Fault::Kind::device_lost || fault->kind == Fault::Kind::slow ||
                          (fault->kind == Fault::Kind::copy_fails) == (kind == Operation::Kind::copy);
        if (!hits) continue;
        if (fault->kind == Fault::Kind::slow) {
            stalled_polls_ = fault->slow_polls;
        } else {
            state_ = fault->kind == Fault::Kind::device_lost ? Status::lost : Status::failed;
        }
        if (fault->kind != Fault::Kind::slow && !breaks_down_) ++all().faults_struck;
        faults_.erase(fault);
        return true;
    }
    return false;
}

bool SimDevice::step(StreamId stream) {
    std::deque<Operation>& queue = streams_[stream];
    if (queue.empty()) return false;
    Operation& operation = queue.front();
    if (operation.kind == Operation::Kind::wait) {
        if (!*operation.awaited) return false;
        queue.pop_front();
        return true;
    }
    if (operation.kind == Operation::Kind::await_sequence) {
        const auto through = [this](const SequencePoint& point) {
            return sequences_done_[point.place()] >= point.number();
        };
        if (!std::ranges::all_of(operation.after, through)) return false;
        queue.pop_front();
        return true;
    }
    if (operation.kind == Operation::Kind::record) {
        *events_.at(operation.event) = true;
        if (timed_[stream]) times_[operation.event] = steady_ns();
        queue.pop_front();
        return true;
    }
    if (goes_wrong(operation.kind)) return false;
    if (!operation.run()) {
        state_ = Status::failed;
        return false;
    }
    queue.pop_front();
    return true;
}

void SimDevice::advance() {
    if (stalled_polls_ > 0) {
        --stalled_polls_;
        return;
    }
    // A few operations of streams picked at random: what no event orders happens in any order. Of thousands, a share.
    size_t waiting = 0;
    for (const std::deque<Operation>& queue : streams_) waiting += queue.size();
    const unsigned share = static_cast<unsigned>(waiting / 64);
    const unsigned budget = options_.lag == 0 ? 1u << 30
                                              : 1 + share + static_cast<unsigned>(random_() % (2 * options_.lag));
    unsigned idle = 0;
    for (unsigned done = 0;
         done < budget && idle < 4 * streams_.size() && state_ == Status::ok && stalled_polls_ == 0;) {
        if (step(static_cast<StreamId>(random_() % streams_.size()))) {
            ++done;
            idle = 0;
        } else {
            ++idle;
        }
    }
}

Status SimDevice::query(EventId event) {
    const std::lock_guard lock(mutex_);
    if (state_ != Status::ok) return state_;
    const auto found = events_.find(event);
    if (found == events_.end()) return Status::ok;
    if (!*found->second) advance();
    if (state_ != Status::ok) return state_;
    if (!*found->second) return Status::pending;
    events_.erase(found);
    return Status::ok;
}

uint64_t SimDevice::time_ns(EventId event) {
    const std::lock_guard lock(mutex_);
    const auto found = times_.find(event);
    if (found == times_.end()) return 0;
    const uint64_t time = found->second;
    times_.erase(found);
    events_.erase(event);
    return time;
}

}  // namespace millrace::device::sim
