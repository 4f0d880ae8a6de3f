// The table of flows under change: what is found without a look at all, what has changed, what is taken back.
#include "millrace/nf/switch/flows/flow_table.hpp"

#include <gtest/gtest.h>

#include "millrace/nf/switch/control/control.hpp"
#include "millrace/nf/switch/text/match_field.hpp"
#include "nf/switch/scratch.hpp"
#include "support/nf_runner.hpp"

namespace millrace {
namespace {

using namespace millrace::test;
using namespace millrace::nf::flow_switch;

std::string random_match(Rng& rng) {
    std::string match;
    if (rng() % 4 == 0) match += ",table=" + std::to_string(rng() % 3);
    if (rng() % 3 == 0) match += ",in_port=" + std::to_string(1 + rng() % 2);
    match += rng() % 2 ? ",udp" : ",tcp";
    if (rng() % 2) match += ",nw_src=10.0.0." + std::to_string(rng() % 8) + "/" + std::to_string(29 + rng() % 4);
    if (rng() % 2) match += ",tp_dst=" + std::to_string(rng() % 4);
    return match.substr(1);
}

/// A change of any kind, with words that make it one of few flows.
std::string random_change(Rng& rng) {
    const std::string match = random_match(rng);
    const std::string strict = "priority=" + std::to_string(rng() % 4) + "," + match;
    std::string actions = ",actions=output:" + std::to_string(1 + rng() % 4);
    if (rng() % 8 == 0) actions = ",idle_timeout=" + std::to_string(1 + rng() % 3) + actions;
    switch (rng() % 12) {
        case 0: return "delete " + match;
        case 1:
        case 2:
        case 3: return "delete_strict " + strict;
        case 4: return "modify " + match + actions;
        case 5: return "modify_strict " + strict + actions;
        default: return "add " + strict + actions;
    }
}

/// The same by a look at each flow, as OpenFlow 1.3.5 defines it in section 6.4.
class Plain {
public:
    void apply(const FlowChange& change) {
        using Kind = FlowChange::Kind;
        const MatchKeys outer(change.flow.match);
        bool any = false;
        for (Flow& flow : flows_) {
            const bool strict = change.kind != Kind::modify && change.kind != Kind::remove;
            if (strict ? identity_of(flow) != identity_of(change.flow) : !MatchKeys(flow.match).within(outer)) continue;
            any = true;
            if (change.removes()) flow.priority = kGone;
            else if (change.kind == Kind::add) flow = change.flow;
            else flow.actions = change.flow.actions;
        }
        std::erase_if(flows_, [](const Flow& flow) { return flow.priority == kGone; });
        if (change.kind == Kind::add && !any) flows_.push_back(change.flow);
    }
    const std::vector<Flow>& flows() const { return flows_; }

private:
    static constexpr uint16_t kGone = 999;
    std::vector<Flow> flows_;
};

std::vector<std::string> texts(const std::vector<Flow>& flows) {
    std::vector<std::string> all;
    for (const Flow& flow : flows) all.push_back(text_of(flow, kSwitchPorts));
    return all;
}

TEST(FlowIndex, FindsWhatALookAtEachFlowFinds) {
    Rng rng(3);
    FlowTable table({});
    Plain plain;
    for (int round = 0; round < 5000; ++round) {
        const FlowChange made = controllers_change(random_change(rng));
        table.apply(made);
        plain.apply(made);
        Flow like;
        like.match = controllers_change("add priority=1," + random_match(rng) + ",actions=drop").flow.match;
        like.priority = static_cast<uint16_t>(rng() % 4);
        const bool overlaps = std::any_of(plain.flows().begin(), plain.flows().end(), [&](const Flow& flow) {
            return flow.priority == like.priority && MatchKeys(flow.match).overlap(MatchKeys(like.match));
        });
        ASSERT_EQ(table.overlaps(like), overlaps) << round;
        if (round % 50 == 0) {
            ASSERT_EQ(texts(table.copies()), texts(plain.flows())) << round;
        }
    }
    EXPECT_GT(plain.flows().size(), 10u);
}

TEST(FlowIndex, LooksAtTheFlowsThatAreMeantAndNotAtAll) {
    constexpr unsigned kFlows = 5000;
    FlowTable table({});
    const auto flow = [](unsigned i) {
        return "udp,nw_src=10." + std::to_string(i / 65536) + "." + std::to_string(i / 256 % 256) + "." +
               std::to_string(i % 256);
    };
    for (unsigned i = 0; i < kFlows; ++i) {
        const FlowChange made = controllers_change("add priority=" + std::to_string(i) + "," + flow(i) +
                                                   ",actions=drop");
        ASSERT_FALSE(table.overlaps(made.flow));
        table.apply(made);
    }
    EXPECT_EQ(table.looks(), 0u);
    for (unsigned i = 0; i < kFlows; ++i) table.apply(controllers_change("modify " + flow(i) + ",actions=output:1"));
    for (unsigned i = 0; i < kFlows; i += 2) table.apply(controllers_change("delete " + flow(i)));
    for (unsigned i = 1; i < kFlows; i += 2)
        table.apply(controllers_change("delete_strict priority=" + std::to_string(i) + "," + flow(i)));
    EXPECT_EQ(table.size(), 0u);
    EXPECT_LE(table.looks(), 2 * kFlows);
    // Of any table.
    for (unsigned i = 0; i < kFlows; ++i)
        table.apply(controllers_change("add table=" + std::to_string(i % 200) + "," + flow(i) + ",actions=drop"));
    for (unsigned i = 0; i < kFlows; ++i) {
        FlowChange made = controllers_change("delete " + flow(i));
        made.flow.match.mask.table = made.flow.match.value.table = 0;
        table.apply(made);
    }
    EXPECT_EQ(table.size(), 0u);
    EXPECT_LE(table.looks(), 4 * kFlows);
    // One match of many priorities.
    for (unsigned i = 0; i < kFlows; ++i)
        table.apply(controllers_change("add priority=" + std::to_string(i) + ",ip,actions=drop"));
    for (unsigned i = 0; i < kFlows; ++i)
        table.apply(controllers_change("delete_strict priority=" + std::to_string(i) + ",ip"));
    EXPECT_EQ(table.size(), 0u);
    EXPECT_LE(table.looks(), 6 * kFlows);
}

TEST(FlowTable, TellsWhatHasChangedSinceAnyPosition) {
    Rng rng(4);
    FlowTable table({});
    std::map<uint32_t, std::string> seen;
    uint64_t position = table.position();
    for (int round = 0; round < 400; ++round) {
        for (uint64_t i = rng() % 5; i-- > 0;) table.apply(controllers_change(random_change(rng)));
        if (round % 100 == 99) table.renumber();
        const auto changes = table.changes_since(position);
        if (!changes) seen.clear();
        for (const NumberedFlow& one : changes ? std::vector(changes->begin(), changes->end()) : table.numbered()) {
            if (one.flow == nullptr) seen.erase(one.number);
            else seen[one.number] = text_of(*one.flow, kSwitchPorts);
        }
        position = table.position();
        table.forget_before(position);
        std::vector<std::string> all;
        for (const auto& [number, text] : seen) all.push_back(text);
        ASSERT_EQ(all, texts(table.copies())) << round;
    }
    EXPECT_EQ(table.changes_since(position + 1), std::nullopt);
    EXPECT_EQ(table.changes_since(0), std::nullopt);
}

TEST(FlowTable, IsAsItWasWhenChangesAreTakenBack) {
    Rng rng(5);
    FlowTable table({});
    for (int round = 0; round < 300; ++round) {
        for (int i = 0; i < 4; ++i) table.apply(controllers_change(random_change(rng)));
        const auto before = texts(table.copies());
        table.begin_undo();
        for (uint64_t i = rng() % 20; i-- > 0;) table.apply(controllers_change(random_change(rng)));
        table.undo();
        ASSERT_EQ(texts(table.copies()), before) << round;
    }
}

TEST(Control, ChangesAllOrNothing) {
    Rng rng(6);
    Control control(kSwitchPorts, {}, Flow::kMaxFlows, 0, true);
    const auto state = [&] {
        std::vector<std::string> all;
        for (const FlowEntry& entry : control.flows({}, {})) all.push_back(text_of(entry.flow, kSwitchPorts));
        for (const Group& group : control.groups())
            all.push_back("group " + std::to_string(group.id) + " " + std::to_string(group.buckets.size()));
        for (const Meter& meter : control.meters())
            all.push_back("meter " + std::to_string(meter.id) + " " + std::to_string(meter.bands.at(0).rate));
        return all;
    };
    const auto random = [&]() -> Change {
        const uint32_t id = static_cast<uint32_t>(1 + rng() % 5);
        const auto kind = static_cast<TableChange>(rng() % 3);
        switch (rng() % 8) {
            case 0: {
                Group group;
                group.id = id;
                group.from_controller = true;
                group.buckets.resize(1 + rng() % 3, {1, {{ActionKind::output, 1, 0, 0}}});
                return GroupChange{kind, group, id};
            }
            case 1: {
                Meter meter;
                meter.id = id;
                meter.bands = {{static_cast<uint32_t>(1 + rng() % 100), 0, 0}};
                return MeterChange{kind, meter, id};
            }
            case 2:
                return AskedFlowChange{
                    controllers_change("add priority=9," + random_match(rng) + ",actions=meter:" + std::to_string(id) +
                                       ",group:" + std::to_string(1 + rng() % 5)),
                    false};
            default: return AskedFlowChange{controllers_change(random_change(rng)), rng() % 4 == 0};
        }
    };
    unsigned done = 0, refused = 0;
    for (int round = 0; round < 2000; ++round) {
        std::vector<Change> changes;
        for (uint64_t i = rng() % 6; i-- > 0;) changes.push_back(random());
        const auto before = state();
        // One after the other on a copy of the history would be the same: it is the same when it is done.
        try {
            control.make_all(changes);
            ++done;
        } catch (const RefusedChange& refusal) {
            ++refused;
            ASSERT_LT(refusal.index, changes.size());
            ASSERT_EQ(state(), before) << round;
        }
        control.at_work(control.version(), nullptr);
    }
    EXPECT_GT(done, 500u);
    EXPECT_GT(refused, 500u);
}

}  // namespace
}  // namespace millrace
