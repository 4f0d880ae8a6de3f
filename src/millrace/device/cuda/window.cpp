// Windows of a GPU, and what runs in them.
#include <fmt/format.h>

#include "millrace/device/cuda/loaded.hpp"
#include "millrace/device/kernel/windows.hpp"
#include "millrace/isolation/kernel.hpp"

namespace millrace::device::cuda {

/// What has no memory of its own is the sink, a page that is mapped again and again: whatever is stored there is
/// nobody's. Each window has its own, so that none of it tells of others. On an H200, 2048 mappings take 2 ms, and 50
/// ms more until all of it may be touched. Memory is mapped as a whole: the driver supports no part of it.
class CudaDevice::MappedWindow : public Window {
public:
    MappedWindow(CudaDevice& device, size_t bytes, const std::string& what) : device_(device), what_(what) {
        try {
            make(bytes);
        } catch (...) {
            unmake();
            throw;
        }
    }
    ~MappedWindow() override { unmake(); }

private:
    struct Mapped {
        DevicePointer at;
        size_t bytes;
    };

    void require(Result result, const char* step) const {
        if (result != kSuccess)
            throw DeviceError(fmt::format("{}: no window for {}: {}: {}", device_.describe(), what_, step,
                                          device_.driver_.text(result)));
    }

    void make(size_t wanted) {
        const Driver& driver = device_.driver_;
        const ResidentKernels::Pause pause(device_.resident_);
        if (!pause) throw DeviceError(device_.describe() + ": no window for " + what_ + ": the GPU does not answer");
        MemoryKind kind;
        kind.location.ordinal = device_.device_;
        constexpr unsigned kMinimum = 0;
        require(driver.memory_granularity(&page_, &kind, kMinimum), "its pages");
        bytes_ = (std::max<size_t>(wanted, 1) + page_ - 1) / page_ * page_;
        if (bytes_ > kBytes / 2) throw DeviceError(fmt::format("a window has no {} MiB for {}", wanted >> 20, what_));
        guard_bytes_ = static_cast<uint32_t>(page_);
        // As wide again before it, so that its guard has a place there.
        reserved_bytes_ = 2 * kBytes + page_;
        require(driver.address_reserve(&reserved_, reserved_bytes_, kBytes, 0, 0), "its addresses");
        begin_ = reserved_ + kBytes;
        require(driver.memory_create(&memory_, bytes_, &kind, 0), "its memory");
        require(driver.memory_create(&sink_, page_, &kind, 0), "its sink");
        map(begin_ - page_, page_, sink_);
        map(begin_, bytes_, memory_);
        const DevicePointer end = begin_ + kBytes + page_;
        for (DevicePointer at = begin_ + bytes_; at < end; at += page_) map(at, page_, sink_);
        MemoryAccess access;
        access.location = kind.location;
        require(driver.memory_access(begin_ - page_, kBytes + 2 * page_, &access, 1), "access to it");
        require(driver.clear(begin_, 0, bytes_), "its bytes can't be cleared");
        require(driver.clear(begin_ + bytes_, 0, page_), "its sink can't be cleared");
        require(driver.stream_synchronize(nullptr), "its bytes can't be cleared");
    }
    void map(DevicePointer at, size_t bytes, MemoryHandle memory) {
        require(device_.driver_.memory_map(at, bytes, 0, memory, 0), "its memory can't be mapped");
        mapped_.push_back({at, bytes});
    }
    void unmake() {
        const Driver& driver = device_.driver_;
        device_.enter();
        const ResidentKernels::Pause pause(device_.resident_);
        if (!pause) return;
        driver.stream_synchronize(nullptr);  // what was to clear it may be under way
        for (const Mapped& one : mapped_) driver.memory_unmap(one.at, one.bytes);
        if (sink_ != 0) driver.memory_release(sink_);
        if (memory_ != 0) driver.memory_release(memory_);
        if (reserved_ != 0) driver.address_free(reserved_, reserved_bytes_);
    }

    CudaDevice& device_;
    const std::string what_;
    size_t page_ = 0, reserved_bytes_ = 0;
    DevicePointer reserved_ = 0;
    MemoryHandle memory_ = 0, sink_ = 0;
    std::vector<Mapped> mapped_;
};

class CudaDevice::FencedLoaded : public LoadedFenced {
public:
    FencedLoaded(CudaDevice& device, const std::string& ptx, const std::string& name)
        : device_(device), name_("fenced function '" + name + "'") {
        std::string cubin;
        try {
            cubin = device_.assembler_.cubin(ptx, device_.architecture_);
        } catch (const CompileError& e) {
            throw DeviceError(e.what());
        }
        const std::lock_guard lock(device_.mutex_);
        device_.enter();
        module_ = device_.load_module(cubin, name_);
        launch_name_ = &*device_.launch_names_.insert(name_).first;
        function_ = device_.function_of(*module_, isolation::kKernelName, name_);
    }
    Result launch(const FencedBatch& batch, Stream stream) const {
        FencedBatch own = batch;
        void* parameters[] = {&own.packets, &own.stride, &own.tables, &own.decisions, &own.count};
        return device_.driver_.launch(function_, (batch.count + kThreads - 1) / kThreads, 1, 1, kThreads, 1, 1, 0,
                                      stream, parameters, nullptr);
    }
    const std::string& name() const { return *launch_name_; }

private:
    /// Packets of a tenant's batch are few: they go to many multiprocessors.
    static constexpr unsigned kThreads = 32;
    CudaDevice& device_;
    const std::string name_;
    const std::string* launch_name_ = nullptr;
    std::shared_ptr<LoadedModule> module_;
    Function function_ = nullptr;
};

class CudaDevice::ConfinedLoaded : public LoadedConfined {
public:
    ConfinedLoaded(CudaDevice& device, const chain::Program& program, const std::vector<std::string>& functions)
        : device_(device) {
        const std::vector<Step> steps = plan_steps(program, {});
        const ConfinedSource source = make_confined_source(program, steps);
        const std::string name = "tenants of chain '" + program.name + "'";
        if (source.functions != functions.size())
            throw DeviceError(fmt::format("{} are {}, not {}", name, source.functions, functions.size()));
        std::string cubin;
        try {
            cubin = device_.assembler_.cubin(source.unit, functions, device_.architecture_);
        } catch (const CompileError& e) {
            throw DeviceError(e.what());
        }
        const std::lock_guard lock(device_.mutex_);
        device_.enter();
        module_ = device_.load_module(cubin, name);
        for (const Kernel& kernel : source.kernels) {
            const Step& step = steps[kernel.step];
            const std::string text = "chain '" + program.name + "', " + step_text(program, step);
            launches_.push_back({step.first, kernel.threads, device_.function_of(*module_, kernel.name, name),
                                 &*device_.launch_names_.insert(text).first});
        }
    }

    struct Launch {
        uint16_t first;  ///< stage
        unsigned threads;
        Function function;
        const std::string* name;
    };
    const Launch& launch(uint16_t first) const { return *std::ranges::find(launches_, first, &Launch::first); }

private:
    CudaDevice& device_;
    std::shared_ptr<LoadedModule> module_;
    std::vector<Launch> launches_;
};

std::unique_ptr<Window> CudaDevice::make_window(size_t bytes, const std::string& what) {
    enter();
    return std::make_unique<MappedWindow>(*this, bytes, what);
}

std::shared_ptr<LoadedFenced> CudaDevice::load_fenced(const std::string& ptx, const std::string& name) {
    return std::make_shared<FencedLoaded>(*this, ptx, name);
}

Status CudaDevice::launch_fenced(StreamId stream, const LoadedFenced& function, const FencedBatch& batch) {
    if (state_ != Status::ok || batch.count == 0) return state_;
    enter();
    const auto& loaded = static_cast<const FencedLoaded&>(function);
    streams_[stream]->launching(loaded.name());
    return check(loaded.launch(batch, streams_[stream]->stream), "a fenced function can't be launched", stream);
}

std::shared_ptr<LoadedConfined> CudaDevice::load_confined(const chain::Program& program,
                                                          const std::vector<std::string>& functions) {
    return std::make_shared<ConfinedLoaded>(*this, program, functions);
}

Status CudaDevice::launch_confined(StreamId stream, const LoadedConfined& confined, uint16_t first,
                                   const BatchView& batch, const ConfinedWindows& windows) {
    if (state_ != Status::ok || windows.first >= windows.end) return state_;
    enter();
    const ConfinedLoaded::Launch& own = static_cast<const ConfinedLoaded&>(confined).launch(first);
    streams_[stream]->launching(*own.name);
    KernelCall kernel;
    kernel.function = own.function;
    kernel.grid_x = (windows.end - windows.first + own.threads - 1) / own.threads;
    kernel.block_x = own.threads;
    BatchView view = batch;
    return check(put_kernel(stream, kernel, view, const_cast<ConfinedWindows*>(&windows)),
                 "functions of tenants can't be launched", stream);
}

}  // namespace millrace::device::cuda
