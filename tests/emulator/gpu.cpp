#include "gpu.hpp"

#include "ptx.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace emulator {
namespace {

size_t megabytes_of_a_gpu() {
    const char* named = std::getenv("EMULATED_MEGABYTES");
    return named != nullptr ? strtoul(named, nullptr, 10) : 4096;
}

/// Threads that run streams: as many as run at once, kept for later.
class Workers {
public:
    static Workers& all() {
        static auto& workers = *new Workers;
        return workers;
    }
    void run(std::function<void()> what) {
        const std::lock_guard lock(mutex_);
        waiting_.push_back(std::move(what));
        if (waiting_.size() > free_) std::thread([this] { work(); }).detach();
        else more_.notify_one();
    }

private:
    void work() {
        std::unique_lock lock(mutex_);
        while (true) {
            ++free_;
            more_.wait(lock, [this] { return !waiting_.empty(); });
            --free_;
            const std::function<void()> what = std::move(waiting_.front());
            waiting_.pop_front();
            lock.unlock();
            what();
            lock.lock();
        }
    }
    std::mutex mutex_;
    std::condition_variable more_;
    std::deque<std::function<void()>> waiting_;
    size_t free_ = 0;  // threads that wait
};

size_t queues_of_a_gpu() {
    const char* named = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    const size_t count = named != nullptr ? strtoul(named, nullptr, 10) : 8;
    return count < 1 ? 1 : count > 32 ? 32 : count;
}

/// How long a launch waits before it begins, each time another time.
std::chrono::microseconds lag() {
    static const char* const named = std::getenv("EMULATED_LAG");
    static const unsigned most = named != nullptr ? static_cast<unsigned>(strtoul(named, nullptr, 10)) : 0;
    return std::chrono::microseconds(most == 0 ? 0 : static_cast<unsigned>(rand()) % most);
}

/// ", in launch.hpp:31": the source's line, as addr2line finds it, of an instruction of a kernel.
std::string where(const void* instruction) {
    Dl_info library{};
    if (instruction == nullptr || dladdr(instruction, &library) == 0) return "";
    char command[160], line[512];
    snprintf(command, sizeof command, "LD_LIBRARY_PATH= addr2line -sie /proc/%d/fd/%s %#zx 2>/dev/null", getpid(),
             strrchr(library.dli_fname, '/') + 1,
             static_cast<size_t>(static_cast<const char*>(instruction) - static_cast<const char*>(library.dli_fbase)));
    std::string text;
    FILE* const lines = popen(command, "r");
    while (lines != nullptr && fgets(line, sizeof line, lines) != nullptr)
        text += (text.empty() ? ", in " : ", from ") + std::string(line, strcspn(line, "\n"));
    if (lines != nullptr) pclose(lines);
    return text;
}

}  // namespace

void* Memory::allocate(size_t bytes) {
    constexpr size_t kAlignment = 512;
    const size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment,
                 page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const std::lock_guard lock(mutex_);
    if (whole > bytes_ - used_) return nullptr;
    const size_t pages = (whole + page - 1) / page * page;
    void* memory = mmap(nullptr, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                        0);
    if (memory == MAP_FAILED) return nullptr;
    // Large tables are written from end to end: not page by page of the usual size.
    constexpr size_t kLarge = size_t{4} << 20;
    if (pages >= kLarge) madvise(memory, pages, MADV_HUGEPAGE);
    auto* const address = static_cast<unsigned char*>(memory) + (pages - whole);
    mprotect(static_cast<unsigned char*>(memory) + pages, page, PROT_NONE);
    used_ += whole;
    pieces_[reinterpret_cast<uintptr_t>(address)] = {whole, memory, pages + page};
    return address;
}

bool Memory::free(void* address) {
    const std::lock_guard lock(mutex_);
    const auto found = pieces_.find(reinterpret_cast<uintptr_t>(address));
    if (found == pieces_.end()) return false;
    used_ -= found->second.bytes;
    munmap(found->second.pages, found->second.page_bytes);
    pieces_.erase(found);
    return true;
}

bool Memory::use(size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (bytes > bytes_ - used_) return false;
    used_ += bytes;
    return true;
}

void Memory::unuse(size_t bytes) {
    const std::lock_guard lock(mutex_);
    used_ -= bytes;
}

bool Memory::has(const void* address, size_t bytes) {
    return has_piece(address, bytes) || mappings_.may_touch(reinterpret_cast<uintptr_t>(address), bytes);
}

bool Memory::has_piece(const void* address, size_t bytes) {
    const auto at = reinterpret_cast<uintptr_t>(address);
    const std::lock_guard lock(mutex_);
    auto found = pieces_.upper_bound(at);
    if (found == pieces_.begin()) return false;
    --found;
    const size_t offset = at - found->first;
    return offset <= found->second.bytes && bytes <= found->second.bytes - offset;
}

std::string Memory::near(const void* address) {
    constexpr size_t kNear = 64 << 10;
    const auto at = reinterpret_cast<uintptr_t>(address);
    const std::lock_guard lock(mutex_);
    const auto next = pieces_.upper_bound(at);
    std::string text;
    if (next != pieces_.begin()) {
        const auto& [from, piece] = *std::prev(next);
        if (at >= from + piece.bytes && at - from - piece.bytes < kNear)
            text += ", " + std::to_string(at - from - piece.bytes) + " bytes behind a piece of " +
                    std::to_string(piece.bytes);
    }
    if (next != pieces_.end() && next->first - at < kNear)
        text += ", " + std::to_string(next->first - at) + " bytes before a piece of " +
                std::to_string(next->second.bytes);
    return text;
}

size_t Memory::free_bytes() {
    const std::lock_guard lock(mutex_);
    return bytes_ - used_;
}

Gpu::Gpu(int its_ordinal) : queues(queues_of_a_gpu()), ordinal(its_ordinal), memory(megabytes_of_a_gpu() << 20) {}

void Gpu::wait() {
    const std::lock_guard lock(streams_mutex);
    for (Stream* stream : streams) stream->wait();
}

void Gpu::wait_alone() {
    constexpr int kUnknown = 999;
    constexpr std::chrono::seconds kPatience{60};
    const std::unique_lock alone(launches);
    const std::lock_guard lock(streams_mutex);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    for (Stream* stream : streams) {
        if (stream->wait_until(end)) continue;
        fprintf(stderr, "emulator: the driver waits for kernels to end, and these for one that it does not launch\n");
        fail(kUnknown);
        stream->wait();
    }
}

Stream::Stream(Gpu& gpu, std::set<unsigned> sms) : gpu_(gpu), queue_(gpu.next_queue()), sms_(std::move(sms)) {
    const std::lock_guard lock(gpu_.streams_mutex);
    gpu_.streams.insert(this);
}

Stream::~Stream() {
    wait();
    const std::lock_guard lock(gpu_.streams_mutex);
    gpu_.streams.erase(this);
}

void Event::come(uint64_t number) {
    time_ns_ = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
                   .count();
    uint64_t before = come_;
    while (before < number && !come_.compare_exchange_weak(before, number)) {
    }
}

void Queue::put(Stream& stream, std::function<void()> what) {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(&stream, std::move(what));
    if (active_) return;
    active_ = true;
    Workers::all().run([this] { drain(); });
}

void Queue::drain() {
    std::unique_lock lock(mutex_);
    while (!waiting_.empty()) {
        auto [stream, what] = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        if (stream->gpu_.failed == kSuccess) what();
        what = nullptr;
        stream->done();
        lock.lock();
    }
    active_ = false;
}

void Stream::put(std::function<void()> what) {
    {
        const std::lock_guard lock(mutex_);
        ++pending_;
    }
    queue_.put(*this, std::move(what));
}

/// Nobody looks at the stream any more once its last work is: it may be gone then.
void Stream::done() {
    const std::lock_guard lock(mutex_);
    if (--pending_ == 0) idle_.notify_all();
}

bool Stream::idle() {
    const std::lock_guard lock(mutex_);
    return pending_ == 0;
}

bool Stream::wait_until(std::chrono::steady_clock::time_point end) {
    std::unique_lock lock(mutex_);
    return idle_.wait_until(lock, end, [this] { return pending_ == 0; });
}

void Stream::wait() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [this] { return pending_ == 0; });
}

void Launch::take_parameters(void** from) {
    const KernelEntry& entry = *kernel->code.entry;
    parameters.clear();
    for (unsigned i = 0; i < entry.parameters; ++i) {
        const auto* bytes = static_cast<const unsigned char*>(from[i]);
        parameters.emplace_back(bytes, bytes + entry.bytes[i]);
    }
}

int Launch::trouble() const {
    constexpr unsigned kMaxThreads = 1024;
    if (kernel == nullptr || !*kernel->loaded) return kInvalidHandle;
    const bool sound = grid.x > 0 && grid.y == 1 && grid.z == 1 && block_size.x > 0 && block_size.x <= kMaxThreads &&
                       block_size.y == 1 && block_size.z == 1;
    return sound && block_bytes <= kernel->most_block_bytes ? kSuccess : kInvalidValue;
}

void Launch::run(Gpu& gpu) const {
    std::this_thread::sleep_for(lag());
    if (!*kernel->loaded) return gpu.fail(kInvalidHandle);
    std::vector<void*> places;
    for (const auto& bytes : parameters) places.push_back(const_cast<unsigned char*>(bytes.data()));
    const auto run_one = [&](unsigned block) {
        try {
            if (kernel->ptx != nullptr)
                return kernel->ptx->run(kernel->name, {{block, 0, 0}, block_size, grid, 0, nullptr, nullptr, nullptr},
                                        parameters, gpu.memory);
            run_block(kernel->code,
                      {{block, 0, 0}, block_size, grid, block_bytes, places.data(), &gpu.abandoned, &gpu.memory});
        } catch (const KernelFault& fault) {
            fprintf(stderr, "emulator: %s%s%s\n", fault.what.c_str(), gpu.memory.near(fault.address).c_str(),
                    where(fault.instruction).c_str());
            gpu.fail(fault.result);
        }
    };
    // Blocks of a kernel that stays wait for each other; all others may run one after the other.
    if (kernel->name.find("resident") == std::string::npos) {
        for (unsigned block = 0; block < grid.x && gpu.failed == kSuccess; ++block) run_one(block);
        return;
    }
    std::atomic<unsigned> at_work{grid.x};
    std::vector<std::thread> threads;
    for (unsigned block = 0; block < grid.x; ++block)
        threads.emplace_back([&, block] {
            run_one(block);
            --at_work;
        });
    while (at_work > 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        if (gpu.abandoned)
            for (std::thread& thread : threads) pthread_kill(thread.native_handle(), kGiveUpSignal);
    }
    for (std::thread& thread : threads) thread.join();
}

}  // namespace emulator
