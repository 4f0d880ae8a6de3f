// How a chain is cut into steps: as few as the order of its network functions allows.
#include <gtest/gtest.h>

#include <algorithm>

#include "millrace/device/device.hpp"

namespace millrace::device {
namespace {

using Kind = Step::Kind;

/// What an NF asks of the order of packets.
enum class Wish {
    nothing,
    tenants,      ///< it is a tenant's
    state,        ///< it changes state, in no order
    order,        ///< its packets are numbered
    commit,       ///< and it commits
    no_commit,    ///< it could, and does not with these tables
    keyed,        ///< it has state per key
    keyed_end,    ///< it has, behind a part that needs none
    parts,        ///< its device half has nf::Parts
    whole,        ///< it has, and does without them with these tables
    keyed_parts,  ///< both
};

class FakeNf : public nf::NetworkFunction {
public:
    explicit FakeNf(Wish wish) : commits_(wish == Wish::commit), whole_(wish == Wish::whole) {
        Tables& tables = image_.start<Tables>();
        if (wish != Wish::nothing && wish != Wish::tenants && wish != Wish::parts && wish != Wish::whole)
            image_.attach_state(tables.counters, std::make_shared<std::vector<uint64_t>>(4), "counters");
    }
    const nf::Image& image() const override { return image_; }
    bool commits() const override { return commits_; }
    bool runs_in_parts() const override { return !whole_; }

private:
    struct Tables {
        MutableView<uint64_t> counters;
    };
    nf::Image image_;
    const bool commits_, whole_;
};

const nf::Type& type_of(Wish wish) {
    static const nf::Type tenants = [] {
        nf::Type type;
        type.is_tenants = true;
        return type;
    }();
    if (wish == Wish::tenants) return tenants;
    static const nf::Type plain, numbered = [] {
        nf::Type type;
        type.order_key = [](const Packet&, const void*) { return 0u; };
        return type;
    }();
    static const nf::Type committing = [] {
        nf::Type type = numbered;
        type.commit = [](Packet&, const void*, Decision decision) { return decision; };
        return type;
    }();
    static const nf::Type keyed = [] {
        nf::Type type = numbered;
        type.sweep = [](Packet&, const void*, uint32_t, uint64_t) {};
        return type;
    }();
    static const nf::Type keyed_end = [] {
        nf::Type type = keyed;
        type.commit = committing.commit;
        return type;
    }();
    static const auto in_parts = [](nf::Type type) {
        type.parts.conclude = [](Packet&, const void*, uint32_t*) { return Decision{}; };
        return type;
    };
    static const nf::Type parts = in_parts(plain), keyed_parts = in_parts(keyed_end);
    if (wish == Wish::parts || wish == Wish::whole) return parts;
    if (wish == Wish::keyed_parts) return keyed_parts;
    return wish == Wish::keyed                               ? keyed
           : wish == Wish::keyed_end                         ? keyed_end
           : wish == Wish::order                             ? numbered
           : wish == Wish::commit || wish == Wish::no_commit ? committing
                                                             : plain;
}

chain::Program chain_of(std::initializer_list<Wish> wishes) {
    chain::Program program;
    for (const Wish wish : wishes) {
        chain::Node& node = program.nodes.emplace_back();
        node.name = "nf" + std::to_string(program.nodes.size());
        node.type = &type_of(wish);
        node.nf = std::make_shared<FakeNf>(wish);
    }
    return program;
}

/// Steps as a text: "g" gather, "n0-2" nodes, "t1" tickets, "c1" commit, "p" pack, "s" snapshot; with a mark behind for
/// what they do besides. In brackets what batches do one after the other.
std::string text_of(const std::vector<Step>& steps) {
    std::string text;
    for (const Step& step : steps) {
        text += text.empty() ? "" : " ";
        if (step.awaits_sequence) text += "(";
        switch (step.kind) {
            case Kind::gather: text += "g"; break;
            case Kind::nodes: text += "n" + std::to_string(step.first) + "-" + std::to_string(step.last); break;
            case Kind::tickets: text += "t" + std::to_string(step.first); break;
            case Kind::commit: text += "c" + std::to_string(step.first); break;
            case Kind::pack: text += "p"; break;
            case Kind::snapshot: text += "s"; break;
            case Kind::group: text += "b" + std::to_string(step.first); break;
            case Kind::sequence: text += "a"; break;
            case Kind::keyed: text += "k" + std::to_string(step.first); break;
            case Kind::confined: text += "x" + std::to_string(step.first) + "-" + std::to_string(step.last); break;
        }
        if (step.begin) text += "<";
        if (step.end) text += ">";
        if (step.finds_last) text += "f";
        if (step.judges_first) text += "j";
        if (step.hold_last) text += "h";
        if (step.keys_of_next) text += "k";
        if (step.snapshot != 0) text += "$";
        if (step.releases_sequence) text += ")";
    }
    return text;
}

std::string steps_of(std::initializer_list<Wish> wishes, Mode mode = Mode::fused) {
    return text_of(plan_steps(chain_of(wishes), {mode}));
}

TEST(Steps, AreOneWhereNobodyAsksForAnOrder) {
    EXPECT_EQ(steps_of({}), "n0-0<>") << "somebody has to parse";
    EXPECT_EQ(steps_of({Wish::nothing}), "n0-1<>");
    EXPECT_EQ(steps_of({Wish::nothing, Wish::nothing, Wish::nothing}), "n0-3<>");
}

TEST(Steps, TakePacketsThroughTheWindowsOfNeighboursAtOnce) {
    EXPECT_EQ(steps_of({Wish::tenants}), "x0-1<>") << "it parses and ends, too";
    EXPECT_EQ(steps_of({Wish::nothing, Wish::tenants, Wish::nothing}), "n0-1< x1-2 n2-3>");
    EXPECT_EQ(steps_of({Wish::tenants, Wish::tenants}), "x0-2<>");
    EXPECT_EQ(steps_of({Wish::tenants, Wish::nothing, Wish::tenants, Wish::tenants}), "x0-1< n1-2 x2-4>");
    EXPECT_EQ(steps_of({Wish::tenants, Wish::order}), "x0-1< n1-1k (t1$) n1-2>");
    EXPECT_EQ(steps_of({Wish::nothing, Wish::tenants}, Mode::pipelined), "n0-1< x1-2>");
    chain::Program many = chain_of({Wish::tenants});
    many.nodes.resize(kMaxStages, many.nodes.front());
    EXPECT_EQ(text_of(plan_steps(many, {})), "x0-16<>");
}

TEST(Steps, CutTheChainBeforeWhatIsNumbered) {
    EXPECT_EQ(steps_of({Wish::order}), "n0-0<k (t0$) n0-1>");
    EXPECT_EQ(steps_of({Wish::nothing, Wish::order, Wish::nothing}), "n0-1<k (t1$) n1-3>");
    EXPECT_EQ(steps_of({Wish::order, Wish::order}), "n0-0<k (t0$) n0-1k (t1$) n1-2>");
}

TEST(Steps, CommitBehindTheNfThatCommits) {
    EXPECT_EQ(steps_of({Wish::commit}), "n0-0<k (t0 n0-1h c0$) n1-1>");
    EXPECT_EQ(steps_of({Wish::nothing, Wish::commit, Wish::nothing}), "n0-1<k (t1 n1-2h c1$) n2-3>");
    EXPECT_EQ(steps_of({Wish::no_commit, Wish::nothing}), "n0-0<k (t0$) n0-2>") << "these tables commit nothing";
}

TEST(Steps, RunWhatHasStatePerKeyByItself) {
    EXPECT_EQ(steps_of({Wish::keyed}), "n0-0<k b0 (a k0$) n1-1>");
    EXPECT_EQ(steps_of({Wish::nothing, Wish::keyed, Wish::nothing}), "n0-1<k b1 (a k1$) n2-3>");
    EXPECT_EQ(steps_of({Wish::keyed, Wish::keyed}), "n0-0<k b0 (a k0$) n1-1k b1 (a k1$) n2-2>");
    EXPECT_EQ(steps_of({Wish::keyed_end}), "n0-0<k n0-1h b0 (a k0$) n1-1>");
    EXPECT_EQ(steps_of({Wish::nothing, Wish::keyed_end, Wish::nothing}), "n0-1<k n1-2h b1 (a k1$) n2-3>");
    EXPECT_EQ(steps_of({Wish::order, Wish::keyed}), "n0-0<k (t0$) n0-1k b1 (a k1$) n2-2>");
    EXPECT_EQ(steps_of({Wish::keyed, Wish::commit}), "n0-0<k b0 (a k0$) n1-1k (t1 n1-2h c1$) n2-2>");
}

TEST(Steps, CutAFunctionInPartsWhereItsSearchEnds) {
    EXPECT_EQ(steps_of({Wish::parts}), "n0-1<f n0-1>j");
    EXPECT_EQ(steps_of({Wish::nothing, Wish::parts, Wish::nothing}), "n0-2<f n1-3>j");
    EXPECT_EQ(steps_of({Wish::parts, Wish::parts}), "n0-1<f n0-2fj n1-2>j");
    EXPECT_EQ(steps_of({Wish::nothing, Wish::parts, Wish::nothing}, Mode::pipelined), "n0-1< n1-2f n1-2j n2-3>");
    EXPECT_EQ(steps_of({Wish::parts, Wish::order}), "n0-1<f n0-1jk (t1$) n1-2>");
    EXPECT_EQ(steps_of({Wish::order, Wish::parts}), "n0-0<k (t0$) n0-2f n1-2>j");
    EXPECT_EQ(steps_of({Wish::parts, Wish::tenants}), "n0-1<f n0-1j x1-2>");
    EXPECT_EQ(steps_of({Wish::keyed_parts, Wish::nothing}), "n0-0<k n0-1f n0-1jh b0 (a k0$) n1-2>");
    EXPECT_EQ(steps_of({Wish::nothing, Wish::whole, Wish::nothing}), "n0-3<>") << "these tables need no parts";
    EXPECT_EQ(steps_of({Wish::parts}, Mode::persistent), "n0-1<>") << "one kernel has all";
}

TEST(Steps, SayWhichPartOfAFunctionTheyRun) {
    const chain::Program program = chain_of({Wish::nothing, Wish::parts, Wish::nothing});
    const std::vector<Step> steps = plan_steps(program, {});
    ASSERT_EQ(steps.size(), 2u);
    EXPECT_EQ(step_text(program, steps[0]), "nf1 → nf2 (1 of 2)");
    EXPECT_EQ(step_text(program, steps[1]), "nf2 (2 of 2) → nf3");
}

TEST(Steps, TakeTheSnapshotWhenTheStateIsComplete) {
    EXPECT_EQ(steps_of({Wish::state}), "n0-1<> (s$)");
    EXPECT_EQ(steps_of({Wish::order, Wish::state}), "n0-0<k (t0$) n0-2> (s$)")
        << "what is changed in no order is complete at the end";
    EXPECT_EQ(steps_of({Wish::nothing, Wish::nothing}).find('$'), std::string::npos);
}

TEST(Steps, AreOneForEachNfWhenPipelined) {
    EXPECT_EQ(steps_of({Wish::nothing, Wish::nothing, Wish::nothing}, Mode::pipelined), "n0-1< n1-2 n2-3>");
    EXPECT_EQ(steps_of({Wish::nothing, Wish::order}, Mode::pipelined), "n0-1<k (t1$) n1-2>");
}

TEST(Steps, FetchAndPackWhereThatIsAskedFor) {
    const chain::Program program = chain_of({Wish::nothing});
    EXPECT_EQ(text_of(plan_steps(program, {.gather = true})), "g n0-1<>");
    EXPECT_EQ(text_of(plan_steps(program, {.pack = true})), "n0-1<> p");
    EXPECT_EQ(text_of(plan_steps(chain_of({Wish::order}), {.gather = true, .pack = true})), "g n0-0<k (t0$) n0-1> p");
}

/// For chains of up to eight NFs with any wishes, in every mode.
TEST(Steps, HoldWhatBatchesRelyOn) {
    constexpr Wish kWishes[] = {Wish::nothing, Wish::state, Wish::order, Wish::commit, Wish::no_commit, Wish::keyed};
    uint64_t seed = 1;
    const auto random = [&seed](size_t below) {
        return ((seed = seed * 6364136223846793005ull + 1442695040888963407ull) >> 33) % below;
    };
    for (int round = 0; round < 1000; ++round) {
        chain::Program program;
        std::vector<Wish> wishes(random(9));
        for (Wish& wish : wishes) {
            wish = kWishes[random(std::size(kWishes))];
            program.nodes.push_back(chain_of({wish}).nodes[0]);
        }
        StepOptions options{.mode = kModes[random(std::size(kModes))],
                            .gather = random(2) != 0,
                            .pack = random(2) != 0,
                            .shared_state = random(2) != 0};
        const std::vector<Step> steps = plan_steps(program, options);
        const std::string text = text_of(steps);
        const std::vector<uint16_t> owners = sequences_of(program);
        unsigned begins = 0, ends = 0, states = 0, awaited = 0, passed = 0;
        bool open = false;
        uint16_t next = 0;  // node that no step has run yet
        for (size_t i = 0; i < steps.size(); ++i) {
            const Step& step = steps[i];
            begins += step.begin, ends += step.end;
            ASSERT_EQ(states & step.snapshot, 0u) << text << ": each state once";
            states |= step.snapshot;
            if (step.awaits_sequence) {
                ASSERT_FALSE(open) << text;
                ASSERT_EQ(step.first_sequence, awaited) << text << ": all, in their order";
                ASSERT_GT(step.last_sequence, step.first_sequence) << text;
                awaited = step.last_sequence;
                open = true;
            }
            if (step.in_order()) {
                ASSERT_TRUE(open && step.last_sequence == awaited) << text;
                ASSERT_TRUE(step.kind == Kind::snapshot || owners[step.first_sequence] == step.first) << text;
            }
            if (step.releases_sequence) {
                ASSERT_TRUE(open) << text;
                passed = step.last_sequence;
                open = false;
            }
            ASSERT_EQ(step.resident, options.mode == Mode::persistent) << text;
            if (step.kind == Kind::nodes) {
                ASSERT_EQ(step.first, next) << text << ": every node runs once, in order";
                next = step.last;
            }
            if (step.kind == Kind::tickets) {
                ASSERT_TRUE(i > 0 && steps[i - 1].keys_of_next && steps[i - 1].last == step.first)
                    << text << ": keys are there";
                ASSERT_EQ(next, step.first) << text << ": it has not run before it is numbered";
            }
            if (step.kind == Kind::keyed) {
                ASSERT_EQ(steps[i - 1].kind, Kind::sequence) << text << ": its own blocks must not wait";
                ASSERT_TRUE(steps[i - 2].kind == Kind::group && steps[i - 2].first == step.first)
                    << text << ": grouped before the batch waits for others";
                const Step& keys = steps[i - 3];
                ASSERT_TRUE(keys.keys_of_next && keys.last == step.first) << text << ": keys are there";
                ASSERT_EQ(next, step.first) << text;
                ASSERT_FALSE(step.awaits_sequence) << text << ": its blocks may be all that there is room for";
                next = step.last;
            }
            if (step.kind == Kind::commit) {
                ASSERT_TRUE(steps[i - 1].hold_last && steps[i - 1].last == step.last) << text;
            }
        }
        ASSERT_EQ(next, wishes.size()) << text;
        ASSERT_EQ(begins, 1u) << text;
        ASSERT_EQ(ends, 1u) << text;
        const auto with_state = wishes.size() - static_cast<size_t>(std::ranges::count(wishes, Wish::nothing));
        ASSERT_EQ(states, (1u << with_state) - 1) << text << ": every state comes back";
        ASSERT_EQ(owners.size(), with_state) << text;
        ASSERT_EQ(awaited, with_state) << text;
        ASSERT_EQ(passed, with_state) << text;
    }
}

TEST(Steps, HaveNamesForPeople) {
    const chain::Program program = chain_of({Wish::nothing, Wish::commit, Wish::nothing});
    std::vector<std::string> names;
    for (const Step& step : plan_steps(program, {})) names.push_back(step_text(program, step));
    EXPECT_EQ(names, (std::vector<std::string>{"nf1", "numbering for nf2", "nf2", "commit of nf2", "nf3"}));
    EXPECT_EQ(step_text(chain_of({}), plan_steps(chain_of({}), {})[0]), "parsing");
    const chain::Program keyed = chain_of({Wish::keyed});
    names.clear();
    for (const Step& step : plan_steps(keyed, {})) names.push_back(step_text(keyed, step));
    EXPECT_EQ(names, (std::vector<std::string>{"parsing", "grouping for nf1", "sequence of nf1", "nf1", "parsing"}));
}

}  // namespace
}  // namespace millrace::device
