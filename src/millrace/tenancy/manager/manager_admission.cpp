// Whether tenants whose device halves were measured have room for what they were promised.
#include <sys/eventfd.h>

#include <algorithm>

#include "millrace/tenancy/manager/manager.hpp"

namespace millrace::tenancy {

namespace {

chain::MeasuredTenant measured(const std::string& name, const ConfinedFunction& function) {
    return {name, function.model(), function.batch_packets()};
}

}  // namespace

/// With the lock.
chain::TenantsOnDevice Manager::those_on_device() const {
    chain::TenantsOnDevice present;
    if (placer_ == nullptr) return present;
    present.gpu = placer_->device().partitions();
    std::vector<std::pair<Attachment::Clock::time_point, chain::MeasuredTenant>> all;
    for (const auto& [name, seat] : seats_)
        if (const auto current = seat->current(); current != nullptr && current->attached())
            if (const ConfinedFunction* const confined = current->confined(); confined != nullptr)
                if (confined->model().most_of_sm != 0)
                    all.emplace_back(current->placed_at(), measured(name, *confined));
    std::ranges::stable_sort(all, {}, [](const auto& one) { return one.first; });
    for (auto& [since, tenant] : all) present.tenants.push_back(std::move(tenant));
    return present;
}

/// On the placer's thread, also of one that it is about to open.
std::vector<Placer::Chain> Manager::chains_in_one_piece() {
    std::vector<Placer::Chain> all;
    const std::lock_guard lock(mutex_);
    for (const auto& program : undivided_) {
        Placer::Chain chain{program, {}};
        const bool whole = std::ranges::all_of(program->nodes, [&](const chain::Node& node) {
            const chain::TenantFunction* const function = chain::tenant_of(node);
            if (function == nullptr) return true;
            const auto seat = seats_.find(function->tenant().name);
            const auto attachment = seat == seats_.end() ? nullptr : seat->second->current();
            if (attachment == nullptr ||
                !attachment->goes_in_one_piece(attachment->placed().get(), terms_of(*function)))
                return false;
            chain.tenants.push_back(attachment);
            return true;
        });
        if (whole) all.push_back(std::move(chain));
    }
    return all;
}

/// On the placer's thread: who was placed before is on the device.
bool Manager::admit(Attachment& attachment, const ConfinedFunction& function) {
    const std::string& name = attachment.name();
    const chain::MeasuredTenant next = measured(name, function);
    chain::Demand demand;
    chain::TenantsOnDevice present;
    {
        const std::lock_guard lock(mutex_);
        demand = demand_;
        present = those_on_device();
    }
    const auto no_room = refusal_of(demand, std::move(present), next);
    const std::lock_guard lock(mutex_);
    ++changes_;
    if (!no_room) {
        refused_.erase(name);
        return true;
    }
    refused_[name] = {attachment.process(), next, no_room->text, 0};
    reporter_(no_room->whole);
    attachment.part(Parting::refused);
    eventfd_write(called_.get(), 1);
    return false;
}

/// With the lock. Of a process that was refused what was measured is known: it is let in where there is room by now.
std::string Manager::no_room_for(const std::string& name, pid_t process) {
    const auto own = refused_.find(name);
    if (own == refused_.end() || own->second.process != process) return {};
    Refused& refused = own->second;
    if (refused.as_of != changes_) {
        const auto no_room = refusal_of(demand_, those_on_device(), refused.measured);
        refused.as_of = changes_;
        if (!no_room) return {};
        refused.why = no_room->text;
    }
    return refused.why;
}

}  // namespace millrace::tenancy
