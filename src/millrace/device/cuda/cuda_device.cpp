#include "millrace/device/cuda/cuda_device.hpp"

#include "millrace/device/cuda/loaded.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>

namespace millrace::device::cuda {
namespace {

// Numbers of CUdevice_attribute and of flags, as the manual of the driver API gives them.
constexpr int kMultiprocessors = 16;
constexpr int kComputeMajor = 75, kComputeMinor = 76;
constexpr int kCanUseHostPointer = 91;
constexpr unsigned kHostPortable = 1, kHostMapped = 2;

constexpr int kOldestMajor = 7;

/// Errors after which the GPU is not there any more, rather than a program of ours gone wrong.
bool is_gone(Result result) {
    constexpr Result kDeviceUnavailable = 46, kNoDevice = 100, kInvalidDevice = 101, kContextDestroyed = 709,
                     kSystemNotReady = 802;
    return result == kDeviceUnavailable || result == kNoDevice || result == kInvalidDevice ||
           result == kContextDestroyed || result == kSystemNotReady;
}

const Driver& require_driver() {
    std::string why;
    const Driver* driver = Driver::get(&why);
    if (driver == nullptr)
        throw DeviceError("device cuda: " + why + "; `millrace doctor` shows what this machine offers");
    return *driver;
}

}  // namespace

int CudaDevice::count(std::string* why) {
    const Driver* driver = Driver::get(why);
    int count = 0;
    if (driver == nullptr) return 0;
    if (const Result result = driver->device_count(&count); result != kSuccess) {
        if (why != nullptr) *why = driver->text(result);
        return 0;
    }
    if (count == 0 && why != nullptr) *why = "the CUDA driver sees no GPU";
    return count;
}

std::string CudaDevice::model_of(unsigned ordinal) {
    if (static_cast<int>(ordinal) >= count()) return {};
    const Driver& driver = *Driver::get();
    DeviceOrdinal device = 0;
    char name[128] = {};
    const bool known = driver.device_get(&device, static_cast<int>(ordinal)) == kSuccess &&
                       driver.device_name(name, sizeof name, device) == kSuccess;
    return known ? name : "";
}

unsigned CudaDevice::multiprocessors_of(unsigned ordinal) {
    if (static_cast<int>(ordinal) >= count()) return 0;
    const Driver& driver = *Driver::get();
    DeviceOrdinal device = 0;
    int multiprocessors = 0;
    const bool known = driver.device_get(&device, static_cast<int>(ordinal)) == kSuccess &&
                       driver.device_attribute(&multiprocessors, kMultiprocessors, device) == kSuccess;
    return known ? static_cast<unsigned>(multiprocessors) : 0;
}

CudaDevice::CudaDevice(CudaOptions options)
    : driver_(require_driver()), options_(std::move(options)), kernels_(options_.kernels) {
    std::string why;
    const int there = count(&why);
    if (options_.ordinal < 0 || options_.ordinal >= there)
        throw DeviceError(there == 0
                              ? "device cuda: " + why
                              : fmt::format("device cuda:{}: there is none; this machine has {}, numbered from 0",
                                            options_.ordinal, there));
    const auto require = [&](Result result, const char* what) {
        if (result != kSuccess)
            throw DeviceError(fmt::format("device cuda:{}: {}: {}", options_.ordinal, what, driver_.text(result)));
    };
    require(driver_.device_get(&device_, options_.ordinal), "it does not answer");
    char name[128] = {};
    require(driver_.device_name(name, sizeof name, device_), "it does not say its name");
    name_ = name;
    int major = 0, minor = 0, host_pointers = 0;
    require(driver_.device_attribute(&major, kComputeMajor, device_), "it does not say its compute capability");
    require(driver_.device_attribute(&minor, kComputeMinor, device_), "it does not say its compute capability");
    require(driver_.device_attribute(&host_pointers, kCanUseHostPointer, device_),
            "it does not say how it reaches host memory");
    require(driver_.device_attribute(&multiprocessors_, kMultiprocessors, device_),
            "it does not say how many multiprocessors it has");
    if (major < kOldestMajor)
        throw DeviceError(fmt::format("device cuda:{}: {} has compute capability {}.{}; 7.0 is the least",
                                      options_.ordinal, name_, major, minor));
    if (host_pointers == 0)
        throw DeviceError(fmt::format("device cuda:{}: {} can't read pinned host memory at the host's addresses",
                                      options_.ordinal, name_));
    architecture_ = fmt::format("sm_{}{}", major, minor);
    require(driver_.device_memory(&memory_bytes_, device_), "it does not say how much memory it has");
    require(driver_.context_retain(&context_, device_), "no context can be made on it");
    enter();
    partitions_.open(device_);
    void* words = nullptr;
    if (const Result result = driver_.host_allocate(&words, (kMaxStreams + 1) * kWordLine * sizeof(uint32_t),
                                                    kHostPortable | kHostMapped);
        result != kSuccess) {
        driver_.context_release(device_);
        require(result, "no pinned host memory");
    }
    words_ = static_cast<uint32_t*>(words);
    std::fill_n(words_, (kMaxStreams + 1) * kWordLine, 0u);
    try {
        sequencer_ = allocate(sizeof(Sequencer), "sequences");
    } catch (...) {
        driver_.host_free(words_);
        driver_.context_release(device_);
        throw;
    }
}

CudaDevice::~CudaDevice() {
    enter();
    resident_.close();
    // A kernel that does not end would keep all of this waiting for ever.
    if (const ResidentKernels::Pause pause(resident_); !pause) return;
    for (size_t i = 0; i < stream_count_; ++i) {
        for (const DriverEvent event : streams_[i]->events) driver_.event_destroy(event);
        if (streams_[i]->anchor != nullptr) driver_.event_destroy(streams_[i]->anchor);
        driver_.stream_destroy(streams_[i]->stream);
    }
    partitions_.close();
    for (const Spare& spare : spares_) free(spare.address);
    free(sequencer_);
    modules_.clear();
    driver_.host_free(words_);
    driver_.context_release(device_);
}

/// The driver's calls go to the context that the calling thread has made its own.
void CudaDevice::enter() const {
    static thread_local Context current = nullptr;
    if (current == context_) return;
    driver_.context_set(context_);
    current = context_;
}

std::string CudaDevice::describe() const {
    return fmt::format("{} (cuda:{}, {}, {} GiB)", name_, options_.ordinal, architecture_, memory_bytes_ >> 30);
}

std::string CudaDevice::bus_id() const {
    char text[32] = {};
    return driver_.device_bus_id(text, sizeof text, device_) == kSuccess ? text : "";
}

/// Says once what went wrong, and with what under way.
Status CudaDevice::check(Result result, const char* what, StreamId stream) {
    if (result == kSuccess) return Status::ok;
    Status expected = Status::ok;
    if (!state_.compare_exchange_strong(expected, is_gone(result) ? Status::lost : Status::failed)) return expected;
    end_waiting_kernels();
    // The stream that the error was met on first; kernels of others may have run as well.
    std::string running;
    for (size_t i = 0; i < stream_count_; ++i) {
        const StreamState& state = *streams_[(stream + i) % stream_count_];
        const uint64_t launches = state.launches, kept = launches - std::min(launches, StreamState::kLaunches);
        for (uint64_t k = std::max(state.launches_done.load(), kept); k < launches; ++k)
            if (const std::string& name = *state.launched[k % StreamState::kLaunches].load();
                running.find(name) == std::string::npos)
                running += (running.empty() ? "" : "; ") + name;
    }
    spdlog::error("{}: {}: {}; under way: {}", describe(), what, driver_.text(result),
                  running.empty() ? "no kernel" : running);
    return state_;
}

Address CudaDevice::allocate(size_t bytes, const std::string& what) {
    enter();
    DevicePointer address = 0;
    const size_t whole = std::max<size_t>(bytes, 1);
    const ResidentKernels::Pause pause(resident_);
    if (!pause) throw DeviceError(fmt::format("{}: no memory for {}: the GPU does not answer", describe(), what));
    Result result = driver_.allocate(&address, whole);
    // What another program has left in it must not travel with a batch, in the gaps between frames.
    if (result == kSuccess) result = driver_.clear(address, 0, whole);
    if (result == kSuccess) result = driver_.stream_synchronize(nullptr);  // our streams would not wait for it
    if (result == kSuccess) return address;
    if (address != 0) driver_.free(address);
    size_t free_bytes = 0, total = 0;
    driver_.memory_info(&free_bytes, &total);
    throw DeviceError(fmt::format("{}: no {} MiB for {} ({} MiB are free): {}", describe(), (bytes >> 20) + 1, what,
                                  free_bytes >> 20, driver_.text(result)));
}

void CudaDevice::free(Address address) {
    enter();
    if (const ResidentKernels::Pause pause(resident_); pause) driver_.free(address);
}

void* CudaDevice::allocate_host(size_t bytes) {
    enter();
    void* memory = nullptr;
    const ResidentKernels::Pause pause(resident_);
    if (!pause) throw DeviceError(describe() + ": no pinned host memory: the GPU does not answer");
    const Result result = driver_.host_allocate(&memory, std::max<size_t>(bytes, 1), kHostPortable | kHostMapped);
    if (result != kSuccess)
        throw DeviceError(fmt::format("{}: no {} MiB of pinned host memory: {}", describe(), (bytes >> 20) + 1,
                                      driver_.text(result)));
    return memory;
}

void CudaDevice::free_host(void* memory) {
    enter();
    if (const ResidentKernels::Pause pause(resident_); pause) driver_.host_free(memory);
}

bool CudaDevice::pin(void* memory, size_t bytes) {
    enter();
    const ResidentKernels::Pause pause(resident_);
    if (!pause) return false;
    const Result result = driver_.host_register(memory, bytes, kHostPortable | kHostMapped);
    constexpr Result kAlreadyRegistered = 712;
    if (result == kSuccess || result == kAlreadyRegistered) return true;
    spdlog::warn("{}: {} MiB of packet memory can't be pinned: {}; frames are copied once more", describe(),
                 bytes >> 20, driver_.text(result));
    return false;
}

void CudaDevice::unpin(void* memory) {
    enter();
    if (const ResidentKernels::Pause pause(resident_); pause) driver_.host_unregister(memory);
}

std::shared_ptr<LoadedProgram> CudaDevice::load(std::shared_ptr<const chain::Program> program,
                                                std::vector<Step> steps) {
    const std::lock_guard lock(mutex_);
    enter();
    // Every worker asks for the same.
    std::erase_if(loaded_, [](const auto& one) { return one.expired(); });
    for (const auto& one : loaded_)
        if (auto there = one.lock(); there != nullptr && &there->program() == program.get() && there->steps() == steps)
            return there;
    auto loaded = std::make_shared<Loaded>(*this, std::move(program), std::move(steps));
    loaded_.push_back(loaded);
    return loaded;
}

std::shared_ptr<Resident> CudaDevice::start_resident(std::shared_ptr<LoadedProgram> program, unsigned depth) {
    const std::lock_guard lock(mutex_);
    enter();
    const ResidentFunction function = static_cast<const Loaded&>(*program).resident();
    return resident_.start(std::move(program), function, depth);
}

std::shared_ptr<LoadedTask> CudaDevice::load(const Task& task, const nf::Image& image) {
    const std::lock_guard lock(mutex_);
    enter();
    return std::make_shared<TaskLoaded>(*this, task, image);
}

CudaDevice::Spare CudaDevice::take_room(const nf::Image::Array& array) {
    // What may come back with few changes is taken last.
    const auto worth = [](const Spare& spare) { return std::pair(spare.revision != 0, spare.room); };
    auto best = spares_.end();
    for (auto spare = spares_.begin(); spare != spares_.end(); ++spare)
        if (spare->room >= array.bytes && spare->room / 2 <= array.bytes &&
            (best == spares_.end() || worth(*spare) < worth(*best)))
            best = spare;
    if (best != spares_.end()) {
        const Spare taken = *best;
        spares_.erase(best);
        return taken;
    }
    // A generation is seldom larger than the one before by more than that.
    const size_t room = array.bytes + array.bytes / 8;
    return {allocate(room, array.is_state() ? "state '" + array.state_name + "'" : "tables"), room};
}

std::optional<CudaDevice::Spare> CudaDevice::take_former(const nf::Image::Array& array) {
    const nf::Revision* const revision = array.revision.get();
    if (revision == nullptr || revision->before == 0 || revision->changed.size() > kMaxPieces ||
        revision->changed_bytes() > array.bytes / 2)
        return std::nullopt;
    const auto found = std::ranges::find_if(spares_, [&](const Spare& spare) {
        return spare.data == array.data && spare.revision == revision->before && spare.room >= array.bytes;
    });
    if (found == spares_.end()) return std::nullopt;
    const Spare former = *found;
    spares_.erase(found);
    return former;
}

/// All of an array, or what its revision says has changed.
Result CudaDevice::bring_array(const nf::Image::Array& array, Address to, bool changes_only) {
    const nf::Revision::Range all[] = {{0, array.bytes}};
    const std::span<const nf::Revision::Range> ranges = changes_only ? std::span(array.revision->changed)
                                                                     : std::span<const nf::Revision::Range>(all);
    for (const nf::Revision::Range& range : ranges) {
        const Result result = driver_.copy_to_device(
            to + range.first, static_cast<const uint8_t*>(array.data) + range.first, range.bytes);
        if (result != kSuccess) return result;
        table_bytes_ += range.bytes;
    }
    // Pageable memory has only been read when that returns; it arrives a little later, and our streams would not wait
    // for it.
    return driver_.stream_synchronize(nullptr);
}

Address CudaDevice::share_array(const nf::Image::Array& array) {
    if (array.bytes == 0) return 0;
    SharedArray& shared = arrays_[array.data];
    if (shared.users == 0) {
        const auto former = take_former(array);
        const Spare room = former ? *former : take_room(array);
        shared.address = room.address;
        shared.room = room.room;
        shared.revision = array.revision != nullptr ? array.revision->now : 0;
        if (const Result result = bring_array(array, room.address, former.has_value()); result != kSuccess) {
            arrays_.erase(array.data);
            spares_.push_back({room.address, room.room});
            throw DeviceError(fmt::format("{}: tables can't be copied: {}", describe(), driver_.text(result)));
        }
    }
    ++shared.users;
    return shared.address;
}

void CudaDevice::release_array(const void* data) {
    const auto found = arrays_.find(data);
    if (found == arrays_.end() || --found->second.users > 0) return;
    if (spares_.size() == kMaxSpares) {
        free(spares_.front().address);
        spares_.erase(spares_.begin());
    }
    const SharedArray& shared = found->second;
    spares_.push_back({shared.address, shared.room, data, shared.revision});
    arrays_.erase(found);
}

uint64_t CudaDevice::table_bytes() {
    const std::lock_guard lock(mutex_);
    return table_bytes_;
}

}  // namespace millrace::device::cuda
