#include "millrace/nf/ipsec/state.hpp"

#include <algorithm>
#include <cstring>

namespace millrace::nf::ipsec {

SaState::SaState(size_t slots)
    : tickets(std::make_shared<std::vector<uint64_t>>(slots)),
      windows(std::make_shared<std::vector<uint64_t>>(slots * kWindowWords)), window_locks(slots) {
    records_.reserve(slots);
}

SaState::~SaState() {
    for (uint32_t slot = 0; slot < records_.size(); ++slot) {
        Record& record = records_[slot];
        if (file_ != nullptr && record.reserved > 0)
            file_->reserve(record.identity, std::min(record.reserved, given_out(slot)));
        explicit_bzero(record.identity.data(), record.identity.size());
    }
    try {
        if (file_ != nullptr) file_->commit();
    } catch (const std::exception&) {  // the file says more than was used: no harm
    }
}

std::optional<uint32_t> SaState::slot_of(const std::string& identity) {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_identity_.find(identity); found != by_identity_.end()) return found->second;
    if (by_identity_.size() == slots()) return std::nullopt;
    const auto slot = static_cast<uint32_t>(by_identity_.size());
    by_identity_.emplace(identity, slot);
    Record record;
    record.identity = identity;
    record.before = file_ != nullptr ? file_->reserved(identity) : 0;
    records_.push_back(std::move(record));
    return slot;
}

}  // namespace millrace::nf::ipsec
