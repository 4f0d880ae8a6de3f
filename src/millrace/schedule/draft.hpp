// A plan in the making. For plan.cpp.
#pragma once

#include <optional>
#include <vector>

#include "millrace/schedule/plan.hpp"

namespace millrace::schedule {

/// Partitions and who is in them. What is tried and does not work leaves it as it was. Refers to the tenants.
class Draft {
public:
    /// Batches that wait for longer are larger, so that the bus begins anew less often.
    static constexpr double kCycles[] = {0, 50'000, 200'000, 800'000, 3'200'000, 12'800'000, 51'200'000, 204'800'000};

    /// `least_cycle_ns`: batches of a tenant begin no sooner than that after each other.
    Draft(const std::vector<Tenant>& tenants, const Gpu& gpu, double least_cycle_ns = 0);

    /// A partition without tenants, for join. It must fit.
    size_t add_empty(uint32_t sms);
    /// A tenant takes turns with those of a partition; false where a promise would break.
    bool join(size_t part, size_t tenant, Stop* stop = nullptr);
    /// On SMs of its own, else with others, else with others that get more SMs.
    bool place_apart(size_t tenant);
    /// These tenants anew, on as few SMs as can be found.
    std::optional<Draft> packed(std::vector<size_t> tenants) const;
    /// Why `place_apart` can't place it.
    Refusal why_not(size_t tenant) const;
    /// Hands out the SMs that are left: by weight to those that more comes for than they were promised, then to all.
    void share_out();
    /// Partitions and assignments.
    void write(Plan& plan) const;

private:
    struct Part {
        uint32_t sms = 0;
        uint32_t needed = 0;  ///< before anything was shared out; 0: it was not yet
        std::vector<size_t> tenants;
        Turn turn;
        std::vector<double> rates;  ///< that it is settled for, by its tenants
        double bus = 0;
    };
    /// The partition with so many SMs and one tenant more, if that keeps all promises and the bus has room.
    std::optional<Part> with(const Part& part, uint32_t sms, std::optional<size_t> tenant, Stop* stop) const;
    bool replace(size_t number, std::optional<Part> part);
    bool open(size_t tenant);
    bool join_any(size_t tenant);
    bool grow_any(size_t tenant);
    /// Settles a partition for more of what comes; whether that is all.
    bool raise(Part& part);
    double bus() const;

    const std::vector<Tenant>* tenants_;
    Gpu gpu_;
    double least_cycle_ns_;
    uint32_t free_;
    std::vector<Part> parts_;
    std::vector<uint32_t> alone_;  ///< by tenant: fewest SMs by itself; 0: all are too few
    std::vector<Stop> stops_;      ///< then: why
};

}  // namespace millrace::schedule
