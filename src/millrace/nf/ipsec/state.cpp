#include "millrace/nf/ipsec/state.hpp"

namespace millrace::nf::ipsec {

SaState::SaState(size_t slots)
    : tickets(std::make_shared<std::vector<uint64_t>>(slots)),
      windows(std::make_shared<std::vector<uint64_t>>(slots * kWindowWords)), window_locks(slots) {}

std::optional<uint32_t> SaState::slot_of(const std::string& identity) {
    const std::lock_guard lock(mutex_);
    if (const auto found = by_identity_.find(identity); found != by_identity_.end()) return found->second;
    if (by_identity_.size() == slots()) return std::nullopt;
    const auto slot = static_cast<uint32_t>(by_identity_.size());
    by_identity_.emplace(identity, slot);
    return slot;
}

}  // namespace millrace::nf::ipsec
