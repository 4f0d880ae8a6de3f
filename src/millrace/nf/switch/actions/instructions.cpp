#include "millrace/nf/switch/actions/instructions.hpp"

#include <algorithm>
#include <map>

#include "millrace/nf/switch/text/match_field.hpp"
#include "millrace/nf/switch/pipeline.hpp"

namespace millrace::nf::flow_switch {
namespace {

constexpr unsigned kFirstField = 12, kGroup = Pipeline::kPlaces - 2, kOutput = Pipeline::kPlaces - 1;

}  // namespace

unsigned place_in_set(const Action& action) {
    switch (action.kind) {
        case ActionKind::copy_ttl_in: return 0;
        case ActionKind::pop_vlan: return 1;
        case ActionKind::pop_mpls: return 2;
        case ActionKind::pop_pbb: return 3;
        case ActionKind::push_mpls: return 4;
        case ActionKind::push_pbb: return 5;
        case ActionKind::push_vlan: return 6;
        case ActionKind::copy_ttl_out: return 7;
        case ActionKind::dec_ttl: return 8;
        case ActionKind::dec_mpls_ttl: return 9;
        case ActionKind::set_ttl: return 10;
        case ActionKind::group: return kGroup;
        case ActionKind::output:
        case ActionKind::output_set:
        case ActionKind::controller: return kOutput;
        default: break;
    }
    for (const MatchField& field : match_fields())
        if (value_set(field, action)) return kFirstField + field.oxm;
    return 11;  // the TTL of MPLS
}

std::vector<Action> compile(const Instructions& instructions, uint8_t table, const FlowMatch& match, uint16_t ports) {
    std::map<unsigned, Action> set;
    for (const Action& action : instructions.written) set.insert_or_assign(place_in_set(action), action);
    if (set.contains(kGroup)) set.erase(kOutput);
    std::vector<Action> list;
    if (instructions.meter) list.push_back({ActionKind::meter, *instructions.meter, 0, 0});
    if (table == 0 && !instructions.next_table) {
        ActionList together(&match, ports);
        for (const Action& action : instructions.applied) together.add(action);
        for (const auto& [place, action] : set) together.add(action);
        const std::vector<Action> all = together.finish();
        list.insert(list.end(), all.begin(), all.end());
    } else {
        list.insert(list.end(), instructions.applied.begin(), instructions.applied.end());
        if (instructions.clears) list.push_back({ActionKind::clear, 0, 0, 0});
        for (const auto& [place, action] : set) {
            list.push_back({ActionKind::write, place, 0, 0});
            list.push_back(action);
        }
    }
    if (instructions.metadata) {
        const auto [bits, mask] = *instructions.metadata;
        list.push_back({ActionKind::metadata, 0, mask, bits & mask});
    }
    if (instructions.next_table) list.push_back({ActionKind::go_to, *instructions.next_table, 0, 0});
    return list;
}

Instructions instructions_of(const std::vector<Action>& compiled) {
    Instructions result;
    for (size_t i = 0; i < compiled.size(); ++i) {
        const Action& action = compiled[i];
        switch (action.kind) {
            case ActionKind::meter: result.meter = action.value; break;
            case ActionKind::clear: result.clears = true; break;
            case ActionKind::write:
                if (++i < compiled.size()) result.written.push_back(compiled[i]);
                break;
            case ActionKind::metadata: result.metadata = {action.low, action.high}; break;
            case ActionKind::go_to: result.next_table = static_cast<uint8_t>(action.value); break;
            default: result.applied.push_back(action);
        }
    }
    return result;
}

std::vector<Action> merge_buckets(const Group& group, uint16_t ports) {
    const auto sends = [](const Action& action) { return action.kind >= ActionKind::output; };
    std::vector<Action> changes;
    bool first = true;
    ActionList together(nullptr, ports);
    for (const Group::Bucket& bucket : group.buckets) {
        if (std::none_of(bucket.actions.begin(), bucket.actions.end(), sends)) continue;  // its copy goes nowhere
        std::vector<Action> own;
        for (const Action& action : bucket.actions)
            if (!sends(action)) own.push_back(action);
        if (std::exchange(first, false)) {
            for (const Action& action : own) together.add(action);
            changes = std::move(own);
        } else if (own != changes) {
            throw ActionMistake{BadAction::unsupported_order, "a packet leaves with the same bytes by all its ports",
                                "give all buckets of the group the same changes"};
        }
    }
    for (const Group::Bucket& bucket : group.buckets)
        for (const Action& action : bucket.actions)
            if (sends(action)) together.add(action);
    return together.finish();
}

}  // namespace millrace::nf::flow_switch
