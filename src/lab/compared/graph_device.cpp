#include "lab/compared/graph_device.hpp"

namespace millrace::lab {

GraphDevice::~GraphDevice() {
    enter();
    calls_.clear();
}

/// At the start, before any packet flows.
device::StreamId GraphDevice::create_stream(bool timed) {
    const StreamId stream = CudaDevice::create_stream(timed);
    if (calls_.size() <= stream) calls_.resize(size_t{stream} + 1);
    if (!timed) calls_[stream] = std::make_unique<BatchCalls>(driver(), context());
    return stream;
}

GraphDevice::Result GraphDevice::put_copy_in(StreamId stream, DevicePointer to, const void* from, size_t bytes) {
    if (calls_[stream] == nullptr) return CudaDevice::put_copy_in(stream, to, from, bytes);
    calls_[stream]->copy_to_device(to, from, bytes);
    return device::cuda::kSuccess;
}

GraphDevice::Result GraphDevice::put_copy_out(StreamId stream, void* to, DevicePointer from, size_t bytes) {
    if (calls_[stream] == nullptr) return CudaDevice::put_copy_out(stream, to, from, bytes);
    calls_[stream]->copy_to_host(to, from, bytes);
    return device::cuda::kSuccess;
}

GraphDevice::Result GraphDevice::put_rows(StreamId stream, const device::cuda::Copy2D& rows) {
    if (calls_[stream] == nullptr) return CudaDevice::put_rows(stream, rows);
    calls_[stream]->copy_rows(rows);
    return device::cuda::kSuccess;
}

GraphDevice::Result GraphDevice::put_kernel(StreamId stream, const device::cuda::KernelCall& kernel,
                                            device::BatchView& view, void* tables) {
    if (calls_[stream] == nullptr) return CudaDevice::put_kernel(stream, kernel, view, tables);
    calls_[stream]->launch(kernel, view, tables);
    return device::cuda::kSuccess;
}

GraphDevice::Result GraphDevice::put_record(StreamId stream, DriverEvent event) {
    if (calls_[stream] == nullptr) return CudaDevice::put_record(stream, event);
    calls_[stream]->record(event);
    return submit(stream);
}

GraphDevice::Result GraphDevice::put_word(StreamId stream, DevicePointer word, uint32_t value) {
    if (calls_[stream] == nullptr) return CudaDevice::put_word(stream, word, value);
    calls_[stream]->write_word(word, value);
    return submit(stream);
}

GraphDevice::Result GraphDevice::put_wait(StreamId stream, DriverEvent event, bool foreign) {
    if (calls_[stream] == nullptr) return CudaDevice::put_wait(stream, event, foreign);
    calls_[stream]->wait(event, foreign);
    return device::cuda::kSuccess;
}

GraphDevice::Result GraphDevice::submit(StreamId stream) { return calls_[stream]->submit(driver_stream(stream)); }

std::shared_ptr<device::Device> open_graph_device(unsigned ordinal, const std::string& keep_kernels) {
    device::cuda::CudaOptions options;
    options.ordinal = static_cast<int>(ordinal);
    options.kernels.keep = keep_kernels;
    return std::make_shared<GraphDevice>(options);
}

}  // namespace millrace::lab
