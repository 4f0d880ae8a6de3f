#include "lab/kernel_run.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include "lab/clock.hpp"
#include "millrace/base/running.hpp"
#include "millrace/device/batch_work.hpp"
#include "millrace/exec/transfer/transfer.hpp"
#include "millrace/io/receive_block.hpp"

namespace millrace::lab {
namespace {

using device::Address;
using device::Status;

constexpr unsigned kBatches = 8;  // under way at once, each on a stream of its own
constexpr size_t kAlign = 64;
constexpr size_t kAhead = size_t{4} << 20;  // bytes of a copy that gives the host time to put a batch's steps behind it
constexpr size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

}  // namespace

/// A batch with its memory on both sides: the pieces lie one behind the other as in the offload engine, its frames
/// having been staged. They stay there, so that its steps can run again.
class KernelRun::Batch {
public:
    Batch(device::Device& device, device::StreamId its_stream, const chain::Program& program,
          const io::TrafficFrames& frames, uint32_t count, const std::vector<device::StateArray>& states, size_t steps)
        : stream(its_stream), device_(device), chain_(program.name) {
        for (const chain::Node& node : program.nodes) functions_ += (functions_.empty() ? "" : ", ") + node.name;
        const uint32_t headroom = program.head_growth(), tailroom = program.tail_growth();
        size_t state_bytes = 0;
        for (const device::StateArray& state : states) state_bytes += state.bytes;
        std::vector<device::FrameDescriptor> descriptors(count);
        std::vector<uint64_t> staged(count);
        size_t frames_bytes = exec::first_frame(headroom, true), staging_bytes = 0;
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t length = frames.templates[i % frames.templates.size()].length;
            descriptors[i] = {static_cast<uint32_t>(frames_bytes), static_cast<uint16_t>(length),
                              static_cast<uint16_t>(length), 0, 0};
            frames_bytes += exec::frame_room(length, headroom, tailroom);
            staged[i] = staging_bytes;
            staging_bytes += (length + io::kFrameSpacing - 1) / io::kFrameSpacing * io::kFrameSpacing;
            packet_bytes += length;
        }
        const size_t head_at = aligned(count * sizeof(device::FrameDescriptor));
        const size_t counts_bytes = program.nodes.size() * device::kMaxOutcomes * sizeof(uint32_t);
        const size_t sources_at = aligned(head_at + sizeof(EventBuffer) + counts_bytes);
        const size_t staging_at = aligned(sources_at + count * sizeof(uint64_t));
        const size_t frames_at = aligned(staging_at + staging_bytes + io::FrameTemplate::kHeadBytes);
        const size_t results_at = aligned(frames_at + frames_bytes);
        const size_t snapshot_at = aligned(results_at + count * sizeof(device::PacketResult));
        const size_t events_at = aligned(snapshot_at + state_bytes);
        const size_t work_at = aligned(events_at + count * kEvents * sizeof(Event));
        const device::BatchWork work(count, device::WorkNeeds::of(program, true));
        const size_t times_at = aligned(work_at + work.bytes());
        input_bytes_ = frames_at;
        head_at_ = head_at;
        head_bytes_ = sources_at - head_at;
        back_at_ = frames_at;
        back_bytes_ = events_at - frames_at;
        times_bytes_ = steps * device::kPartCount * sizeof(uint64_t);
        memory_ = device_.allocate(times_at + times_bytes_ + kAhead, "a batch of the kernels' benchmark");
        times_at_ = memory_ + times_at;
        input_ = static_cast<uint8_t*>(device_.allocate_host(input_bytes_));
        const size_t most_back = std::max({head_bytes_ + back_bytes_, times_bytes_, kAhead});
        back_ = static_cast<uint8_t*>(device_.allocate_host(most_back));
        std::memset(input_, 0, input_bytes_);
        std::memset(back_, 0, most_back);
        std::memcpy(input_, descriptors.data(), count * sizeof(device::FrameDescriptor));
        for (uint32_t i = 0; i < count; ++i) {
            frames.write(i % frames.templates.size(), input_ + staging_at + staged[i]);
            staged[i] += memory_ + staging_at;
        }
        std::memcpy(input_ + sources_at, staged.data(), count * sizeof(uint64_t));
        auto& events = *reinterpret_cast<EventBuffer*>(input_ + head_at);
        events.events = at<Event>(events_at);
        events.capacity = program.emits_events() ? count * kEvents : 0;
        view.frames = at<uint8_t>(frames_at);
        view.sources = at<const uint64_t>(sources_at);
        view.staged = true;
        view.descriptors = at<device::FrameDescriptor>(0);
        view.events = at<EventBuffer>(head_at);
        view.outcome_counts = at<uint32_t>(head_at + sizeof(EventBuffer));
        view.results = at<device::PacketResult>(results_at);
        view.snapshot = at<uint32_t>(snapshot_at);
        work.place(view, at<uint8_t>(work_at));
        for (size_t i = 0; i < states.size(); ++i)
            view.states[i] = {reinterpret_cast<uint32_t*>(states[i].address), nullptr,
                              static_cast<uint32_t>(states[i].bytes / 4)};
        view.count = count;
        view.mean_bytes = static_cast<uint32_t>(packet_bytes / std::max<size_t>(count, 1));
        view.headroom = static_cast<uint16_t>(headroom);
        view.tailroom = static_cast<uint16_t>(tailroom);
    }
    ~Batch() {
        device_.free(memory_);
        device_.free_host(input_);
        device_.free_host(back_);
    }
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    void bring() { require(device_.copy_to_device(stream, memory_, input_, input_bytes_)); }
    void fetch() {
        require(device_.copy_to_host(stream, back_, memory_ + head_at_, head_bytes_));
        require(device_.copy_to_host(stream, back_ + head_bytes_, memory_ + back_at_, back_bytes_));
    }
    /// Something for the stream to do, while the host puts more behind it.
    void keep_busy() { require(device_.copy_to_device(stream, times_at_ + times_bytes_, back_, kAhead)); }
    void clear_times() {
        std::memset(back_, 0, times_bytes_);
        require(device_.copy_to_device(stream, times_at_, back_, times_bytes_));
    }
    void fetch_times() { require(device_.copy_to_host(stream, back_, times_at_, times_bytes_)); }
    const uint64_t* times(size_t step) const {
        return reinterpret_cast<const uint64_t*>(back_) + step * device::kPartCount;
    }
    uint64_t* device_times(size_t step) const {
        return reinterpret_cast<uint64_t*>(times_at_) + step * device::kPartCount;
    }
    void record() { require(device_.record(stream, done)); }
    void wait() {
        const Running running(functions_, chain_);
        Status status = Status::pending;
        while ((status = device_.query(done)) == Status::pending) {
        }
        require(status);
    }

    const device::StreamId stream;
    device::BatchView view;
    size_t packet_bytes = 0;
    device::EventId done = 0;

private:
    static constexpr uint32_t kEvents = 4;  // of a packet
    template <class T>
    T* at(size_t offset) const {
        return reinterpret_cast<T*>(memory_ + offset);
    }
    device::Device& device_;
    const std::string chain_;
    std::string functions_;  // of the chain
    Address memory_ = 0, times_at_ = 0;
    uint8_t *input_ = nullptr, *back_ = nullptr;
    size_t input_bytes_ = 0, head_at_ = 0, head_bytes_ = 0, back_at_ = 0, back_bytes_ = 0, times_bytes_ = 0;
};

KernelRun::KernelRun(device::Device& device) : device_(device) {
    for (unsigned i = 0; i < kBatches; ++i) streams_.push_back(device_.create_stream(true));
}

/// The next of the device's batches, whose ordered steps come behind those of the one before.
void KernelRun::number(device::BatchView& view) {
    device::OrderGate& gate = *device_.order_gate();
    const std::lock_guard lock(gate.mutex);
    view.sequence = ++gate.batches;
    view.numbered = true;
    for (size_t i = 0; i < sequences_.size(); ++i) view.after[i] = sequences_[i]->follow(view.sequence);
}

/// All steps of a batch.
void KernelRun::launch(Batch& batch, const device::LoadedProgram& loaded) {
    number(batch.view);
    for (size_t step = 0; step < loaded.steps().size(); ++step)
        require(device_.launch(batch.stream, loaded, step, batch.view));
}

std::vector<double> KernelRun::step_times(Batch& batch, const device::LoadedProgram& loaded,
                                          const KernelOptions& options, std::vector<std::vector<double>>* parts) {
    const size_t steps = loaded.steps().size();
    std::vector<double> sums(steps);
    if (parts != nullptr) parts->assign(steps, std::vector<double>(device::kPartCount));
    std::vector<device::EventId> events(steps + 1);
    unsigned rounds = 0;
    constexpr unsigned kWarmUp = 3;
    for (const auto begin = Clock::now();
         rounds < kWarmUp + 1 || (seconds_since(begin) < options.seconds && rounds < options.most_rounds); ++rounds) {
        batch.bring();
        if (parts != nullptr) batch.clear_times();
        batch.record();
        batch.wait();
        batch.keep_busy();
        number(batch.view);
        require(device_.record(batch.stream, events[0]));
        for (size_t i = 0; i < steps; ++i) {
            batch.view.part_times = parts != nullptr ? batch.device_times(i) : nullptr;
            require(device_.launch(batch.stream, loaded, i, batch.view));
            require(device_.record(batch.stream, events[i + 1]));
        }
        batch.view.part_times = nullptr;
        if (parts != nullptr) batch.fetch_times();
        batch.record();
        batch.wait();
        uint64_t before = device_.time_ns(events[0]);
        for (size_t i = 0; i < steps; ++i) {
            const uint64_t now = device_.time_ns(events[i + 1]);
            if (rounds >= kWarmUp) sums[i] += static_cast<double>(now - before);
            before = now;
            if (parts != nullptr && rounds >= kWarmUp)
                for (uint32_t part = 0; part < device::kPartCount; ++part)
                    (*parts)[i][part] += static_cast<double>(batch.times(i)[part]);
        }
    }
    for (double& sum : sums) sum /= rounds - kWarmUp;
    return sums;
}

double KernelRun::kernel_rate(const Batches& batches, const device::LoadedProgram& loaded,
                              const KernelOptions& options) {
    for (const auto& batch : batches) {
        batch->bring();
        batch->record();
    }
    const auto run_all = [&] {
        for (const auto& batch : batches) {
            batch->wait();
            launch(*batch, loaded);
            batch->record();
        }
    };
    run_all();  // warms up, and leaves all of them under way, as they are at the end
    uint64_t rounds = 0;
    const auto begin = Clock::now();
    for (; rounds == 0 || seconds_since(begin) < options.seconds; ++rounds) run_all();
    const double took = seconds_since(begin);
    for (const auto& batch : batches) batch->wait();
    return static_cast<double>(rounds * batches.size()) * options.batch / took;
}

double KernelRun::bus_rate(const Batches& batches, const device::LoadedProgram& loaded, const KernelOptions& options) {
    uint64_t started = 0;
    const auto begin = Clock::now();
    for (const auto& batch : batches) batch->record();
    while (started < 2 * batches.size() || seconds_since(begin) < options.seconds) {
        Batch& batch = *batches[started++ % batches.size()];
        batch.wait();
        batch.bring();
        launch(batch, loaded);
        batch.fetch();
        batch.record();
    }
    for (const auto& batch : batches) batch->wait();
    return static_cast<double>(started) * options.batch / seconds_since(begin);
}

KernelTimes KernelRun::measure(const std::shared_ptr<const chain::Program>& program, const io::TrafficFrames& frames,
                               const KernelOptions& options) {
    // A resident kernel's steps are those of fused.
    const device::Mode mode = options.mode == device::Mode::persistent ? device::Mode::fused : options.mode;
    const auto loaded = device_.load(program, device::plan_steps(*program, {.mode = mode}));
    const auto timed = device_.load(program, device::plan_steps(*program, {.mode = mode, .timed = true}));
    Batches batches;
    for (const device::StreamId stream : streams_)
        batches.push_back(std::make_unique<Batch>(device_, stream, *program, frames, options.batch, loaded->states(),
                                                  loaded->steps().size()));
    sequences_.clear();
    for (const uint16_t node : device::sequences_of(*program))
        sequences_.push_back(device_.order_gate()->sequence_of(program->nodes[node].nf->image()));
    KernelTimes times;
    times.batch = options.batch;
    times.frame_bytes = static_cast<double>(batches[0]->packet_bytes) / options.batch;
    const std::vector<double> steps = step_times(*batches[0], *loaded, options, nullptr);
    std::vector<std::vector<double>> laps;
    step_times(*batches[0], *timed, options, &laps);
    times.batch_us = std::accumulate(steps.begin(), steps.end(), 0.0) * 1e-3;
    const auto add = [&](const std::string& name, double ns) {
        const auto there = std::find_if(times.parts.begin(), times.parts.end(),
                                        [&](const auto& part) { return part.name == name; });
        if (there != times.parts.end()) there->ns_per_packet += ns / options.batch;
        else if (ns > 0) times.parts.push_back({name, ns / options.batch});
    };
    for (size_t i = 0; i < steps.size(); ++i) {
        const device::Step& step = loaded->steps()[i];
        const double whole = std::accumulate(laps[i].begin(), laps[i].end(), 0.0);
        if (whole == 0) {
            add(step_text(*program, step), steps[i]);
            continue;
        }
        add("scattering", steps[i] * laps[i][device::kScatterPart] / whole);
        add("sorting", steps[i] * laps[i][device::kSortPart] / whole);
        add("parsing", steps[i] * laps[i][device::kBeginPart] / whole);
        for (uint16_t stage = step.first; stage < step.last; ++stage)
            add(program->nodes[program->stage(stage).first].name, steps[i] * laps[i][stage] / whole);
        add("results", steps[i] * laps[i][device::kEndPart] / whole);
    }
    times.kernel_rate = kernel_rate(batches, *loaded, options);
    times.bus_rate = bus_rate(batches, *loaded, options);
    return times;
}

}  // namespace millrace::lab
