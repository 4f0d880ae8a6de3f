// What a runtime does for network functions that look after their state (nf::Tended).
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/nf/tended.hpp"

namespace millrace::exec {
namespace {

/// By then the packets that a generation had under way when it was replaced are through.
constexpr std::chrono::seconds kUnderWay{1};

template <class Visit>
void each_tended(const chain::Configuration& configuration, Visit&& visit) {
    for (const auto& program : configuration.chains)
        for (const chain::Node& node : program->nodes)
            if (auto* const tended = dynamic_cast<nf::Tended*>(node.nf.get())) visit(*tended, *node.nf);
}

/// Whether a function of the configuration is this one, or goes on with what it keeps.
bool goes_on(const chain::Configuration& configuration, const nf::NetworkFunction& before) {
    bool any = false;
    each_tended(configuration, [&](const nf::Tended& tended, const nf::NetworkFunction& own) {
        any = any || &own == &before || tended.goes_on_with(before);
    });
    return any;
}

}  // namespace

/// `before` is not at work any more; `ready` keeps its state on the devices.
void Runtime::retire(std::shared_ptr<const chain::Configuration> before, std::vector<Ready> ready) {
    std::vector<nf::NetworkFunction*> ended;
    each_tended(*before, [&](const nf::Tended&, nf::NetworkFunction& nf) {
        if (!goes_on(*configuration_, nf)) ended.push_back(&nf);
    });
    if (!ended.empty())
        ending_.push_back({std::move(before), std::move(ready), std::move(ended), std::chrono::steady_clock::now()});
    look_for_tended();
}

void Runtime::end_retired(bool all) {
    const auto now = std::chrono::steady_clock::now();
    std::erase_if(ending_, [&](const Ending& ending) {
        if (!all && now - ending.since < kUnderWay) return false;
        for (nf::NetworkFunction* const nf : ending.functions) dynamic_cast<nf::Tended&>(*nf).end(device_states());
        return true;
    });
}

void Runtime::look_for_tended() {
    has_tended_ = !ending_.empty();
    each_tended(*configuration(), [this](const nf::Tended&, const nf::NetworkFunction&) { has_tended_ = true; });
}

void Runtime::tend() {
    if (!has_tended_) return;
    {
        const std::lock_guard changing(changing_);
        end_retired(false);
        look_for_tended();
    }
    const auto current = configuration();
    each_tended(*current, [this](nf::Tended& tended, const nf::NetworkFunction&) { tended.tend(device_states()); });
}

void Runtime::end_tended() {
    end_retired(true);
    each_tended(*configuration(),
                [this](nf::Tended& tended, const nf::NetworkFunction&) { tended.end(device_states()); });
}

}  // namespace millrace::exec
