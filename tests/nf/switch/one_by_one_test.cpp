// Flows that change one by one, each change a generation: what packets meet, and what it costs.
#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "millrace/nf/changeable.hpp"
#include "millrace/nf/switch/control/control.hpp"
#include "millrace/nf/switch/device.hpp"
#include "millrace/nf/switch/text/match_field.hpp"
#include "nf/switch/scratch.hpp"
#include "support/nf_runner.hpp"
#include "support/packet_arena.hpp"

namespace millrace {
namespace {

using namespace millrace::test;
using namespace millrace::nf::flow_switch;

/// A switch under a controller that waits for each of its changes.
class Changing {
public:
    explicit Changing(const std::string& options)
        : now_(nf::find_type("switch")->create(
              Config::parse(options),
              {.node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts})),
          control_(dynamic_cast<Controllable&>(*now_).control()) {
        look();
    }

    /// Makes a change and brings it to work.
    void change(const std::string& text) {
        FlowChange made = controllers_change(text);
        const uint64_t version = control_->change(std::move(made));
        look();
        look();
        ASSERT_EQ(control_->progress(version), Control::Progress::at_work) << text;
    }
    /// Looks for changes; true where another generation comes of it.
    bool look() {
        auto next = dynamic_cast<nf::Changeable&>(*now_).next();
        if (next == nullptr) return false;
        now_ = std::move(next);
        keep_.push_back(now_);
        if (keep_.size() > 2) keep_.pop_front();
        const auto& tables = *static_cast<const Switch::Tables*>(now_->image().tables());
        std::set<const void*> parts;
        for (uint32_t i = 0; i < tables.used_parts; ++i) {
            const auto& entries = tables.parts[i].entries;
            if (entries.empty()) continue;
            parts.insert(entries.data());
            if (!parts_.contains(entries.data())) flows_in_new_tables_ += entries.size();
        }
        parts_.swap(parts);
        return true;
    }
    /// Says what becomes of a packet: the outcome, the port, and the text of the flow behind its number.
    std::string verdict(const Frame& frame, unsigned lanes = 8) const {
        PacketArena arena;
        Packet& packet = arena.add(frame);
        const Decision decision = nf::find_type("switch")->process_with(lanes)(packet, now_->image().tables());
        const std::string flow = now_->explain(decision);
        return std::to_string(decision.outcome) + " " + std::to_string(packet.out_port()) +
               flow.substr(std::min(flow.size(), flow.find(") ")));
    }
    Control& control() { return *control_; }
    const nf::NetworkFunction& nf() const { return *now_; }
    /// Flows in all tables that were made so far.
    size_t flows_in_new_tables() const { return flows_in_new_tables_; }

private:
    std::shared_ptr<nf::NetworkFunction> now_;
    std::shared_ptr<Control> control_;
    std::deque<std::shared_ptr<nf::NetworkFunction>> keep_;  // so that no address comes again
    std::set<const void*> parts_;
    size_t flows_in_new_tables_ = 0;
};

/// Few values, so that flows overlap, hide each other and have the same match with other priorities.
std::string match_of_few_fields(Rng& rng) {
    const bool six = rng() % 3 == 0;
    std::string match = "priority=" + std::to_string(rng() % 6) + (six ? ",udp6" : ",udp");
    if (!six && rng() % 2)
        match += ",nw_src=10.0.0." + std::to_string(rng() % 8) + "/" + std::to_string(30 + rng() % 3);
    if (six && rng() % 2)
        match += ",ipv6_src=2001:db8::" + std::to_string(rng() % 8) + "/" + std::to_string(126 + rng() % 3);
    if (rng() % 2) match += ",tp_dst=" + std::to_string(rng() % 8);
    return match;
}

std::string change_of_few_fields(Rng& rng) {
    const std::string actions = ",actions=output:" + std::to_string(1 + rng() % 4);
    switch (rng() % 16) {
        case 0: return "delete " + match_of_few_fields(rng).substr(11);
        case 1:
        case 2:
        case 3:
        case 4: return "delete_strict " + match_of_few_fields(rng);
        case 5: return "modify " + match_of_few_fields(rng).substr(11) + actions;
        case 6: return "modify_strict " + match_of_few_fields(rng) + actions;
        default: return "add " + match_of_few_fields(rng) + actions;
    }
}

Frame random_frame(Rng& rng) {
    const std::string last = std::to_string(rng() % 9), udp = ", udp: {dst: " + std::to_string(rng() % 9) + "}}";
    return build_packet(rng() % 3 == 0 ? "{ipv6: {src: '2001:db8::" + last + "'}" + udp
                                       : "{ipv4: {src: 10.0.0." + last + "}" + udp);
}

TEST(ChangesOneByOne, GiveEachPacketTheFlowThatATableMadeAnewGives) {
    for (const std::string engine : {"linear", "tuple", "bloom", "merged", "auto"}) {
        Rng rng(7);
        Changing changing("{engine: " + engine + ", controller: 'tcp:127.0.0.1'}");
        for (int i = 0; i < 150; ++i)
            changing.change("add " + match_of_few_fields(rng) + ",actions=output:" + std::to_string(1 + rng() % 4));
        while (!changing.look()) {
        }
        size_t layered = 0;
        for (int round = 0; round < 600; ++round) {
            changing.change(change_of_few_fields(rng));
            layered += static_cast<const Switch::Tables*>(changing.nf().image().tables())->parts[0].gone.size() > 0;
            if (round % 20 != 0) continue;
            // The definition, on the flows as they are told: the highest priority, of equals the first.
            std::vector<FlowEntry> entries = changing.control().flows({}, {});
            std::stable_sort(entries.begin(), entries.end(),
                             [](const FlowEntry& a, const FlowEntry& b) { return a.flow.priority > b.flow.priority; });
            std::string list;
            for (const FlowEntry& entry : entries)
                list += (list.empty() ? "'" : ", '") + text_of(entry.flow, kSwitchPorts) + "'";
            Changing anew("{engine: linear, controller: 'tcp:127.0.0.1', flows: [" + list + "]}");
            for (int i = 0; i < 30; ++i) {
                const Frame frame = random_frame(rng);
                ASSERT_EQ(changing.verdict(frame, i % 2 == 0 ? 8 : 1), anew.verdict(frame)) << engine << " " << round;
            }
        }
        EXPECT_GT(layered, 250u) << "flows that went were passed over, not left out of tables made anew";
    }
}

/// Flows in tables made anew for each of `flows` flows that come, are changed and go one by one.
struct Work {
    double added, modified, removed;
};
Work work_of(size_t flows) {
    Changing changing("{controller: 'tcp:127.0.0.1'}");
    const auto match = [](size_t i) {
        return "priority=" + std::to_string(i % 500) + ",ip,nw_dst=10." + std::to_string(i / 62500) + "." +
               std::to_string(i / 250 % 250) + "." + std::to_string(i % 250);
    };
    const auto each = [&](const std::string& before, const std::string& after) {
        const size_t made = changing.flows_in_new_tables();
        for (size_t i = 0; i < flows; ++i) changing.change(before + match(i) + after);
        return static_cast<double>(changing.flows_in_new_tables() - made) / static_cast<double>(flows);
    };
    Work work{};
    work.added = each("add ", ",actions=output:1");
    EXPECT_EQ(changing.control().flow_count(), flows);
    work.modified = each("modify_strict ", ",actions=output:2");
    EXPECT_TRUE(changing.verdict(build_packet("{ipv4: {dst: 10.0.0.7}, udp: {}}")).starts_with("0 1"));
    work.removed = each("delete_strict ", "");
    EXPECT_EQ(changing.control().flow_count(), 0u);
    return work;
}

TEST(ChangesOneByOne, CostEachAFewFlowsMadeAnewHoweverManyThereAre) {
    // With tables made anew for each change it would be half of the number of flows.
    for (const size_t flows : {size_t{100}, size_t{1000}, size_t{10'000}}) {
        const Work work = work_of(flows);
        EXPECT_LT(work.added, 60) << flows;
        EXPECT_LT(work.modified, 60) << flows;
        EXPECT_LT(work.removed, 10) << flows;
        if (std::getenv("MILLRACE_PRINT_WORK") != nullptr)
            std::printf("%zu flows: %.1f, %.1f, %.1f\n", flows, work.added, work.modified, work.removed);
    }
}

TEST(ChangesOneByOne, ComeIntoOneTableWithTheOthersWhenNothingChangesAnyMore) {
    Changing changing("{controller: 'tcp:127.0.0.1', flows: ['ip,actions=output:1']}");
    for (int i = 0; i < 100; ++i)
        changing.change("add udp,tp_dst=" + std::to_string(i) + ",priority=40000,actions=output:2");
    const auto used = [&] { return static_cast<const Switch::Tables*>(changing.nf().image().tables())->used_parts; };
    const auto parts = [&] { return static_cast<const Switch::Tables*>(changing.nf().image().tables())->parts; };
    EXPECT_EQ(parts()[0].entries.size(), 1u);
    EXPECT_GT(used(), 1u);
    const std::string verdict = changing.verdict(build_packet("{ipv4: {}, udp: {dst: 50}}"));
    unsigned looks = 0;
    while (looks < 2000 && !changing.look()) ++looks;
    EXPECT_LT(looks, 2000u);
    EXPECT_EQ(parts()[0].entries.size(), 101u);
    EXPECT_EQ(used(), 1u);
    EXPECT_EQ(changing.verdict(build_packet("{ipv4: {}, udp: {dst: 50}}")), verdict);
    for (unsigned i = 0; i < 2000; ++i) ASSERT_FALSE(changing.look());
}

TEST(ChangesOneByOne, LeadToAThousandGroupsThatComeAndGo) {
    Changing changing("{controller: 'tcp:127.0.0.1', flows: ['priority=1,actions=drop']}");
    const auto group = [](uint32_t id, uint32_t port) {
        Group made;
        made.id = id;
        made.from_controller = true;
        made.buckets = {{1, {{ActionKind::output, port, 0, 0}}}};
        return made;
    };
    const auto send = [&](uint32_t id) {
        return changing.verdict(build_packet("{ipv4: {}, udp: {dst: " + std::to_string(id) + "}}"));
    };
    for (uint32_t id = 1; id <= 1000; ++id) {
        changing.control().add_group(group(id, 1));
        changing.change("add udp,tp_dst=" + std::to_string(id) + ",actions=group:" + std::to_string(id));
    }
    EXPECT_LT(changing.flows_in_new_tables(), 40'000u);
    for (uint32_t id = 1; id <= 1000; id += 111) EXPECT_TRUE(send(id).starts_with("0 1")) << id << ": " << send(id);
    for (uint32_t id = 1; id <= 1000; id += 2) {
        changing.control().remove_group(id);
        changing.control().modify_group(group(id + 1, 2));
        changing.control().add_group(group(2000 + id, 3));
        changing.change("add udp,tp_dst=" + std::to_string(2000 + id) + ",actions=group:" + std::to_string(2000 + id));
    }
    for (uint32_t id = 1; id <= 1000; id += 111)
        EXPECT_TRUE(send(id).starts_with(id % 2 == 1 ? "1 " : "0 2")) << id << ": " << send(id);
    EXPECT_TRUE(send(2501).starts_with("0 3")) << send(2501);
}

TEST(ChangesOneByOne, SeldomChangeHowMuchStateComesBackFromADevice) {
    Changing changing("{controller: 'tcp:127.0.0.1'}");
    std::set<uint64_t> sizes;
    for (int i = 0; i < 1000; ++i) {
        changing.change("add tcp,tp_dst=" + std::to_string(i) + ",actions=drop");
        for (const nf::Image::Array& array : changing.nf().image().arrays())
            if (array.is_state()) sizes.insert(array.changing_bytes);
    }
    EXPECT_LE(sizes.size(), 8u);
    EXPECT_GE(*sizes.rbegin(), 1000u * 16);
}

TEST(ChangesOneByOne, KeepWhatFlowsHaveCounted) {
    Changing changing("{controller: 'tcp:127.0.0.1', flows: ['priority=9,udp,actions=output:1']}");
    const Frame frame = build_packet("{ipv4: {}, udp: {dst: 5}}");
    const auto packets = [&](size_t flow) { return changing.control().flows({}, {}).at(flow).counts.packets; };
    // A thousand flows come, so that room for counters is made several times, and others take their places again.
    for (int i = 0; i < 1000; ++i) {
        changing.verdict(frame);
        changing.change("add tcp,tp_dst=" + std::to_string(i) + ",actions=drop");
    }
    EXPECT_EQ(packets(0), 1000u);
    changing.verdict(build_packet("{ipv4: {}, tcp: {dst: 7}}"));
    EXPECT_EQ(packets(8), 1u);
    for (int i = 0; i < 1000; ++i) {
        changing.verdict(frame);
        changing.change("delete_strict tcp,tp_dst=" + std::to_string(i));
        changing.change("add priority=3,tcp,tp_dst=" + std::to_string(i) + ",actions=drop");
    }
    EXPECT_EQ(packets(0), 2000u);
    for (size_t flow = 1; flow <= 1000; ++flow) ASSERT_EQ(packets(flow), 0u) << flow;
}

TEST(ChangesOneByOne, AreRefusedWhereTheTablesWouldGrowTooLargeAndTheFlowsStay) {
    Changing changing("{controller: 'tcp:127.0.0.1', max-table: 8000, flows: ['udp,actions=output:1']}");
    const auto change = [&](const std::string& text) {
        const uint64_t version = changing.control().change(parse_change(text, kSwitchPorts));
        changing.look();
        changing.look();
        return changing.control().progress(version);
    };
    unsigned done = 0;
    while (done < 1000 &&
           change("add tcp,tp_dst=" + std::to_string(done) + ",actions=output:2") == Control::Progress::at_work)
        ++done;
    EXPECT_GT(done, 20u);
    EXPECT_LT(done, 1000u);
    EXPECT_EQ(changing.control().flow_count(), done + 1u);
    EXPECT_EQ(change("add tcp,tp_dst=5000,actions=output:2"), Control::Progress::refused);
    EXPECT_TRUE(changing.verdict(build_packet("{ipv4: {}, tcp: {dst: 5}}")).starts_with("0 1"));
    for (unsigned i = 0; i < 20; ++i)
        EXPECT_EQ(change("delete_strict tcp,tp_dst=" + std::to_string(i)), Control::Progress::at_work);
    EXPECT_EQ(changing.control().flow_count(), done - 19u);
    EXPECT_EQ(change("add tcp,tp_dst=5000,actions=output:2"), Control::Progress::at_work);
    EXPECT_TRUE(changing.verdict(build_packet("{ipv4: {}, tcp: {dst: 5000}}")).starts_with("0 1"));
    EXPECT_TRUE(changing.verdict(build_packet("{ipv4: {}, tcp: {dst: 5}}")).starts_with("3 "));
}

}  // namespace
}  // namespace millrace
