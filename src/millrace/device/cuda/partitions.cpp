#include "millrace/device/cuda/partitions.hpp"

#include <algorithm>

namespace millrace::device::cuda {
namespace {

// Numbers as the manual of the driver API gives them.
constexpr int kSmResource = 1;
constexpr unsigned kGreenDefaultStream = 1, kStreamNonBlocking = 1;
/// Groups need not lie so that clusters of blocks have room, which no kernel here asks for: they can be smaller then.
constexpr unsigned kIgnoreClusters = 1;
/// Asked for the fewest SMs, the driver makes groups of the least that it can.
constexpr unsigned kFewestSms = 1;

}  // namespace

void Partitions::open(DeviceOrdinal device) { device_ = device; }

void Partitions::close() {
    const std::lock_guard lock(mutex_);
    for (const auto& [sms, context] : contexts_) driver_.green_context_destroy(context);
    contexts_.clear();
}

/// All SMs in groups of neighbours, of which partitions are made.
Result Partitions::split() {
    if (!groups_.empty()) return kSuccess;
    if (driver_.green_context_create == nullptr) return kNotSupported;
    DeviceResource all, rest;
    if (const Result result = driver_.device_resource(device_, &all, kSmResource); result != kSuccess) return result;
    unsigned count = 0;
    Result result = kNotSupported;
    std::vector<DeviceResource> groups;
    for (const unsigned flags : {kIgnoreClusters, 0u}) {
        result = driver_.resource_split(nullptr, &count, &all, nullptr, flags, kFewestSms);
        if (result != kSuccess || count == 0) continue;
        groups.resize(count);
        result = driver_.resource_split(groups.data(), &count, &all, &rest, flags, kFewestSms);
        if (result == kSuccess) break;
    }
    if (result != kSuccess || count == 0) return result != kSuccess ? result : kNotSupported;
    groups.resize(count);
    group_sms_ = groups.front().sms;
    const bool equal = std::ranges::all_of(groups, [&](const DeviceResource& one) { return one.sms == group_sms_; });
    if (group_sms_ == 0 || !equal) return kNotSupported;
    groups_ = std::move(groups);
    return kSuccess;
}

Result Partitions::make(schedule::SmRange sms, GreenContext* context) {
    const std::lock_guard lock(mutex_);
    if (const Result result = split(); result != kSuccess) return result;
    const auto known = contexts_.find({sms.first, sms.count});
    if (known != contexts_.end()) {
        *context = known->second;
        return kSuccess;
    }
    const uint32_t first = sms.first / group_sms_, count = sms.count / group_sms_;
    if (sms.first % group_sms_ != 0 || sms.count % group_sms_ != 0 || count == 0 || first + count > groups_.size())
        return kNotSupported;
    ResourceDescription description = nullptr;
    Result result = driver_.resource_describe(&description, groups_.data() + first, count);
    if (result == kSuccess) result = driver_.green_context_create(context, description, device_, kGreenDefaultStream);
    if (result == kSuccess) contexts_[{sms.first, sms.count}] = *context;
    return result;
}

std::optional<schedule::Gpu> Partitions::grid() {
    const std::lock_guard lock(mutex_);
    if (split() != kSuccess) return std::nullopt;
    return schedule::Gpu{group_sms_ * static_cast<uint32_t>(groups_.size()), group_sms_, group_sms_};
}

Result Partitions::prepare(schedule::SmRange sms) {
    GreenContext context = nullptr;
    return sms.all() ? kSuccess : make(sms, &context);
}

Result Partitions::create_stream(Stream* stream, schedule::SmRange sms) {
    if (sms.all()) return driver_.stream_create(stream, kStreamNonBlocking);
    GreenContext context = nullptr;
    const Result result = make(sms, &context);
    return result == kSuccess ? driver_.green_stream_create(stream, context, kStreamNonBlocking, 0) : result;
}

}  // namespace millrace::device::cuda
