// A device in front of another one, which does its work otherwise: how ways that are there to be compared with are kept
// out of the product's engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/device.hpp"

namespace millrace::lab {

/// Hands everything on to a device, and keeps order by that one's gate. What derives from it changes some of it.
class ForwardingDevice : public device::Device {
public:
    using Address = device::Address;
    using EventId = device::EventId;
    using Status = device::Status;
    using StreamId = device::StreamId;

    explicit ForwardingDevice(std::shared_ptr<device::Device> behind)
        : Device(behind->order_gate()), behind_(std::move(behind)) {}

    std::string describe() const override { return behind_->describe(); }
    std::string model() const override { return behind_->model(); }
    Status state() const override { return behind_->state(); }
    Address allocate(size_t bytes, const std::string& what) override { return behind_->allocate(bytes, what); }
    void free(Address address) override { behind_->free(address); }
    void* allocate_host(size_t bytes) override { return behind_->allocate_host(bytes); }
    void free_host(void* memory) override { behind_->free_host(memory); }
    bool pin(void* memory, size_t bytes) override { return behind_->pin(memory, bytes); }
    void unpin(void* memory) override { behind_->unpin(memory); }
    StreamId create_stream(bool timed) override { return behind_->create_stream(timed); }
    void prepare(schedule::SmRange sms) override { behind_->prepare(sms); }
    schedule::Gpu partitions() override { return behind_->partitions(); }
    bool has_partitions() const override { return behind_->has_partitions(); }
    void move_stream(StreamId stream, schedule::SmRange sms) override { behind_->move_stream(stream, sms); }
    std::shared_ptr<device::LoadedProgram> load(std::shared_ptr<const chain::Program> program,
                                                std::vector<device::Step> steps) override {
        return behind_->load(std::move(program), std::move(steps));
    }
    std::shared_ptr<device::Resident> start_resident(std::shared_ptr<device::LoadedProgram> program,
                                                     unsigned depth) override {
        return behind_->start_resident(std::move(program), depth);
    }
    std::shared_ptr<device::LoadedTask> load(const device::Task& task, const nf::Image& image) override {
        return behind_->load(task, image);
    }
    Status copy_to_device(StreamId stream, Address to, const void* from, size_t bytes) override {
        return behind_->copy_to_device(stream, to, from, bytes);
    }
    Status copy_to_host(StreamId stream, void* to, Address from, size_t bytes) override {
        return behind_->copy_to_host(stream, to, from, bytes);
    }
    Status copy_rows_to_device(StreamId stream, Address to, size_t to_pitch, const void* from, size_t from_pitch,
                               size_t width, size_t rows) override {
        return behind_->copy_rows_to_device(stream, to, to_pitch, from, from_pitch, width, rows);
    }
    Status copy_rows_to_host(StreamId stream, void* to, size_t to_pitch, Address from, size_t from_pitch, size_t width,
                             size_t rows) override {
        return behind_->copy_rows_to_host(stream, to, to_pitch, from, from_pitch, width, rows);
    }
    Status launch(StreamId stream, const device::LoadedProgram& program, size_t step,
                  const device::BatchView& batch) override {
        return behind_->launch(stream, program, step, batch);
    }
    Status launch(StreamId stream, const device::LoadedTask& task, const device::TaskBatch& batch) override {
        return behind_->launch(stream, task, batch);
    }
    Status record(StreamId stream, EventId& event) override { return behind_->record(stream, event); }
    Status announce(StreamId stream, EventId& event) override { return behind_->announce(stream, event); }
    Status wait(StreamId stream, Device& of, EventId event) override {
        auto* const other = dynamic_cast<ForwardingDevice*>(&of);
        return behind_->wait(stream, other != nullptr ? *other->behind_ : of, event);
    }
    Status query(EventId event) override { return behind_->query(event); }
    uint64_t time_ns(EventId event) override { return behind_->time_ns(event); }

    /// Bytes that cross the bus besides those that the engine counts, so far; they may be less than it counts.
    int64_t more_to_device() const { return more_to_device_.load(std::memory_order_relaxed); }
    int64_t more_to_host() const { return more_to_host_.load(std::memory_order_relaxed); }
    const device::Device& behind() const { return *behind_; }

protected:
    device::Device& behind() { return *behind_; }
    void count_to_device(int64_t bytes) { more_to_device_.fetch_add(bytes, std::memory_order_relaxed); }
    void count_to_host(int64_t bytes) { more_to_host_.fetch_add(bytes, std::memory_order_relaxed); }

private:
    const std::shared_ptr<device::Device> behind_;
    std::atomic<int64_t> more_to_device_{0}, more_to_host_{0};
};

}  // namespace millrace::lab
