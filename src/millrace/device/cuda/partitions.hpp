// Parts of a GPU's multiprocessors (SMs), as green contexts of the driver.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "millrace/device/cuda/driver.hpp"
#include "millrace/schedule/plan.hpp"

namespace millrace::device::cuda {

/// Makes streams whose kernels run on some SMs. A partition is made once and stays until the end. Any thread.
class Partitions {
public:
    explicit Partitions(const Driver& driver) : driver_(driver) {}
    /// Of this GPU, whose primary context is current and stays until `close`.
    void open(DeviceOrdinal device);
    /// Streams of partitions must have been destroyed.
    void close();

    /// Of how many SMs there can be partitions, and by how many they grow; nothing where there are none.
    std::optional<schedule::Gpu> grid();
    /// Makes the partition if there is none yet. kNotSupported where the driver or the GPU has no partitions, or none
    /// of that size at that place.
    Result prepare(schedule::SmRange sms);
    /// A stream like `cuStreamCreate`'s; its kernels run on `sms`.
    Result create_stream(Stream* stream, schedule::SmRange sms);

private:
    Result split();
    Result make(schedule::SmRange sms, GreenContext* context);

    const Driver& driver_;
    std::mutex mutex_;
    DeviceOrdinal device_ = 0;
    std::vector<DeviceResource> groups_;  ///< of the least SMs that a partition can have; empty: not asked yet
    uint32_t group_sms_ = 0;              ///< of each
    std::map<std::pair<uint32_t, uint32_t>, GreenContext> contexts_;  ///< by first SM and their count
};

}  // namespace millrace::device::cuda
