// Which SAs may still be used, and up to which sequence number: lifetimes, and numbers reserved on disk.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "millrace/nf/ipsec/options.hpp"
#include "millrace/nf/ipsec/sa/state.hpp"

namespace millrace::nf::ipsec {

/// What the tables of one generation say of SAs beside what they are.
struct Standing {
    std::vector<uint64_t> limits;    ///< see Tables::limits
    std::vector<uint32_t> protects;  ///< by policy: the SA that its packets go into now
    std::vector<bool> dead;          ///< by SA: inbound ones are not known any more
    friend bool operator==(const Standing&, const Standing&) = default;
};

/// Follows the SAs of one configuration. One thread at a time.
class Lifetimes {
public:
    using Clock = SaState::Clock;
    /// Told when an SA comes near its end, or to it.
    using OnEnd = std::function<void(const SaOptions&, Age)>;
    /// `slots`: of each SA.
    Lifetimes(std::shared_ptr<const Options> options, std::shared_ptr<SaState> state, std::vector<uint32_t> slots,
              OnEnd on_end, Reporter warn);

    /// Whether anything can change at all.
    bool followed() const { return followed_; }
    /// How things stand now. Sets sequence numbers aside on disk where half of them are used, and tells what has come
    /// to an end. Throws std::runtime_error when the disk refuses and nothing is left.
    Standing look(Clock::time_point now);

private:
    Age age_of(size_t sa, Clock::time_point now) const;
    void tell(size_t sa, Age age);
    void reserve(const std::vector<Age>& ages);
    uint32_t chosen(const PolicyOptions& policy, const std::vector<Age>& ages) const;

    std::shared_ptr<const Options> options_;
    std::shared_ptr<SaState> state_;
    std::vector<uint32_t> slots_;
    OnEnd on_end_;
    Reporter warn_;
    bool followed_ = false;
    bool told_disk_ = false;
};

}  // namespace millrace::nf::ipsec
