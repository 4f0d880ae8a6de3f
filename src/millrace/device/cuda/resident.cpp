#include "millrace/device/cuda/resident.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

#include "millrace/device/communication_list.hpp"
#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/device/order_gate.hpp"

namespace millrace::device::cuda {
namespace {

constexpr size_t kMeetingBytes = kMaxTeams * sizeof(ResidentMeeting);
/// Of one team. More blocks give small batches nothing.
constexpr unsigned kMaxBlocks = 4;
/// The share of what is free that one kernel takes, so that there is something left for others, and for the next
/// generation.
constexpr unsigned kShare = 6;
/// A kernel that is told to end has at most its list to work through.
constexpr std::chrono::seconds kPatience{3};
/// A kernel ends by itself when the host has not been heard of for so long.
constexpr std::chrono::nanoseconds kLonely = std::chrono::seconds(5);
constexpr std::chrono::milliseconds kBeat{200};

}  // namespace

class ResidentKernels::Kernel : public Resident {
public:
    Kernel(ResidentKernels& all, std::shared_ptr<LoadedProgram> program, const ResidentFunction& function,
           const Place& place, unsigned teams, unsigned blocks)
        : all_(all), program_(std::move(program)), function_(function), place_(place), blocks_(blocks),
          list_(place.entries, place.depth, teams) {}
    ~Kernel() override { all_.end(*this); }

    Status submit(const ResidentBatch& batch, uint64_t& number) override {
        const std::lock_guard lock(all_.posting_);
        number = list_.submit(batch);
        return all_.device_.state();
    }

    Status query(uint64_t number) override {
        if (list_.done(number)) {
            list_.release(number);
            return Status::ok;
        }
        // The driver is asked now and then whether the kernel is still there: that takes longer than a look at the
        // list.
        constexpr unsigned kAskEvery = 256;
        if (++asked_ % kAskEvery != 0) return Status::pending;
        const std::unique_lock lock(all_.mutex_, std::try_to_lock);
        if (!lock.owns_lock()) return Status::pending;
        const Status status = update();
        if (status != Status::ok) return status;
        if (list_.done(number)) return Status::pending;
        if (stopped_) return Status::lost;
        spdlog::warn("{}: {} has ended, as it had not heard of this program for {} s; it is started again",
                     all_.device_.describe(), *function_.name,
                     std::chrono::duration_cast<std::chrono::seconds>(kLonely).count());
        const Status launched = launch();
        return launched == Status::ok ? Status::pending : launched;
    }

    void stop() override {
        stopped_ = true;
        end_before(0);
    }

    /// Lets it end before that batch; at once when it has been stopped, which another thread may do meanwhile.
    void end_before(uint64_t number) {
        std::atomic_ref until(place_.control->until);
        until.store(number);
        if (stopped_) until.store(0);
    }
    void end_behind_list() { end_before(list_.posted()); }

    /// ok when it has ended.
    Status update() {
        all_.device_.enter();
        const Result result = all_.driver_.stream_query(stream());
        return result == kNotReady ? Status::pending
                                   : all_.device_.check(result, "a resident kernel stopped", place_.stream);
    }

    /// Nothing if it has been stopped.
    Status launch() {
        end_before(~uint64_t{0});
        if (stopped_) return Status::ok;
        {
            const std::lock_guard lock(all_.posting_);
            for (unsigned team = 0; team < list_.teams(); ++team) place_.control->first[team] = list_.first_of(team);
        }
        ResidentList list{place_.entries,
                          place_.control,
                          all_.heartbeat_,
                          reinterpret_cast<ResidentMeeting*>(place_.meetings),
                          static_cast<uint64_t>(kLonely.count()),
                          place_.depth,
                          list_.teams(),
                          function_.least_packets};
        void* parameters[] = {&list, function_.tables};
        all_.device_.enter();
        Result result = all_.driver_.copy_to_device_async(place_.meetings, place_.zeros, kMeetingBytes, stream());
        if (result == kSuccess)
            result = all_.driver_.launch(function_.function, blocks_, 1, 1, function_.threads, 1, 1,
                                         function_.block_bytes, stream(), parameters, nullptr);
        all_.device_.streams_[place_.stream]->launching(*function_.name);
        return all_.device_.check(result, "a resident kernel can't be launched", place_.stream);
    }

    const Place& place() const { return place_; }
    unsigned blocks() const { return blocks_; }
    const std::string& name() const { return *function_.name; }

private:
    Stream stream() const { return all_.device_.streams_[place_.stream]->stream; }

    ResidentKernels& all_;
    const std::shared_ptr<LoadedProgram> program_;
    const ResidentFunction function_;
    const Place place_;
    const unsigned blocks_;
    CommunicationList list_;
    unsigned asked_ = 0;
    std::atomic<bool> stopped_{false};
};

void ResidentKernels::close() {
    if (heart_.joinable()) {
        {
            const std::lock_guard lock(heart_mutex_);
            heart_stopped_ = true;
        }
        heart_stops_.notify_all();
        heart_.join();
    }
    for (const Place& place : free_places_) {
        device_.free_host(place.entries);
        device_.free(place.meetings);
    }
    free_places_.clear();
    if (heartbeat_ != nullptr) device_.free_host(std::exchange(heartbeat_, nullptr));
}

void ResidentKernels::beat() {
    std::unique_lock lock(heart_mutex_);
    while (!heart_stops_.wait_for(lock, kBeat, [this] { return heart_stopped_; }))
        std::atomic_ref(*heartbeat_).fetch_add(1, std::memory_order_relaxed);
}

ResidentKernels::Place ResidentKernels::take_place(unsigned depth) {
    const auto found = std::find_if(free_places_.begin(), free_places_.end(),
                                    [&](const Place& place) { return place.depth == depth; });
    if (found != free_places_.end()) {
        const Place place = *found;
        free_places_.erase(found);
        return place;
    }
    Place place;
    place.depth = depth;
    auto* memory = static_cast<uint8_t*>(
        device_.allocate_host(depth * sizeof(ResidentEntry) + sizeof(ResidentControl) + kMeetingBytes));
    place.entries = reinterpret_cast<ResidentEntry*>(memory);
    place.control = reinterpret_cast<ResidentControl*>(memory + depth * sizeof(ResidentEntry));
    memory += depth * sizeof(ResidentEntry) + sizeof(ResidentControl);
    std::memset(memory, 0, kMeetingBytes);
    place.zeros = memory;
    place.meetings = device_.allocate(kMeetingBytes, "a resident kernel");
    place.stream = device_.create_stream(false);
    return place;
}

std::shared_ptr<Resident> ResidentKernels::start(std::shared_ptr<LoadedProgram> program,
                                                 const ResidentFunction& function, unsigned depth) {
    // The first launch of a kernel may wait for others, too.
    const Pause pause(*this);
    const auto most_blocks = static_cast<unsigned>(device_.multiprocessors_ - device_.multiprocessors_ / 4);
    if (blocks_ >= most_blocks)
        throw DeviceError(fmt::format(
            "{}: no room for a resident kernel besides {} others: fewer workers or chains, or another --mode",
            device_.describe(), kernels_.size()));
    if (heartbeat_ == nullptr) {
        heartbeat_ = static_cast<uint32_t*>(device_.allocate_host(sizeof *heartbeat_));
        *heartbeat_ = 0;
        heart_ = std::thread([this] { beat(); });
    }
    const unsigned share = std::max((most_blocks - blocks_) / kShare, 1u);
    // Batches change state per key one after the other: all of its blocks work on one.
    const bool together = program->program().keyed();
    const unsigned teams = together ? 1 : std::min({depth, kMaxTeams, share}),
                   blocks = teams * std::min(share / teams, together ? kMaxTeams * kMaxBlocks : kMaxBlocks);
    auto kernel = std::make_shared<Kernel>(*this, std::move(program), function, take_place(depth), teams, blocks);
    blocks_ += blocks;
    kernels_.push_back(kernel.get());
    return kernel;  // the end of the pause starts it
}

void ResidentKernels::end(Kernel& kernel) {
    const std::lock_guard lock(mutex_);
    kernel.stop();
    std::erase(kernels_, &kernel);
    // One that does not end keeps what it has.
    if (pauses_ == 0 && !await_end({&kernel})) return;
    blocks_ -= kernel.blocks();
    free_places_.push_back(kernel.place());
}

/// Waits for kernels that have been told to end.
bool ResidentKernels::await_end(const std::vector<Kernel*>& kernels) {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    for (Kernel* kernel : kernels) {
        while (!stuck_ && kernel->update() == Status::pending) {
            if (std::chrono::steady_clock::now() < until) continue;
            stuck_ = true;
            spdlog::error("{}: {} does not end; the GPU is given up", device_.describe(), kernel->name());
            device_.state_ = Status::lost;
            return false;
        }
    }
    return !stuck_;
}

void ResidentKernels::pause() {
    if (pauses_++ > 0) return;
    // Whoever gave the GPU up waits for its batches no more; kernels that wait for each other still would.
    if (device_.order_gate()->broken) device_.end_waiting_kernels();
    device_.order_gate()->launching.lock();
    {
        const std::lock_guard lock(posting_);
        for (Kernel* kernel : kernels_) kernel->end_behind_list();
    }
    await_end(kernels_);
}

void ResidentKernels::resume() {
    if (--pauses_ > 0) return;
    device_.order_gate()->launching.unlock();
    if (stuck_) return;
    for (Kernel* kernel : kernels_)
        if (device_.state() == Status::ok) kernel->launch();
}

ResidentKernels::Pause::Pause(ResidentKernels& kernels) : kernels_(kernels), lock_(kernels.mutex_) { kernels_.pause(); }
ResidentKernels::Pause::~Pause() { kernels_.resume(); }

}  // namespace millrace::device::cuda
