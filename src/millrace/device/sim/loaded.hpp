// What a simulated device keeps of programs and tasks: tables in its memory. For the device's own use.
#pragma once

#include <optional>

#include "millrace/chain/classification/classification_table.hpp"
#include "millrace/device/sim/sim_device.hpp"

namespace millrace::device::sim {

/// Addresses begin where no user program can have memory: following one on the host faults.
inline constexpr Address kFirstAddress = Address{1} << 62;

/// An image's tables relocated into device memory. The arrays are shared by address. Made and ended with the mutex
/// held.
class SimDevice::LoadedImage {
public:
    LoadedImage(SimDevice& device, const nf::Image& image) : LoadedImage(device) {
        std::vector<void*> addresses;
        for (const nf::Image::Array& array : image.arrays()) {
            addresses_.push_back(device_.share_array(array));
            used_.push_back(array.data);
            owners_.push_back(array.owner);
            // Device code runs on the host here, so its views get the host's way to the memory.
            addresses.push_back(array.bytes == 0 ? nullptr : device_.memory(addresses_.back(), array.bytes));
        }
        tables_ = image.relocated(addresses);
    }
    ~LoadedImage() {
        for (const void* data : used_) device_.release_array(data);
    }
    LoadedImage(const LoadedImage&) = delete;
    LoadedImage& operator=(const LoadedImage&) = delete;
    const void* tables() const { return tables_.data(); }
    Address address(size_t array) const { return addresses_[array]; }

private:
    // From here on the destructor gives back what was shared, also where there is no memory for the next array.
    explicit LoadedImage(SimDevice& device) : device_(device) {}
    SimDevice& device_;
    std::vector<std::byte> tables_;
    std::vector<Address> addresses_;
    std::vector<const void*> used_;
    std::vector<std::shared_ptr<const void>> owners_;  // what names an array must not be an other's meanwhile
};

class SimDevice::Loaded : public LoadedProgram {
public:
    Loaded(SimDevice& device, std::shared_ptr<const chain::Program> program, std::vector<Step> steps)
        : LoadedProgram(std::move(program), std::move(steps)), device_(device) {
        const std::lock_guard lock(device_.mutex_);
        const auto add = [&](const nf::Image& image) {
            images_.push_back(std::make_unique<LoadedImage>(device_, image));
            tables_.push_back(images_.back()->tables());
            for (size_t i = 0; i < image.arrays().size(); ++i) add_state(image.arrays()[i], images_.back()->address(i));
        };
        for (const chain::Node& node : program_->nodes) add(node.nf->image());
        if (program_->classifier != nullptr) add(program_->classifier->image());
    }
    ~Loaded() override {
        const std::lock_guard lock(device_.mutex_);
        images_.clear();
    }
    const std::vector<const void*>& tables() const { return tables_; }

private:
    SimDevice& device_;
    std::vector<std::unique_ptr<LoadedImage>> images_;
    std::vector<const void*> tables_;
};

class SimDevice::TaskLoaded : public LoadedTask {
public:
    TaskLoaded(SimDevice& device, const Task& task, const nf::Image& image) : device_(device), task_(task) {
        const std::lock_guard lock(device_.mutex_);
        image_.emplace(device_, image);
    }
    ~TaskLoaded() override {
        const std::lock_guard lock(device_.mutex_);
        image_.reset();
    }
    const Task& task() const { return task_; }
    const void* tables() const { return image_->tables(); }

private:
    SimDevice& device_;
    const Task task_;
    std::optional<LoadedImage> image_;
};

}  // namespace millrace::device::sim
