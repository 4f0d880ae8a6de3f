#include "millrace/schedule/draft.hpp"

#include <algorithm>

namespace millrace::schedule {

Draft::Draft(const std::vector<Tenant>& tenants, const Gpu& gpu, double least_cycle_ns)
    : tenants_(&tenants), gpu_(gpu), least_cycle_ns_(least_cycle_ns), free_(gpu.sms), alone_(tenants.size()),
      stops_(tenants.size()) {
    for (size_t i = 0; i < tenants.size(); ++i) {
        const Load* const load = &tenants[i].load;
        stops_[i] = {Limit::sms, 0, double(gpu.least), double(gpu.sms)};
        for (uint32_t sms = gpu.least; sms <= gpu.sms && alone_[i] == 0; sms += gpu.grain)
            if (settle({&load, 1}, sms, &stops_[i], least_cycle_ns)) alone_[i] = sms;
    }
}

double Draft::bus() const {
    double sum = 0;
    for (const Part& part : parts_) sum += part.bus;
    return sum;
}

size_t Draft::add_empty(uint32_t sms) {
    parts_.push_back({sms, 0, {}, {}, {}, 0});
    free_ -= sms;
    return parts_.size() - 1;
}

std::optional<Draft::Part> Draft::with(const Part& part, uint32_t sms, std::optional<size_t> tenant, Stop* stop) const {
    Part made{sms, part.needed, part.tenants, {}, part.rates, 0};
    if (tenant) {
        made.tenants.push_back(*tenant);
        made.rates.push_back((*tenants_)[*tenant].load.rate);
    }
    std::vector<Load> loads;
    std::vector<const Load*> views;
    for (size_t i = 0; i < made.tenants.size(); ++i) {
        loads.push_back((*tenants_)[made.tenants[i]].load);
        loads.back().rate = made.rates[i];
    }
    for (const Load& load : loads) views.push_back(&load);
    auto turn = settle(views, sms, stop, least_cycle_ns_);
    if (!turn) return std::nullopt;
    for (size_t i = 0; i < loads.size(); ++i) made.bus += bus_share(loads[i], turn->batches[i]);
    if (const double all = bus() - part.bus + made.bus; all > 1) {
        if (stop != nullptr) *stop = {Limit::bus, loads.size() - 1, all, 1};
        return std::nullopt;
    }
    made.turn = std::move(*turn);
    return made;
}

bool Draft::replace(size_t number, std::optional<Part> part) {
    if (!part) return false;
    free_ = free_ + parts_[number].sms - part->sms;
    parts_[number] = std::move(*part);
    return true;
}

bool Draft::join(size_t part, size_t tenant, Stop* stop) {
    return replace(part, with(parts_[part], parts_[part].sms, tenant, stop));
}

bool Draft::open(size_t tenant) {
    if (alone_[tenant] == 0 || alone_[tenant] > free_) return false;
    auto made = with({}, alone_[tenant], tenant, nullptr);
    if (!made) return false;
    free_ -= made->sms;
    parts_.push_back(std::move(*made));
    return true;
}

bool Draft::join_any(size_t tenant) {
    for (size_t part = 0; part < parts_.size(); ++part)
        if (join(part, tenant)) return true;
    return false;
}

bool Draft::grow_any(size_t tenant) {
    for (uint32_t more = gpu_.grain; more <= free_; more += gpu_.grain)
        for (size_t part = 0; part < parts_.size(); ++part)
            if (replace(part, with(parts_[part], parts_[part].sms + more, tenant, nullptr))) return true;
    return false;
}

bool Draft::place_apart(size_t tenant) {
    return alone_[tenant] != 0 && (open(tenant) || join_any(tenant) || grow_any(tenant));
}

std::optional<Draft> Draft::packed(std::vector<size_t> tenants) const {
    Draft made = *this;
    made.parts_.clear();
    made.free_ = gpu_.sms;
    // The largest first: what is small finds room between them.
    std::stable_sort(tenants.begin(), tenants.end(), [&](size_t a, size_t b) { return alone_[a] > alone_[b]; });
    for (const size_t tenant : tenants)
        if (!made.join_any(tenant) && !made.open(tenant) && !made.grow_any(tenant)) return std::nullopt;
    return made;
}

Refusal Draft::why_not(size_t tenant) const {
    if (alone_[tenant] == 0) return {tenant, stops_[tenant].limit, stops_[tenant].asked, stops_[tenant].possible};
    Stop stop;
    if (alone_[tenant] <= free_ && !with({}, alone_[tenant], tenant, &stop))
        return {tenant, stop.limit, stop.asked, stop.possible};
    return {tenant, Limit::sms, double(alone_[tenant]), double(free_)};
}

bool Draft::raise(Part& part) {
    constexpr int kParts = 8;
    for (int share = kParts; share > 0; --share) {
        Part more = part;
        bool wanted = false;
        for (size_t i = 0; i < part.tenants.size(); ++i) {
            const Tenant& tenant = (*tenants_)[part.tenants[i]];
            const double extra = std::max(tenant.offered - tenant.load.rate, 0.0);
            more.rates[i] = tenant.load.rate + extra * share / kParts;
            wanted |= extra > 0;
        }
        if (!wanted) return true;
        if (auto made = with(more, part.sms, std::nullopt, nullptr)) {
            part = std::move(*made);
            return share == kParts;
        }
    }
    return false;
}

void Draft::share_out() {
    if (parts_.empty()) return;
    std::vector<uint32_t> grains(parts_.size());
    std::vector<double> weights(parts_.size());
    std::vector<bool> content(parts_.size());
    for (size_t i = 0; i < parts_.size(); ++i) {
        parts_[i].needed = parts_[i].sms;
        for (const size_t tenant : parts_[i].tenants) weights[i] += (*tenants_)[tenant].weight;
        content[i] = raise(parts_[i]);
    }
    // The next grain goes where weight over grains is greatest (D'Hondt): with more SMs nobody gets fewer.
    while (free_ >= gpu_.grain) {
        const auto before = [&](size_t a, size_t b) {
            if (content[a] != content[b]) return !content[a];
            return weights[a] / (grains[a] + 1) > weights[b] / (grains[b] + 1);
        };
        size_t next = 0;
        for (size_t i = 1; i < parts_.size(); ++i)
            if (before(i, next)) next = i;
        if (weights[next] == 0) return;
        ++grains[next];
        parts_[next].sms += gpu_.grain;
        free_ -= gpu_.grain;
        if (!content[next]) content[next] = raise(parts_[next]);
    }
}

void Draft::write(Plan& plan) const {
    uint32_t first = 0;
    for (const Part& part : parts_) {
        double cycle_ns = 0;
        for (size_t i = 0; i < part.tenants.size(); ++i) {
            const Load& load = (*tenants_)[part.tenants[i]].load;
            cycle_ns += load.batches_ns(part.turn.batches[i], part.sms);
        }
        for (size_t i = 0; i < part.tenants.size(); ++i) {
            const uint32_t queues = (*tenants_)[part.tenants[i]].load.queues;
            plan.assignments[part.tenants[i]] = Assignment{
                plan.partitions.size(), (part.turn.batches[i] + queues - 1) / queues, part.turn.cycle_ns,
                part.turn.cycle_ns + cycle_ns, part.rates[i]};
        }
        plan.partitions.push_back({first, part.sms, part.needed == 0 ? part.sms : part.needed, cycle_ns, part.tenants});
        first += part.sms;
    }
    plan.bus = bus();
}

}  // namespace millrace::schedule
