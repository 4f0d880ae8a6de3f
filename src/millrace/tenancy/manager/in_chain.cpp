#include "millrace/tenancy/manager/in_chain.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "millrace/device/node_counters.hpp"
#include "millrace/tenancy/manager/manager.hpp"

namespace millrace::tenancy {

using chain::AbsentFor;
using device::Status;

/// They stay as they are: whoever leaves is still asked about the packets that are under way to it.
class SeatsOfChain::Settled : public exec::TenantsInChain {
public:
    Settled(const std::vector<Place>& places, unsigned worker) {
        for (const Place& place : places) {
            One& own = ones_.emplace_back();
            own.node = place.node;
            own.first_counter = place.first_counter;
            own.absent = place.absent;
            own.counters = place.counters;
            own.attachment = place.attachment;
            own.function = place.attachment->placed();
            own.pass = own.function->pass(worker);
            own.lane = &place.attachment->lane(worker);
        }
    }

    unsigned take_place() override {
        const auto free = std::ranges::find(taken_, false);
        assert(free != taken_.end());
        *free = true;
        return static_cast<unsigned>(free - taken_.begin());
    }

    Status run(device::StreamId stream, const device::LoadedProgram& program, size_t enter,
               const device::BatchView& batch, unsigned place) const override {
        const auto own = std::ranges::find(ones_, program.steps()[enter].first, &One::node);
        return own->pass->run(stream, program, enter, batch, place);
    }

    void leave(unsigned place, const uint32_t* outcomes) override {
        taken_[place] = false;
        for (const One& own : ones_) {
            const uint32_t* const of_node = outcomes + own.first_counter;
            uint64_t answered = 0;
            for (uint32_t outcome = 0; outcome < own.absent; ++outcome) answered += of_node[outcome];
            const uint64_t absent = of_node[own.absent], wrong = std::min<uint64_t>(of_node[own.absent + 1], absent);
            own.counters->taken.add(answered + absent);
            own.counters->answered.add(answered);
            own.counters->absent[static_cast<size_t>(AbsentFor::wrong)].add(wrong);
            own.counters->absent[static_cast<size_t>(AbsentFor::too_long)].add(absent - wrong);
            if (answered + absent > 0) own.lane->passed(std::chrono::nanoseconds(own.pass->took_ns(place)), wrong > 0);
        }
    }

private:
    struct One {
        size_t node = 0, first_counter = 0;
        uint32_t absent = 0;
        std::shared_ptr<QueueCounters> counters;
        std::shared_ptr<Attachment> attachment;
        std::shared_ptr<ConfinedFunction> function;
        const ConfinedPass* pass = nullptr;
        Lane* lane = nullptr;
    };
    std::vector<One> ones_;
    std::array<bool, ConfinedPass::kPlaces> taken_{};
};

SeatsOfChain::SeatsOfChain(Manager& manager, const chain::Program& undivided, unsigned worker) : worker_(worker) {
    for (size_t i = 0; i < undivided.nodes.size(); ++i) {
        const chain::TenantFunction* const function = chain::tenant_of(undivided.nodes[i]);
        if (function == nullptr) continue;
        Place& own = places_.emplace_back();
        own.node = i;
        own.first_counter = i * device::counters_of_node(undivided);
        own.absent = function->absent();
        own.terms = terms_of(*function);
        own.seat = &manager.seat(function->tenant().name);
        own.counters = own.seat->new_counters();
    }
}

bool SeatsOfChain::is_there(const Place& place, unsigned worker) {
    if (place.attachment == nullptr || !place.attachment->attached()) return false;
    ConfinedFunction* const function = place.attachment->confined();
    return function != nullptr && function->pass(worker) != nullptr && place.attachment->terms() == place.terms;
}

bool SeatsOfChain::ready() {
    return std::ranges::all_of(places_, [this](Place& place) {
        if (const uint64_t version = place.seat->version(); version != place.version) {
            place.version = version;
            place.attachment = place.seat->current();
        }
        return is_there(place, worker_);
    });
}

std::shared_ptr<exec::TenantsInChain> SeatsOfChain::settle() {
    settled_ = ready() ? std::make_shared<Settled>(places_, worker_) : nullptr;
    return settled_;
}

bool SeatsOfChain::holds() {
    return settled_ != nullptr && std::ranges::all_of(places_, [this](const Place& place) {
               return place.seat->version() == place.version && is_there(place, worker_);
           });
}

}  // namespace millrace::tenancy
