// The functions of tenants in a chain that goes through a device in one piece.
#pragma once

#include <memory>
#include <vector>

#include "millrace/exec/tenants.hpp"
#include "millrace/tenancy/manager/placer.hpp"
#include "millrace/tenancy/manager/seat.hpp"

namespace millrace::tenancy {

class Manager;

/// Those of one worker and chain. Ready while each is attached, and placed with room for the chain's batches, and all
/// are linked.
class SeatsOfChain : public exec::ChainTenants {
public:
    SeatsOfChain(Manager& manager, Placer& placer, std::shared_ptr<const chain::Program> undivided, unsigned worker);

    bool ready() override;
    std::shared_ptr<exec::TenantsInChain> settle() override;
    bool holds() override;

private:
    /// Of a tenant.
    struct Place {
        size_t first_counter = 0;  ///< of it in BatchView::outcome_counts
        uint32_t absent = 0;
        Terms terms;
        Seat* seat = nullptr;
        std::shared_ptr<QueueCounters> counters;
        uint64_t version = UINT64_MAX;  ///< of the seat, when `attachment` was the one there
        std::shared_ptr<Attachment> attachment;
    };
    class Settled;
    static bool is_there(const Place& place);

    Placer& placer_;
    const std::shared_ptr<const chain::Program> program_;
    const unsigned worker_;
    std::vector<Place> places_;
    std::shared_ptr<const Placer::Linked> linked_;  // of those who are there
    std::shared_ptr<Settled> settled_;
};

}  // namespace millrace::tenancy
