#include "millrace/tenancy/gpu/confined_chain.hpp"

#include <algorithm>

#include "millrace/chain/tenants/tenant.hpp"

namespace millrace::tenancy {

using device::Status;

ConfinedPass::ConfinedPass(ConfinedFunction& function, device::Address begin, uint32_t packets)
    : packets_(packets),
      memory_(function.device_, kPlaces * sizeof(device::ConfinedPlace), "a tenant's places in its chain") {
    const ConfinedTerms& terms = function.terms_;
    device::ConfinedPlace places[kPlaces];
    for (device::ConfinedPlace& place : places) {
        place.handles = begin;
        place.tables = function.tables_;
        place.stride = function.pass_stride_;
        place.room = function.pass_room_;
        place.outcomes = static_cast<uint32_t>(function.to_terms_.size());
        place.absent = terms.shape.outcomes;
        place.for_wrong = static_cast<uint32_t>(chain::AbsentFor::wrong);
        place.for_too_long = static_cast<uint32_t>(chain::AbsentFor::too_long);
        std::ranges::copy(function.to_terms_, place.to_chain);
        begin += function.place_bytes();
    }
    function.bring(memory_.address(), places, sizeof places);
}

device::ConfinedPlace* ConfinedPass::place(unsigned place) const {
    return reinterpret_cast<device::ConfinedPlace*>(memory_.address()) + place;
}

ConfinedChain::ConfinedChain(device::Device& device, const chain::Program& program, Functions functions)
    : device_(device), functions_(std::move(functions)), function_of_(program.stage_count()) {
    uint16_t next = 0;
    for (size_t stage = 0; stage < program.stage_count(); ++stage) {
        function_of_[stage] = next;
        if (program.nodes[program.stage(stage).first].type->is_tenants) ++next;
    }
    std::vector<std::string> texts;
    for (const auto& function : functions_) texts.push_back(function->linkable(static_cast<unsigned>(texts.size())));
    loaded_ = device_.load_confined(program, texts);
}

Status ConfinedChain::run(device::StreamId stream, const device::Step& step, const device::BatchView& batch,
                          unsigned worker, unsigned place) const {
    device::ConfinedWindows windows;
    uint32_t most = batch.count;
    for (uint16_t stage = step.first; stage < step.last; ++stage) {
        const ConfinedPass& pass = functions_[function_of_[stage]]->pass(worker);
        windows.places[stage - step.first] = pass.place(place);
        most = std::min(most, pass.packets());
    }
    Status status = Status::ok;
    for (; windows.first < batch.count && status == Status::ok; windows.first += most) {
        windows.end = std::min(windows.first + most, batch.count);
        status = device_.launch_confined(stream, *loaded_, step.first, batch, windows);
    }
    return status;
}

}  // namespace millrace::tenancy
