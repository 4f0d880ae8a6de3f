// Sequence numbers and anti-replay windows, which outlive a configuration.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "millrace/nf/ipsec/model.hpp"

namespace millrace::nf::ipsec {

/// The state of all SAs that a node ever had, by what they are and not by where they stand. A slot is
/// never given to another SA: an SA that is taken out and comes back with the same key goes on
/// counting where it stopped, and the tables of the generation before stay right while both run.
/// Shared by all generations of a node.
class SaState {
public:
    explicit SaState(size_t slots);

    /// The slot of an identity, the same for ever. Nothing when all slots are given out.
    std::optional<uint32_t> slot_of(const std::string& identity);
    size_t slots() const { return tickets->size(); }

    const std::shared_ptr<std::vector<uint64_t>> tickets;  ///< see Tables::tickets
    const std::shared_ptr<std::vector<uint64_t>> windows;  ///< see Tables::windows
    /// One an SA slot, for CPU halves: SAs stay with one worker as long as steering keeps them there,
    /// and a window must not break where it does not.
    std::vector<std::atomic_flag> window_locks;

private:
    std::mutex mutex_;
    std::map<std::string, uint32_t> by_identity_;
};

}  // namespace millrace::nf::ipsec
