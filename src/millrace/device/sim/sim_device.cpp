#include "millrace/device/sim/sim_device.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "millrace/device/sim/loaded.hpp"

namespace millrace::device::sim {
namespace {

constexpr size_t kAlignment = 256;

}  // namespace

/// Whether a test has asked for faults that end a device, or keep it from ever answering.
static bool breaks_down(const SimOptions& options) {
    return std::any_of(options.faults.begin(), options.faults.end(), [](const Fault& fault) {
        return fault.kind != Fault::Kind::slow || fault.slow_polls > UINT32_MAX;
    });
}

SimDevice::SimDevice(SimOptions options)
    : options_(std::move(options)), breaks_down_(breaks_down(options_)), random_(options_.seed),
      next_address_(kFirstAddress), faults_(options_.faults) {
    if (!breaks_down_) faults_.insert(faults_.end(), all().faults.begin(), all().faults.end());
}

SimDevice::~SimDevice() = default;

std::string SimDevice::describe() const {
    return "simulated GPU (sim:" + std::to_string(options_.number) + ", " +
           std::to_string(options_.memory_bytes >> 20) + " MiB)";
}

Status SimDevice::state() const {
    const std::lock_guard lock(mutex_);
    return state_;
}

Address SimDevice::allocate(size_t bytes, const std::string& what) {
    const std::lock_guard lock(mutex_);
    return allocate_locked(bytes, what);
}

Address SimDevice::allocate_locked(size_t bytes, const std::string& what, std::span<const uint8_t> content) {
    while (allocated_bytes_ + bytes > options_.memory_bytes && !kept_.empty()) {
        free_locked(kept_.front().address);
        kept_.pop_front();
    }
    if (allocated_bytes_ + bytes > options_.memory_bytes)
        throw DeviceError("the simulated device has no " + std::to_string(bytes) + " bytes left for " + what + " (" +
                          std::to_string(options_.memory_bytes - allocated_bytes_) + " are free)");
    const Address address = next_address_;
    allocations_.try_emplace(address, std::max<size_t>(bytes, 1), content);
    // A gap between allocations makes an access behind the end a fault and not a neighbour's data.
    next_address_ += (bytes + 2 * kAlignment) / kAlignment * kAlignment + kAlignment;
    allocated_bytes_ += std::max<size_t>(bytes, 1);
    return address;
}

void SimDevice::free(Address address) {
    const std::lock_guard lock(mutex_);
    free_locked(address);
}

void SimDevice::free_locked(Address address) {
    const auto found = allocations_.find(address);
    if (found == allocations_.end()) return;
    allocated_bytes_ -= std::min(allocated_bytes_, found->second.size());
    allocations_.erase(found);
}

void* SimDevice::allocate_host(size_t bytes) {
    return std::aligned_alloc(kAlignment, (bytes + kAlignment) / kAlignment * kAlignment);
}
void SimDevice::free_host(void* memory) { std::free(memory); }

StreamId SimDevice::create_stream(bool timed) {
    const std::lock_guard lock(mutex_);
    streams_.emplace_back();
    timed_.push_back(timed);
    sms_.emplace_back();
    return static_cast<StreamId>(streams_.size() - 1);
}

void SimDevice::move_stream(StreamId stream, schedule::SmRange sms) {
    const std::lock_guard lock(mutex_);
    sms_.at(stream) = sms;
}

std::shared_ptr<LoadedProgram> SimDevice::load(std::shared_ptr<const chain::Program> program, std::vector<Step> steps) {
    if (state() != Status::ok)
        throw DeviceError(describe() + ": chain '" + program->name + "' can't be loaded: the device has failed");
    return std::make_shared<Loaded>(*this, std::move(program), std::move(steps));
}

std::shared_ptr<LoadedTask> SimDevice::load(const Task& task, const nf::Image& image) {
    return std::make_shared<TaskLoaded>(*this, task, image);
}

uint8_t* SimDevice::memory(Address address, size_t bytes) {
    auto found = allocations_.upper_bound(address);
    if (found == allocations_.begin()) return nullptr;
    --found;
    const Address offset = address - found->first;
    if (offset > found->second.size() || bytes > found->second.size() - offset) return nullptr;
    return found->second.data() + offset;
}

Address SimDevice::share_array(const nf::Image::Array& array) {
    SharedArray& shared = arrays_[array.data];
    if (shared.users == 0) {
        const auto* const data = static_cast<const uint8_t*>(array.data);
        if (const auto kept = take_kept(array)) {
            shared.address = kept->address;
            for (const nf::Revision::Range& range : array.revision->changed)
                std::memcpy(memory(shared.address, array.bytes) + range.first, data + range.first, range.bytes);
            table_bytes_ += array.revision->changed_bytes();
        } else {
            const std::string what = array.is_state() ? "state '" + array.state_name + "'" : "tables";
            // What comes back may have grown.
            const size_t room = array.revision != nullptr ? array.bytes + array.bytes / 8 : array.bytes;
            shared.address = allocate_locked(room, what, {data, array.bytes});
            table_bytes_ += array.bytes;
        }
        shared.revision = array.revision != nullptr ? array.revision->now : 0;
    }
    ++shared.users;
    return shared.address;
}

/// Memory that has what this array's had before.
std::optional<SimDevice::Kept> SimDevice::take_kept(const nf::Image::Array& array) {
    if (array.revision == nullptr || array.revision->before == 0) return std::nullopt;
    const auto found = std::ranges::find_if(kept_, [&](const Kept& kept) {
        return kept.data == array.data && kept.revision == array.revision->before && kept.room >= array.bytes;
    });
    if (found == kept_.end()) return std::nullopt;
    const Kept kept = *found;
    kept_.erase(found);
    return kept;
}

void SimDevice::release_array(const void* data) {
    const auto found = arrays_.find(data);
    if (found == arrays_.end() || --found->second.users > 0) return;
    const SharedArray shared = found->second;
    arrays_.erase(found);
    if (shared.revision == 0) return free_locked(shared.address);
    if (kept_.size() == kMaxKept) {
        free_locked(kept_.front().address);
        kept_.pop_front();
    }
    kept_.push_back({data, shared.address, allocations_.find(shared.address)->second.size(), shared.revision});
}

uint64_t SimDevice::table_bytes() const {
    const std::lock_guard lock(mutex_);
    return table_bytes_;
}

bool SimDevice::copy(void* host, Address address, size_t bytes, bool to_device) {
    if (bytes == 0) return true;
    uint8_t* device = memory(address, bytes);
    if (device == nullptr) return false;
    if (to_device) {
        std::memcpy(device, host, bytes);
    } else {
        std::memcpy(host, device, bytes);
    }
    return true;
}

void SimDevice::inject(const Fault& fault) {
    const std::lock_guard lock(mutex_);
    Fault later = fault;
    later.after_operations += operations_;
    faults_.push_back(later);
}

uint64_t SimDevice::packets() const {
    const std::lock_guard lock(mutex_);
    return packets_;
}

uint64_t SimDevice::packets_on(schedule::SmRange sms) const {
    const std::lock_guard lock(mutex_);
    const auto own = packets_on_.find({sms.first, sms.count});
    return own != packets_on_.end() ? own->second : 0;
}

SimDevice::All& SimDevice::all() {
    static All all;
    return all;
}

}  // namespace millrace::device::sim
