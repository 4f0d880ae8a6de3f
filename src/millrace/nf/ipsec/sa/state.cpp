#include "millrace/nf/ipsec/sa/state.hpp"

#include <algorithm>
#include <cstring>

namespace millrace::nf::ipsec {

SaState::SaState(size_t slots, std::chrono::nanoseconds rest)
    : tickets(std::make_shared<std::vector<uint64_t>>(slots)),
      windows(std::make_shared<std::vector<uint64_t>>(slots * kWindowWords)),
      bytes(std::make_shared<std::vector<uint64_t>>(slots)), window_locks(slots), ages(slots), rest_(rest) {
    records_.reserve(slots);
}

SaState::~SaState() {
    for (uint32_t slot = 0; slot < records_.size(); ++slot) {
        Record& record = records_[slot];
        if (file_ != nullptr && record.reserved > 0)
            file_->reserve(record.identity, std::min(record.reserved, given_out(slot)));
        explicit_bzero(record.identity.data(), record.identity.size());
    }
    if (file_ != nullptr) file_->write();  // where the disk refuses, the file says more than was used: no harm
}

std::optional<uint32_t> SaState::slot_of(const std::string& identity, bool inbound, uint64_t used_bytes) {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_identity_.find(identity); found != by_identity_.end()) {
        std::erase_if(retired_, [&](const auto& retired) { return retired.second == found->second; });
        return found->second;
    }
    uint32_t slot = 0;
    Record record;
    if (!retired_.empty() && Clock::now() - retired_.front().first >= rest_) {
        slot = retired_.front().second;
        retired_.pop_front();
        take_back(records_[slot]);
        record.tickets_before = (*tickets)[slot];
        record.bytes_before = (*bytes)[slot];
        ages[slot] = Age::young;
    } else if (records_.size() < slots()) {
        slot = static_cast<uint32_t>(records_.size());
        records_.emplace_back();
    } else {
        return std::nullopt;
    }
    by_identity_.emplace(identity, slot);
    record.bytes_before -= used_bytes;
    record.told_bytes = used_bytes;
    record.identity = identity;
    record.inbound = inbound;
    const uint64_t used = file_ != nullptr && !inbound ? file_->reserved(identity) : 0;
    record.before = inbound ? window_base((*windows)[slot * kWindowWords]) : used - record.tickets_before;
    records_[slot] = std::move(record);
    return slot;
}

/// The slot of `record` goes to another SA. On disk there stays what it has used, while there is room.
void SaState::take_back(Record& record) {
    constexpr size_t kMaxOnDisk = 100000;
    by_identity_.erase(record.identity);
    if (file_ != nullptr && file_->size() > kMaxOnDisk) file_->forget(record.identity);
    explicit_bzero(record.identity.data(), record.identity.size());
}

void SaState::retire(const std::string& identity) {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_identity_.find(identity); found != by_identity_.end())
        retired_.emplace_back(Clock::now(), found->second);
}

}  // namespace millrace::nf::ipsec
