// What a CUDA device keeps of programs and tasks: modules, tables in its memory, kernels to launch. For the device's
// own use.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "millrace/chain/classification/classification_table.hpp"
#include "millrace/device/cuda/block_shape.hpp"
#include "millrace/device/cuda/compile/task_source.hpp"
#include "millrace/device/cuda/cuda_device.hpp"

namespace millrace::device::cuda {

// A kernel gets this much shared memory unasked, besides what it declares; more must be asked for.
inline constexpr uint32_t kPlainBlockBytes = 32 << 10;
inline constexpr int kMaxDynamicShared = 8;

struct CudaDevice::LoadedModule {
    explicit LoadedModule(CudaDevice& its_device) : device(its_device) {}
    CudaDevice& device;
    Module module = nullptr;
    ~LoadedModule() {
        if (module == nullptr) return;  // the driver has refused it
        device.enter();
        if (const ResidentKernels::Pause pause(device.resident_); pause) device.driver_.module_unload(module);
    }
};

/// An image's tables relocated to the GPU. The arrays are shared by address. Made and ended with the mutex held.
class CudaDevice::LoadedImage {
public:
    LoadedImage(CudaDevice& device, const nf::Image& image) : device_(device) {
        std::vector<void*> addresses;
        try {
            for (const nf::Image::Array& array : image.arrays()) {
                addresses_.push_back(device_.share_array(array));
                used_.push_back(array.data);
                owners_.push_back(array.owner);
                addresses.push_back(reinterpret_cast<void*>(addresses_.back()));
            }
        } catch (...) {
            release();
            throw;
        }
        tables_ = image.relocated(addresses);
    }
    ~LoadedImage() { release(); }
    LoadedImage(const LoadedImage&) = delete;
    LoadedImage& operator=(const LoadedImage&) = delete;
    const std::vector<std::byte>& tables() const { return tables_; }
    Address address(size_t array) const { return addresses_[array]; }

private:
    void release() {
        for (const void* data : used_) device_.release_array(data);
    }
    CudaDevice& device_;
    std::vector<std::byte> tables_;
    std::vector<Address> addresses_;
    std::vector<const void*> used_;
    std::vector<std::shared_ptr<const void>> owners_;  // what names an array must not be an other's meanwhile
};

/// Tables of a stage's nodes, one behind the other in the GPU's memory. Made and ended with the mutex held.
class CudaDevice::StageTables {
public:
    StageTables(CudaDevice& device, std::shared_ptr<const std::vector<std::byte>> tables)
        : device_(device), tables_(std::move(tables)), address_(device_.share_array({.member_offset = 0,
                                                                                     .data = tables_->data(),
                                                                                     .bytes = tables_->size(),
                                                                                     .count = tables_->size(),
                                                                                     .owner = tables_,
                                                                                     .state_name = {}})) {}
    ~StageTables() { device_.release_array(tables_->data()); }
    StageTables(const StageTables&) = delete;
    StageTables& operator=(const StageTables&) = delete;
    Address address() const { return address_; }

private:
    CudaDevice& device_;
    const std::shared_ptr<const std::vector<std::byte>> tables_;
    const Address address_;
};

/// Tables of all nodes on the GPU, and the kernels that take them.
class CudaDevice::Loaded : public LoadedProgram {
public:
    struct Launch {
        Function function = nullptr;
        unsigned threads = 0, packets = 0, spread = 0, most_blocks = 0;
        uint32_t block_bytes = 0;
        bool grows = false;
        const std::string* name = nullptr;

        /// How many packets a block takes.
        uint32_t block_packets(const BatchView& batch, uint32_t multiprocessors) const {
            if (!grows) return packets;
            return std::min(packets_of_block(packets, spread, multiprocessors, batch.count, batch.mean_bytes), threads);
        }
    };

    Loaded(CudaDevice& device, std::shared_ptr<const chain::Program> program, std::vector<Step> steps)
        : LoadedProgram(std::move(program), std::move(steps)), device_(device) {
        const ProgramSource source = make_program_source(*program_, steps_);
        const std::vector<const ChainSource*> sources{&source.usual, &source.one_lane, &source.most_lanes};
        modules_ = device_.modules_of(sources);
        for (size_t i = 0; i < sources.size(); ++i) launches_.push_back(make_launches(*sources[i], *modules_[i]));
        bring_tables();
    }
    ~Loaded() override {
        const std::lock_guard lock(device_.mutex_);
        device_.enter();
        images_.clear();
        stage_tables_.clear();
    }
    const Launch& launch(size_t step, uint32_t mean_bytes, uint32_t count) const {
        const Launch& own = launches_[static_cast<size_t>(lanes_for(count, mean_bytes))][step];
        return own.function != nullptr ? own : launches_[static_cast<size_t>(KernelLanes::usual)][step];
    }
    void* tables() const { return const_cast<std::byte*>(tables_.data()); }
    /// Of a program whose steps are resident.
    ResidentFunction resident() const {
        const Launch& own = launches_.front().front();
        return {own.function, own.threads, own.packets, own.block_bytes, tables(), own.name};
    }

private:
    /// By step; those that the source has no kernel for have no function.
    std::vector<Launch> make_launches(const ChainSource& source, const LoadedModules& modules) {
        std::vector<Launch> launches(steps_.size());
        for (size_t i = 0; i < modules.size(); ++i)
            for (const Kernel& kernel : source.cubins[i]) launches[kernel.step] = make_launch(kernel, *modules[i]);
        return launches;
    }

    Launch make_launch(const Kernel& kernel, const LoadedModule& module) {
        const std::string chain = "chain '" + program_->name + "'";
        const Step& step = steps_[kernel.step];
        Launch launch{nullptr,
                      kernel.threads,
                      kernel.packets,
                      kernel.spread,
                      kernel.most_blocks,
                      kernel.block_bytes,
                      step.kind == Step::Kind::nodes,
                      nullptr};
        launch.function = device_.function_of(module, kernel.name, chain);
        if (launch.block_bytes > (step.resident ? 0 : kPlainBlockBytes))
            if (const Result result = device_.driver_.function_set(launch.function, kMaxDynamicShared,
                                                                   static_cast<int>(launch.block_bytes));
                result != kSuccess)
                throw DeviceError(fmt::format("{}: {}: no {} bytes of shared memory for a block: {}",
                                              device_.describe(), chain, launch.block_bytes,
                                              device_.driver_.text(result)));
        launch.name = &*device_.launch_names_
                            .insert(chain + ", " + (step.resident ? "resident kernel" : step_text(*program_, step)))
                            .first;
        return launch;
    }

    void bring_tables() {
        const TableLayout layout = table_layout(*program_);
        tables_.resize(std::max<size_t>(layout.bytes, 16));
        const auto bring = [&](const nf::Image& image, std::byte* to) {
            images_.push_back(std::make_unique<LoadedImage>(device_, image));
            for (size_t i = 0; i < image.arrays().size(); ++i) add_state(image.arrays()[i], images_.back()->address(i));
            std::ranges::copy(images_.back()->tables(), to);
        };
        for (size_t index = 0; index < program_->stage_count(); ++index) {
            const chain::Stage stage = program_->stage(index);
            std::byte* const place = tables_.data() + layout.offsets[index];
            if (stage.count == 1) {
                bring(program_->nodes[stage.first].nf->image(), place);
                continue;
            }
            const auto all = std::make_shared<std::vector<std::byte>>(stage.count * layout.strides[index]);
            for (size_t k = 0; k < stage.count; ++k)
                bring(program_->nodes[stage.first + k].nf->image(), all->data() + k * layout.strides[index]);
            stage_tables_.push_back(std::make_unique<StageTables>(device_, all));
            const Address address = stage_tables_.back()->address();
            std::memcpy(place, &address, sizeof address);
        }
        if (program_->classifier != nullptr)
            bring(program_->classifier->image(), tables_.data() + layout.offsets.back());
    }

    CudaDevice& device_;
    std::vector<std::shared_ptr<LoadedModules>> modules_;
    std::vector<std::vector<Launch>> launches_;  // by KernelLanes, and step
    std::vector<std::byte> tables_;
    std::vector<std::unique_ptr<LoadedImage>> images_;
    std::vector<std::unique_ptr<StageTables>> stage_tables_;  // of stages with several nodes
};

class CudaDevice::TaskLoaded : public LoadedTask {
public:
    TaskLoaded(CudaDevice& device, const Task& task, const nf::Image& image) : device_(device), name_(task.name) {
        const TaskSource source = make_task_source(
            task, (image.tables_bytes() + kTableAlignment - 1) / kTableAlignment * kTableAlignment);
        threads_ = source.threads;
        items_ = source.items;
        const ChainSource alone{.nfs = {}, .chain = source.unit, .cubins = {{}}};
        modules_ = device_.modules_of({&alone}).front();
        function_ = device_.function_of(*modules_->front(), source.kernel, name_);
        image_.emplace(device_, image);
        tables_ = image_->tables();
        tables_.resize((tables_.size() + kTableAlignment - 1) / kTableAlignment * kTableAlignment);
    }
    ~TaskLoaded() override {
        const std::lock_guard lock(device_.mutex_);
        device_.enter();
        image_.reset();
    }
    Result launch(const TaskBatch& batch, Stream stream) const {
        void* parameters[] = {const_cast<const uint32_t**>(&batch.in), const_cast<uint32_t**>(&batch.out),
                              const_cast<uint32_t*>(&batch.count), const_cast<std::byte*>(tables_.data())};
        return device_.driver_.launch(function_, (batch.count + items_ - 1) / items_, 1, 1, threads_, 1, 1, 0, stream,
                                      parameters, nullptr);
    }
    const std::string& name() const { return name_; }

private:
    CudaDevice& device_;
    const std::string name_;
    unsigned threads_ = 0, items_ = 0;
    std::shared_ptr<LoadedModules> modules_;
    Function function_ = nullptr;
    std::optional<LoadedImage> image_;
    std::vector<std::byte> tables_;
};

}  // namespace millrace::device::cuda
