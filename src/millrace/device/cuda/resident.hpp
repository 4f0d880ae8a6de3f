// Kernels that stay on a GPU, and the calls of the driver that they would keep waiting.
//
// Memory is freed and unpinned, and modules come and go, only when no kernel runs: such a call would wait for a
// resident one for ever. A `Pause` around the call lets all of them end behind what is on their lists, and starts them
// again. Nor is a batch half launched meanwhile whose ordered kernels others wait for (OrderGate::launching). All
// blocks of all kernels must be on the GPU at the same time, as they wait for each other: together they have fewer than
// it has multiprocessors, so that each block finds one without another of them.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "millrace/device/cuda/driver.hpp"
#include "millrace/device/device.hpp"

namespace millrace::device::cuda {

class CudaDevice;

/// What the kernel of a program is started with.
struct ResidentFunction {
    Function function = nullptr;
    unsigned threads = 0, least_packets = 0;
    uint32_t block_bytes = 0;
    void* tables = nullptr;
    const std::string* name = nullptr;
};

class ResidentKernels {
public:
    ResidentKernels(CudaDevice& device, const Driver& driver) : device_(device), driver_(driver) {}
    ~ResidentKernels() { close(); }
    /// Gives back what kernels have used, when all have ended.
    void close();

    /// Throws DeviceError when there is no room. The program must have the function's tables. With the device's mutex
    /// held.
    std::shared_ptr<Resident> start(std::shared_ptr<LoadedProgram> program, const ResidentFunction& function,
                                    unsigned depth);

    /// No resident kernel runs as long as it lives, and all that do end. For calls that wait for all that is on the
    /// GPU.
    class Pause {
    public:
        explicit Pause(ResidentKernels& kernels);
        ~Pause();
        Pause(const Pause&) = delete;
        Pause& operator=(const Pause&) = delete;
        /// Whether there is none. Otherwise one has not ended when it should, and the call must not be made.
        explicit operator bool() const { return !kernels_.stuck_; }

    private:
        ResidentKernels& kernels_;
        const std::unique_lock<std::recursive_mutex> lock_;
    };

private:
    class Kernel;
    /// What a kernel needs of the host and of the GPU, for one after the other.
    struct Place {
        unsigned depth = 0;
        ResidentEntry* entries = nullptr;  ///< host memory: the list, the control behind it, and zeros to clear the
                                           ///< meetings with
        ResidentControl* control = nullptr;
        const uint8_t* zeros = nullptr;
        Address meetings = 0;  ///< device memory
        StreamId stream = 0;
    };

    Place take_place(unsigned depth);
    void end(Kernel& kernel);
    void pause();
    void resume();
    bool await_end(const std::vector<Kernel*>& kernels);
    void beat();

    CudaDevice& device_;
    const Driver& driver_;
    std::recursive_mutex mutex_;  // of all below; after the device's
    unsigned pauses_ = 0;         // inside each other
    unsigned blocks_ = 0;         // of all kernels
    bool stuck_ = false;
    std::vector<Kernel*> kernels_;
    std::vector<Place> free_places_;
    uint32_t* heartbeat_ = nullptr;
    std::thread heart_;
    // Of what stands on the lists, after all others: the batches up to which kernels run before a pause must fit
    // together. Batches are put on lists during a pause, too, so that one pause after the other does not keep them from
    // the device.
    std::mutex posting_;
    std::mutex heart_mutex_;
    std::condition_variable heart_stops_;
    bool heart_stopped_ = false;
};

}  // namespace millrace::device::cuda
