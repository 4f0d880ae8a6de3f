// Batches of a chain in one piece, through a tenant's function.
#include <algorithm>

#include "millrace/chain/tenants/tenant.hpp"
#include "millrace/tenancy/gpu/confined.hpp"

namespace millrace::tenancy {

using device::Status;

ConfinedPass::ConfinedPass(ConfinedFunction& function, device::Address begin, uint32_t packets)
    : function_(function), packets_(packets), took_ns_(device::host_array<uint64_t>(function.device_, kPlaces)),
      memory_(function.device_, sizeof places_, "a tenant's places in its chain") {
    const ConfinedTerms& terms = function_.terms_;
    for (device::ConfinedPlace& place : places_) {
        place.handles = begin;
        place.stride = function_.pass_stride_;
        place.room = function_.pass_room_;
        place.decisions = begin + uint64_t{packets} * place.stride;
        place.sees = terms.sees.bits;
        place.changes = terms.changes.bits;
        place.outcomes = static_cast<uint32_t>(function_.to_terms_.size());
        place.absent = terms.shape.outcomes;
        place.for_wrong = static_cast<uint32_t>(chain::AbsentFor::wrong);
        place.for_too_long = static_cast<uint32_t>(chain::AbsentFor::too_long);
        place.took_ns = took_ns_.get() + (&place - places_);
        std::ranges::copy(function_.to_terms_, place.to_chain);
        begin += function_.place_bytes();
    }
    std::fill_n(took_ns_.get(), kPlaces, 0);
    function_.bring(memory_.address(), places_, sizeof places_);
}

/// As many packets at once as there is room for.
Status ConfinedPass::run(device::StreamId stream, const device::LoadedProgram& program, size_t enter,
                         device::BatchView batch, unsigned place) const {
    device::Device& device = function_.device_;
    const device::ConfinedPlace& own = places_[place];
    batch.confined = reinterpret_cast<device::ConfinedPlace*>(memory_.address()) + place;
    Status status = Status::ok;
    for (uint32_t first = 0; first < batch.count && status == Status::ok; first += packets_) {
        batch.confined_first = first;
        batch.confined_count = std::min(packets_, batch.count - first);
        status = device.launch(stream, program, enter, batch);
        if (status == Status::ok)
            status = device.launch_fenced(stream, *function_.code_,
                                          {.packets = own.handles,
                                           .stride = own.stride,
                                           .tables = function_.tables_,
                                           .decisions = own.decisions,
                                           .count = batch.confined_count});
        if (status == Status::ok) status = device.launch(stream, program, enter + 1, batch);
    }
    return status;
}

}  // namespace millrace::tenancy
