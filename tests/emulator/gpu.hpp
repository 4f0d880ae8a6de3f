// An emulated GPU: its memory, and streams that do one thing after the other, beside those in other queues.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "block.hpp"
#include "mappings.hpp"

namespace emulator {

/// Results of the driver, as its manual numbers them.
inline constexpr int kSuccess = 0, kInvalidValue = 1, kOutOfMemory = 2, kInvalidDevice = 101, kInvalidImage = 200,
                     kInvalidHandle = 400, kNotFound = 500, kNotReady = 600, kAlreadyRegistered = 712,
                     kNotRegistered = 713, kNotSupported = 801;

/// Memory of one GPU. What is asked for ends where nothing is, so that reading on is a fault.
class Memory {
public:
    explicit Memory(size_t bytes) : bytes_(bytes) {}
    /// Null when there is not that much left.
    void* allocate(size_t bytes);
    bool free(void* address);
    /// Whether [address, address + bytes) lies in one piece that has been asked for, or is mapped and may be touched.
    bool has(const void* address, size_t bytes);
    /// Counts memory that is made by other ways; false when there is not that much left.
    bool use(size_t bytes);
    void unuse(size_t bytes);
    Mappings& mappings() { return mappings_; }
    /// ", 16 bytes behind a piece of 4096": what an address that is not there lies near.
    std::string near(const void* address);
    size_t bytes() const { return bytes_; }
    size_t free_bytes();

private:
    struct Piece {
        size_t bytes;
        void* pages;
        size_t page_bytes;
    };
    bool has_piece(const void* address, size_t bytes);
    Mappings mappings_;
    std::mutex mutex_;
    std::map<uintptr_t, Piece> pieces_;
    const size_t bytes_;
    size_t used_ = 0;
};

class Stream;

/// A queue of the hardware: streams share it, and what stands in it is done in the order in which it came, whichever
/// stream it is of. A GPU has as many as CUDA_DEVICE_MAX_CONNECTIONS says, or 8, and its streams are dealt to them.
class Queue {
public:
    void put(Stream& stream, std::function<void()> what);

private:
    void drain();
    std::mutex mutex_;
    std::deque<std::pair<Stream*, std::function<void()>>> waiting_;
    bool active_ = false;
};

struct Gpu {
    explicit Gpu(int its_ordinal);
    Queue& next_queue() { return queues[streams_made++ % queues.size()]; }
    /// Waits until all streams are idle.
    void wait();
    /// The same, as the driver does before it takes memory away: it puts no kernel on a stream meanwhile. If a kernel
    /// waits for such a one, the driver waits for ever; here the GPU fails after a while.
    void wait_alone();
    std::shared_mutex launches;             ///< shared by those who put a kernel on a stream
    std::atomic<size_t> local_bytes{1024};  ///< set aside for each thread of a kernel
    std::vector<Queue> queues;
    std::atomic<size_t> streams_made{0};
    std::mutex streams_mutex;
    std::set<Stream*> streams;
    const int ordinal;
    Memory memory;
    std::atomic<int> failed{kSuccess};   ///< what every call answers since a kernel has died
    std::atomic<bool> abandoned{false};  ///< whether kernels are to end because of that
    void fail(int result) {
        int expected = kSuccess;
        failed.compare_exchange_strong(expected, result);
        abandoned = true;
    }
};

class Event {
public:
    /// Something is put on a stream that this event is to come behind; returns its number.
    uint64_t recorded() { return ++recorded_; }
    uint64_t latest() const { return recorded_; }
    void come(uint64_t number);
    bool has_come(uint64_t number) const { return come_ >= number; }
    bool has_come() const { return has_come(recorded_); }
    int64_t time_ns() const { return time_ns_; }

private:
    std::atomic<uint64_t> recorded_{0}, come_{0};
    std::atomic<int64_t> time_ns_{0};
};

class Stream {
public:
    /// `sms`: numbers of multiprocessors that its kernels may run on; none: all.
    explicit Stream(Gpu& gpu, std::set<unsigned> sms = {});
    ~Stream();
    Gpu& gpu() const { return gpu_; }
    const std::set<unsigned>& sms() const { return sms_; }
    /// To be done behind all that was put before, by some thread. Skipped when the GPU has failed meanwhile.
    void put(std::function<void()> what);
    bool idle();
    void wait();
    bool wait_until(std::chrono::steady_clock::time_point end);

private:
    friend class Queue;
    void done();
    Gpu& gpu_;
    Queue& queue_;
    const std::set<unsigned> sms_;
    std::mutex mutex_;
    std::condition_variable idle_;
    size_t pending_ = 0;
};

class PtxModule;

/// A kernel that can be launched.
struct Kernel {
    std::string name;
    Code code;
    const PtxModule* ptx = nullptr;             ///< its instructions are interpreted; null: they are the host's
    const std::atomic<bool>* loaded = nullptr;  ///< whether its module still is
    size_t most_block_bytes = 48 << 10;
    /// That each thread has of its own, as if: more than is set aside unasked, for most names.
    size_t local_bytes() const { return 512 * (1 + std::hash<std::string>()(name) % 16); }
};

/// All of a launch, with copies of its parameters.
struct Launch {
    const Kernel* kernel = nullptr;
    Index grid, block_size;
    size_t block_bytes = 0;
    std::vector<std::vector<unsigned char>> parameters;
    void take_parameters(void** from);
    int trouble() const;  ///< a result
    void run(Gpu& gpu) const;
};

}  // namespace emulator
