// A GPU that is told of each batch by one CUDA graph, and not by a call for each copy and kernel: to compare calls
// with.
#pragma once

#include <memory>
#include <vector>

#include "lab/compared/batch_calls.hpp"
#include "millrace/device/cuda/cuda_device.hpp"

namespace millrace::lab {

/// Holds back what is put on a stream until an event is asked for behind it. Timed streams ask for one behind each
/// kernel, so that they go call by call.
class GraphDevice : public device::cuda::CudaDevice {
public:
    using CudaDevice::CudaDevice;
    ~GraphDevice() override;
    device::StreamId create_stream(bool timed) override;

protected:
    using Result = device::cuda::Result;
    using StreamId = device::StreamId;
    using DevicePointer = device::cuda::DevicePointer;
    using DriverEvent = device::cuda::DriverEvent;
    Result put_copy_in(StreamId stream, DevicePointer to, const void* from, size_t bytes) override;
    Result put_copy_out(StreamId stream, void* to, DevicePointer from, size_t bytes) override;
    Result put_rows(StreamId stream, const device::cuda::Copy2D& rows) override;
    Result put_kernel(StreamId stream, const device::cuda::KernelCall& kernel, device::BatchView& view,
                      void* tables) override;
    Result put_record(StreamId stream, DriverEvent event) override;
    Result put_word(StreamId stream, DevicePointer word, uint32_t value) override;
    Result put_wait(StreamId stream, DriverEvent event, bool foreign) override;

private:
    Result submit(StreamId stream);
    std::vector<std::unique_ptr<BatchCalls>> calls_;  // by stream; null for timed ones
};

/// Such a GPU. Throws DeviceError.
std::shared_ptr<device::Device> open_graph_device(unsigned ordinal, const std::string& keep_kernels);

}  // namespace millrace::lab
