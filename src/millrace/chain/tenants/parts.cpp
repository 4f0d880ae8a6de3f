#include "millrace/chain/tenants/parts.hpp"

#include <algorithm>
#include <map>

#include "millrace/chain/inner.hpp"
#include "millrace/chain/tenants/tenant.hpp"

namespace millrace::chain {
namespace {

bool is_tenants(const Node& node) { return tenant_of(node) != nullptr; }

/// The first node of each part, in order; each node that `alone` says is one.
std::vector<size_t> starts_of_parts(const Program& chain, bool (*alone)(const Node&)) {
    const size_t count = chain.nodes.size();
    std::vector<bool> begins(count + 1, false);
    begins[0] = true;
    for (size_t i = 0; i < count; ++i)
        if (alone(chain.nodes[i])) begins[i] = begins[i + 1] = true;
    const auto crosses = [&](size_t from, size_t to) {
        return std::find(begins.begin() + static_cast<ptrdiff_t>(from) + 1,
                         begins.begin() + static_cast<ptrdiff_t>(to) + 1,
                         true) != begins.begin() + static_cast<ptrdiff_t>(to) + 1;
    };
    // A cut may make leaps cross it that stayed within a part before.
    for (bool more = true; std::exchange(more, false);)
        for (size_t i = 0; i < count; ++i)
            for (const Target& target : chain.nodes[i].targets)
                if (target.kind == Target::Kind::node && !begins[target.value] && crosses(i, target.value))
                    more = begins[target.value] = true;
    std::vector<size_t> starts;
    for (size_t i = 0; i < count; ++i)
        if (begins[i]) starts.push_back(i);
    return starts;
}

std::shared_ptr<Program> part_of(const Program& chain, size_t from, size_t to) {
    auto part = std::make_shared<Program>(chain);
    part->nodes.assign(chain.nodes.begin() + static_cast<ptrdiff_t>(from),
                       chain.nodes.begin() + static_cast<ptrdiff_t>(to));
    part->is_tenants = is_tenants(part->nodes.front());
    if (from == 0) return part;
    part->name = chain.name + "/" + part->nodes.front().name;
    part->where = part->nodes.front().where;
    part->inputs.clear();
    return part;
}

/// Each has an engine of its own for each worker, with memory of the device's: others go through their parts.
constexpr std::ptrdiff_t kMaxUndivided = 16;

/// Null: it can't be in one piece.
std::shared_ptr<const Program> undivided_of(const Configuration& configuration, const Program& chain, size_t number) {
    const auto hinders = [](const Node& node) {
        if (const TenantFunction* const function = tenant_of(node))
            // Behind its outcomes a device counts more of it (device::ConfinedCount).
            return !function->may_run_on_gpu() || function->promise().made() ||
                   function->absent() + 2 >= kUndeclaredOutcome;
        return node.type->ordered() || node.changes_state_in_no_order();
    };
    const bool promised = number < configuration.promises.size() && configuration.promises[number].made();
    const auto in_one_piece = [](const auto& one) { return one->undivided != nullptr; };
    if (std::ranges::count_if(configuration.chains, in_one_piece) >= kMaxUndivided) return nullptr;
    if (configuration.device == "cpu" || promised || chain.nodes.size() > kMaxStages ||
        configuration.classification.table() != nullptr || std::ranges::any_of(chain.nodes, hinders))
        return nullptr;
    const auto whole = std::make_shared<Program>(chain);
    whole->max_batch = std::min(whole->max_batch, kMaxUndividedBatch);
    plan_program(*whole, false);
    return whole;
}

void cut(Configuration& configuration, size_t number, bool (*alone)(const Node&)) {
    const std::shared_ptr<const Program> chain = configuration.chains[number];
    const bool at_tenants = std::ranges::any_of(chain->nodes, is_tenants);
    const std::vector<size_t> starts = starts_of_parts(*chain, alone);
    const auto number_of = [&, appended = configuration.chains.size()](size_t part) {
        return static_cast<uint16_t>(part == 0 ? number : appended + part - 1);
    };
    for (size_t i = 0; i < starts.size(); ++i) {
        const size_t from = starts[i], to = i + 1 < starts.size() ? starts[i + 1] : chain->nodes.size();
        const std::shared_ptr<Program> part = part_of(*chain, from, to);
        part->index = number_of(i);
        for (Node& node : part->nodes)
            for (Target& target : node.targets) {
                if (target.kind != Target::Kind::node) continue;
                if (target.value >= from && target.value < to) {
                    target.value = static_cast<uint16_t>(target.value - from);
                } else {
                    const auto start = std::find(starts.begin(), starts.end(), target.value);
                    target = {Target::Kind::chain, number_of(static_cast<size_t>(start - starts.begin()))};
                }
            }
        plan_program(*part, part->is_tenants || configuration.device == "cpu");
        if (i == 0) {
            if (at_tenants) part->undivided = undivided_of(configuration, *chain, number);
            configuration.chains[number] = part;
            continue;
        }
        if (configuration.find_chain(part->name) != nullptr)
            throw ConfigError(Diagnostic{part->where,
                                         "from here on the chain is called '" + part->name +
                                             "', behind or at a tenant's function, and so is another one",
                                         "name the other one differently"});
        configuration.chains.push_back(part);
        configuration.promises.emplace_back();
    }
}

}  // namespace

void cut_at_tenants(Configuration& configuration) {
    const size_t chains = configuration.chains.size();
    for (size_t i = 0; i < chains; ++i)
        if (std::any_of(configuration.chains[i]->nodes.begin(), configuration.chains[i]->nodes.end(), is_tenants))
            cut(configuration, i, is_tenants);
}

void cut_apart(Configuration& configuration) {
    const size_t chains = configuration.chains.size();
    for (size_t i = 0; i < chains; ++i)
        if (!configuration.chains[i]->nodes.empty()) cut(configuration, i, [](const Node&) { return true; });
}

void renew_undivided(Configuration& configuration) {
    std::map<std::pair<std::string, std::string>, const Node*> nodes;  // by chain and name
    std::map<std::string, schedule::GpuShare> shares;
    for (const auto& program : configuration.chains) {
        for (const Node& node : program->nodes) nodes[{program->whole, node.name}] = &node;
        const auto [own, first] = shares.emplace(program->whole, program->gpu_share);
        const auto count = [](const schedule::GpuShare& share) {
            return share.sms.all() ? UINT32_MAX : share.sms.count;
        };
        if (count(program->gpu_share) > count(own->second)) own->second = program->gpu_share;
    }
    for (auto& program : configuration.chains) {
        if (program->undivided == nullptr) continue;
        const auto whole = std::make_shared<Program>(*program->undivided);
        whole->gpu_share = shares[program->whole];
        whole->max_delay = program->max_delay;
        bool same = whole->gpu_share == program->undivided->gpu_share &&
                    whole->max_delay == program->undivided->max_delay;
        for (Node& node : whole->nodes) {
            const auto& now = nodes.at({program->whole, node.name})->nf;
            same = same && node.nf == now;
            node.nf = now;
        }
        if (same) continue;
        whole->generation = configuration.generation;
        const auto first = std::make_shared<Program>(*program);
        first->undivided = whole;
        program = first;
    }
}

std::set<std::string> chains_with_tenants(const Configuration& configuration) {
    std::set<std::string> names;
    for (const auto& program : configuration.chains)
        if (program->is_tenants) names.insert(program->whole);
    return names;
}

void plan_program(Program& program, bool on_cpu) {
    std::vector<FieldUse> uses;
    for (const Node& node : program.nodes) {
        FieldUse use;
        if (on_cpu) {
            use.host_reads = node.type->cpu_reads;
            use.host_writes = node.type->cpu_writes;
        } else {
            use = FieldUse::on_device(node.reads() | fields_of_inner(program), node.writes(), node.type->is_keyed());
            // Who decides elsewhere on a tenant's packet finds that one absent.
            if (node.type->is_tenants) use.least_head = kUndividedHead;
        }
        uses.push_back(use);
    }
    program.plan = plan_fields(uses);
}

}  // namespace millrace::chain
