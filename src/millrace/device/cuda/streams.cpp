// What is put on a GPU's streams, and how the host learns that it is done.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/device/cuda/loaded.hpp"

namespace millrace::device::cuda {
namespace {

// Numbers of flags, as the manual of the driver API gives them.
constexpr unsigned kEventDisableTiming = 2;
constexpr unsigned kMemoryHost = 1, kMemoryDevice = 2;

uint64_t steady_ns() {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

Copy2D rows_of(size_t source_pitch, size_t target_pitch, size_t width, size_t rows) {
    Copy2D copy;
    copy.source_pitch = source_pitch;
    copy.target_pitch = target_pitch;
    copy.width_bytes = width;
    copy.height = rows;
    return copy;
}

}  // namespace

StreamId CudaDevice::create_stream(bool timed) {
    const std::lock_guard lock(mutex_);
    enter();
    if (stream_count_ == kMaxStreams) throw DeviceError(describe() + ": too many streams");
    auto state = std::make_unique<StreamState>();
    state->multiprocessors = static_cast<uint32_t>(multiprocessors_);
    Result result = partitions_.create_stream(&state->stream, {});
    for (DriverEvent& event : state->events)
        if (result == kSuccess) result = driver_.event_create(&event, timed ? 0 : kEventDisableTiming);
    if (result == kSuccess && timed) result = make_anchor(*state);
    state->word = words_ + stream_count_ * kWordLine;
    if (result == kSuccess && writes_words_) {
        result = driver_.stream_write(state->stream, reinterpret_cast<DevicePointer>(state->word), 0, 0);
        if (result == kNotSupported) {
            writes_words_ = false;
            result = kSuccess;
        }
    }
    if (result != kSuccess) throw DeviceError(fmt::format("{}: no stream: {}", describe(), driver_.text(result)));
    streams_[stream_count_] = std::move(state);
    return static_cast<StreamId>(stream_count_++);
}

bool CudaDevice::partitioned(Result result, schedule::SmRange sms) {
    if (result == kSuccess) return true;
    if (!lacks_partitions_.exchange(true))
        spdlog::warn("{}: no partition of {} multiprocessors: {}; chains and tenants share all of them", describe(),
                     sms.count, driver_.text(result));
    return false;
}

schedule::Gpu CudaDevice::partitions() {
    enter();
    return partitions_.grid().value_or(schedule::partitions_of(static_cast<uint32_t>(multiprocessors_)));
}

void CudaDevice::prepare(schedule::SmRange sms) {
    if (state_ != Status::ok || sms.all()) return;
    enter();
    partitioned(partitions_.prepare(sms), sms);
}

void CudaDevice::move_stream(StreamId stream, schedule::SmRange sms) {
    if (state_ != Status::ok) return;
    enter();
    Stream moved = nullptr;
    schedule::SmRange on = sms;
    Result result = partitions_.create_stream(&moved, on);
    if (!partitioned(result, on)) result = partitions_.create_stream(&moved, on = {});
    if (result != kSuccess) {
        check(result, "a stream can't be made", stream);
        return;
    }
    StreamState& state = *streams_[stream];
    driver_.stream_destroy(std::exchange(state.stream, moved));
    state.multiprocessors = on.all() ? static_cast<uint32_t>(multiprocessors_) : on.count;
}

/// An event of the stream that has come at a time that the host knows to a few microseconds.
Result CudaDevice::make_anchor(StreamState& state) const {
    Result result = driver_.event_create(&state.anchor, 0);
    if (result == kSuccess) result = driver_.event_record(state.anchor, state.stream);
    while (result == kSuccess && (result = driver_.event_query(state.anchor)) == kNotReady) result = kSuccess;
    state.anchor_ns = steady_ns();
    return result;
}

Result CudaDevice::put_copy_in(StreamId stream, DevicePointer to, const void* from, size_t bytes) {
    return driver_.copy_to_device_async(to, from, bytes, streams_[stream]->stream);
}

Result CudaDevice::put_copy_out(StreamId stream, void* to, DevicePointer from, size_t bytes) {
    return driver_.copy_to_host_async(to, from, bytes, streams_[stream]->stream);
}

Result CudaDevice::put_rows(StreamId stream, const Copy2D& rows) {
    return driver_.copy_2d_async(&rows, streams_[stream]->stream);
}

Result CudaDevice::put_kernel(StreamId stream, const KernelCall& kernel, BatchView& view, void* second) {
    void* parameters[] = {&view, second};
    return driver_.launch(kernel.function, kernel.grid_x, 1, 1, kernel.block_x, 1, 1, kernel.shared_bytes,
                          streams_[stream]->stream, parameters, nullptr);
}

Result CudaDevice::put_record(StreamId stream, DriverEvent event) {
    return driver_.event_record(event, streams_[stream]->stream);
}

Result CudaDevice::put_word(StreamId stream, DevicePointer word, uint32_t value) {
    return driver_.stream_write(streams_[stream]->stream, word, value, 0);
}

Result CudaDevice::put_wait(StreamId stream, DriverEvent event, bool) {
    return driver_.stream_wait(streams_[stream]->stream, event, 0);
}

Status CudaDevice::copy_to_device(StreamId stream, Address to, const void* from, size_t bytes) {
    if (state_ != Status::ok || bytes == 0) return state_;
    enter();
    return check(put_copy_in(stream, to, from, bytes), "a copy to the GPU fails", stream);
}

Status CudaDevice::copy_to_host(StreamId stream, void* to, Address from, size_t bytes) {
    if (state_ != Status::ok || bytes == 0) return state_;
    enter();
    return check(put_copy_out(stream, to, from, bytes), "a copy from the GPU fails", stream);
}

Status CudaDevice::copy_rows(StreamId stream, const Copy2D& rows, const char* what) {
    if (state_ != Status::ok || rows.width_bytes == 0 || rows.height == 0) return state_;
    enter();
    return check(put_rows(stream, rows), what, stream);
}

Status CudaDevice::copy_rows_to_device(StreamId stream, Address to, size_t to_pitch, const void* from,
                                       size_t from_pitch, size_t width, size_t rows) {
    Copy2D copy = rows_of(from_pitch, to_pitch, width, rows);
    copy.source_kind = kMemoryHost;
    copy.source_host = from;
    copy.target_kind = kMemoryDevice;
    copy.target_device = to;
    return copy_rows(stream, copy, "a copy of rows to the GPU fails");
}

Status CudaDevice::copy_rows_to_host(StreamId stream, void* to, size_t to_pitch, Address from, size_t from_pitch,
                                     size_t width, size_t rows) {
    Copy2D copy = rows_of(from_pitch, to_pitch, width, rows);
    copy.source_kind = kMemoryDevice;
    copy.source_device = from;
    copy.target_kind = kMemoryHost;
    copy.target_host = to;
    return copy_rows(stream, copy, "a copy of rows from the GPU fails");
}

Status CudaDevice::launch(StreamId stream, const LoadedProgram& program, size_t step, const BatchView& batch) {
    if (state_ != Status::ok || batch.count == 0) return state_;
    enter();
    const auto& loaded = static_cast<const Loaded&>(program);
    const Loaded::Launch& launch = loaded.launch(step, batch.mean_bytes, batch.count);
    BatchView view = batch;
    view.block_packets = launch.block_packets(batch, streams_[stream]->multiprocessors);
    view.sequencer = reinterpret_cast<Sequencer*>(sequencer_);
    view.given_up = words_ + kMaxStreams * kWordLine;
    unsigned blocks = launch.packets == 0 ? 1 : (batch.count + view.block_packets - 1) / view.block_packets;
    // Few read from the host at a time, see gather_frame.
    if (launch.most_blocks != 0) blocks = std::min(blocks, launch.most_blocks);
    streams_[stream]->launching(*launch.name);
    KernelCall kernel;
    kernel.function = launch.function;
    kernel.grid_x = blocks;
    kernel.block_x = launch.threads;
    kernel.shared_bytes = launch.block_bytes;
    return check(put_kernel(stream, kernel, view, loaded.tables()), "a kernel can't be launched", stream);
}

Status CudaDevice::launch(StreamId stream, const LoadedTask& task, const TaskBatch& batch) {
    if (state_ != Status::ok || batch.count == 0) return state_;
    enter();
    const auto& loaded = static_cast<const TaskLoaded&>(task);
    streams_[stream]->launching(loaded.name());
    return check(loaded.launch(batch, streams_[stream]->stream), "a task can't be launched", stream);
}

// An event is its stream and its number there.
constexpr unsigned kNumberBits = 48;

EventId CudaDevice::event_id(StreamId stream, uint64_t number) { return (EventId{stream} + 1) << kNumberBits | number; }

DriverEvent CudaDevice::driver_event(EventId event) const {
    const StreamState& state = *streams_[(event >> kNumberBits) - 1];
    return state.events[event & (StreamState::kEvents - 1)];
}

Status CudaDevice::record(StreamId stream, EventId& event) {
    if (state_ != Status::ok) return state_;
    enter();
    StreamState& state = *streams_[stream];
    event = event_id(stream, state.next);
    const uint64_t place = state.next++ & (StreamState::kEvents - 1);
    state.launches_before[place] = state.launches;
    state.by_word[place] = false;
    const DriverEvent own = state.events[place];
    return check(put_record(stream, own), "an event can't be recorded", stream);
}

/// The stream writes the event's number into the host's memory, where to look costs nothing and keeps the driver from
/// nobody.
Status CudaDevice::announce(StreamId stream, EventId& event) {
    StreamState& state = *streams_[stream];
    if (state.anchor != nullptr || !writes_words_) return record(stream, event);
    if (state_ != Status::ok) return state_;
    enter();
    const auto word = reinterpret_cast<DevicePointer>(state.word);
    const auto value = static_cast<uint32_t>(state.next + 1);
    event = event_id(stream, state.next);
    const uint64_t place = state.next++ & (StreamState::kEvents - 1);
    state.launches_before[place] = state.launches;
    state.by_word[place] = true;
    state.asked_ns = steady_ns();
    return check(put_word(stream, word, value), "the end of a batch can't be announced", stream);
}

Status CudaDevice::wait(StreamId stream, Device& of, EventId event) {
    if (state_ != Status::ok) return state_;
    enter();
    const DriverEvent other = static_cast<CudaDevice&>(of).driver_event(event);
    return check(put_wait(stream, other, &of != this), "a stream can't wait", stream);
}

Status CudaDevice::query(EventId event) {
    if (state_ != Status::ok) return state_;
    // Threads that ask all the time keep the driver from those that have batches for it: it takes one at a time.
    constexpr uint64_t kBetweenQuestions = 1500;
    StreamState& state = *streams_[(event >> kNumberBits) - 1];
    if (state.by_word[event & (StreamState::kEvents - 1)]) return query_word(event);
    const uint64_t now = steady_ns();
    if (now - state.asked_ns < kBetweenQuestions) return Status::pending;
    enter();
    const Result result = driver_.event_query(driver_event(event));
    if (result == kNotReady) {
        state.asked_ns = now;
        return Status::pending;
    }
    if (result == kSuccess) state.launches_done = state.launches_before[event & (StreamState::kEvents - 1)];
    return check(result, "the GPU stopped", static_cast<StreamId>((event >> kNumberBits) - 1));
}

Status CudaDevice::query_word(EventId event) {
    // A stream that has stopped writes nothing: now and then the driver is asked what has become of it.
    constexpr uint64_t kBetweenQuestions = 200'000;
    const auto stream = static_cast<StreamId>((event >> kNumberBits) - 1);
    StreamState& state = *streams_[stream];
    const auto value = static_cast<uint32_t>(event + 1);
    if (static_cast<int32_t>(std::atomic_ref(*state.word).load(std::memory_order_acquire) - value) < 0) {
        const uint64_t now = steady_ns();
        if (now - state.asked_ns < kBetweenQuestions) return Status::pending;
        state.asked_ns = now;
        enter();
        const Result result = driver_.stream_query(state.stream);
        if (result == kNotReady) return Status::pending;
        if (result != kSuccess) return check(result, "the GPU stopped", stream);
    }
    state.launches_done = state.launches_before[event & (StreamState::kEvents - 1)];
    return Status::ok;
}

uint64_t CudaDevice::time_ns(EventId event) {
    StreamState& state = *streams_[(event >> kNumberBits) - 1];
    if (state_ != Status::ok || state.anchor == nullptr) return 0;
    enter();
    DriverEvent& own = state.events[event & (StreamState::kEvents - 1)];
    float milliseconds = 0;
    if (driver_.event_elapsed(&milliseconds, state.anchor, own) != kSuccess) return 0;
    const uint64_t time = state.anchor_ns + static_cast<uint64_t>(static_cast<double>(milliseconds) * 1e6);
    // A float counts long times coarsely: the event takes the anchor's place.
    constexpr float kLong = 100;
    if (milliseconds > kLong) {
        std::swap(state.anchor, own);
        state.anchor_ns = time;
    }
    return time;
}

}  // namespace millrace::device::cuda
