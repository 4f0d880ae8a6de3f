#include "millrace/tenancy/manager/in_chain.hpp"

#include <algorithm>
#include <array>
#include <cassert>

#include "millrace/device/node_counters.hpp"
#include "millrace/tenancy/manager/manager.hpp"

namespace millrace::tenancy {

using chain::AbsentFor;
using device::ConfinedCount;
using device::Status;

/// They stay as they are: whoever leaves is still asked about the packets that are under way to it.
class SeatsOfChain::Settled : public exec::TenantsInChain {
public:
    Settled(const std::vector<Place>& places, std::shared_ptr<const Placer::Linked> linked, unsigned worker)
        : linked_(std::move(linked)), chain_(*linked_->get()), worker_(worker) {
        for (const Place& place : places) {
            One& own = ones_.emplace_back();
            own.first_counter = place.first_counter;
            own.absent = place.absent;
            own.counters = place.counters;
            own.attachment = place.attachment;
            own.lane = &place.attachment->lane(worker);
        }
    }

    unsigned take_place() override {
        const auto free = std::ranges::find(taken_, false);
        assert(free != taken_.end());
        *free = true;
        return static_cast<unsigned>(free - taken_.begin());
    }

    Status run(device::StreamId stream, const device::Step& step, const device::BatchView& batch,
               unsigned place) const override {
        return chain_.run(stream, step, batch, worker_, place);
    }

    void leave(unsigned place, const uint32_t* outcomes) override {
        taken_[place] = false;
        for (const One& own : ones_) {
            const uint32_t* const of_node = outcomes + own.first_counter;
            uint64_t answered = 0;
            for (uint32_t outcome = 0; outcome < own.absent; ++outcome) answered += of_node[outcome];
            const auto more = [&](ConfinedCount which) {
                return uint64_t{of_node[own.absent + static_cast<uint32_t>(which)]};
            };
            const uint64_t absent = of_node[own.absent], wrong = std::min(more(ConfinedCount::wrong), absent);
            own.counters->taken.add(answered + absent);
            own.counters->answered.add(answered);
            own.counters->absent[static_cast<size_t>(AbsentFor::wrong)].add(wrong);
            own.counters->absent[static_cast<size_t>(AbsentFor::too_long)].add(absent - wrong);
            if (answered + absent > 0)
                own.lane->passed(std::chrono::nanoseconds(more(ConfinedCount::longest) * device::kConfinedTickNs),
                                 wrong > 0);
        }
    }

private:
    struct One {
        size_t first_counter = 0;
        uint32_t absent = 0;
        std::shared_ptr<QueueCounters> counters;
        std::shared_ptr<Attachment> attachment;
        Lane* lane = nullptr;
    };
    const std::shared_ptr<const Placer::Linked> linked_;
    const ConfinedChain& chain_;
    const unsigned worker_;
    std::vector<One> ones_;
    std::array<bool, ConfinedPass::kPlaces> taken_{};
};

SeatsOfChain::SeatsOfChain(Manager& manager, Placer& placer, std::shared_ptr<const chain::Program> undivided,
                           unsigned worker)
    : placer_(placer), program_(std::move(undivided)), worker_(worker) {
    for (size_t i = 0; i < program_->nodes.size(); ++i) {
        const chain::TenantFunction* const function = chain::tenant_of(program_->nodes[i]);
        if (function == nullptr) continue;
        Place& own = places_.emplace_back();
        own.first_counter = i * device::counters_of_node(*program_);
        own.absent = function->absent();
        own.terms = terms_of(*function);
        own.seat = &manager.seat(function->tenant().name);
        own.counters = own.seat->new_counters();
    }
}

bool SeatsOfChain::is_there(const Place& place) {
    return place.attachment != nullptr &&
           place.attachment->goes_in_one_piece(place.attachment->confined(), place.terms);
}

bool SeatsOfChain::ready() {
    const bool all = std::ranges::all_of(places_, [this](Place& place) {
        if (const uint64_t version = place.seat->version(); version != place.version) {
            place.version = version;
            place.attachment = place.seat->current();
            linked_.reset();
        }
        return is_there(place);
    });
    if (!all) {
        linked_.reset();
        return false;
    }
    if (linked_ == nullptr) {
        Placer::Chain chain{program_, {}};
        for (const Place& place : places_) chain.tenants.push_back(place.attachment);
        linked_ = placer_.link(chain);
    }
    return linked_->get() != nullptr;
}

std::shared_ptr<exec::TenantsInChain> SeatsOfChain::settle() {
    settled_ = ready() ? std::make_shared<Settled>(places_, linked_, worker_) : nullptr;
    return settled_;
}

bool SeatsOfChain::holds() {
    return settled_ != nullptr && std::ranges::all_of(places_, [this](const Place& place) {
               return place.seat->version() == place.version && is_there(place);
           });
}

}  // namespace millrace::tenancy
