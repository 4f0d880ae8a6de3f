// CPU stages of tenants' functions in their process: what they are asked, answer and may say.
#include <gtest/gtest.h>

#include "millrace/packet/argument.hpp"
#include "support/packet_arena.hpp"
#include "tenancy/stages.hpp"

namespace millrace::tenancy {
namespace {

using test::Asked;
using test::AtFirstHand;
using test::ShownPackets;
using test::terms_for;

TEST(Exchange, BringsAQuestionOfEachStageAndWhatWasAnswered) {
    AtFirstHand side({4, 8, 4, 3, 1});
    const uint8_t bytes[] = {1, 2, 3, 4, 5, 6, 7, 8};
    std::vector<Shown> packets(2, {{}, bytes, 4});
    packets[0].decision = {0xabcdef01, 1};
    packets[1].decision = {kNoDetail, 2};
    ASSERT_TRUE(side.exchange.ask(packets, 10, Stage::before));
    ASSERT_TRUE(side.exchange.ask(packets, 11, Stage::after));
    ASSERT_TRUE(side.exchange.ask(packets, 12));
    EXPECT_FALSE(side.exchange.ask(packets, 13)) << "three at a time";
    Exchange::Taken taken;
    const auto before = side.next();
    ASSERT_TRUE(before && before->stage == Stage::before && before->count == 2);
    // An argument may be anything.
    before->argument(0) = 0;
    before->argument(1) = 0xffffffff;
    AtFirstHand::answer(*before);
    ASSERT_EQ(side.exchange.stage(), Stage::before);
    ASSERT_EQ(side.exchange.take(taken), Exchange::Reply::good);
    EXPECT_EQ(taken.id, 10u);
    EXPECT_EQ(taken.outcomes[0], 0u);
    EXPECT_EQ(taken.outcomes[1], 0xffffffffu);
    const auto after = side.next();
    ASSERT_TRUE(after && after->stage == Stage::after);
    EXPECT_EQ(after->decision(0), (Decision{0xabcdef01, 1}));
    EXPECT_EQ(after->decision(1), (Decision{kNoDetail, 2}));
    EXPECT_EQ(after->in(1)[7], 8);
    after->outcome(0) = 2;
    after->outcome(1) = 3;  // of 0, 1, 2
    AtFirstHand::answer(*after);
    EXPECT_EQ(side.exchange.take(taken), Exchange::Reply::wrong);
    const auto whole = side.next();
    ASSERT_TRUE(whole && whole->stage == Stage::whole);
    whole->outcome(0) = whole->outcome(1) = 2;
    AtFirstHand::answer(*whole);
    EXPECT_EQ(side.exchange.take(taken), Exchange::Reply::good);
    EXPECT_EQ(side.exchange.waiting(), 0u);
}

TEST(Exchange, KeepsTheSlotOfAQuestionThatWasGivenUpBehindOthers) {
    AtFirstHand side({1, 1, 1, 1, 1});
    const std::vector<Shown> packets(1);
    Exchange::Taken taken;
    for (uint64_t round = 0; round < 10; ++round) {
        ASSERT_TRUE(side.exchange.ask(packets, 1, Stage::before));
        ASSERT_TRUE(side.exchange.ask(packets, 2, Stage::after));
        ASSERT_TRUE(side.exchange.ask(packets, 3, Stage::before));
        EXPECT_EQ(side.exchange.give_up(Stage::after), 2u);
        EXPECT_EQ(side.exchange.waiting(), 3u);
        EXPECT_FALSE(side.exchange.ask(packets, 4, Stage::after));
        const auto first = side.next(), second = side.next(), third = side.next();
        ASSERT_TRUE(first && second && third);
        second->outcome(0) = 7;  // it comes too late to be wrong
        AtFirstHand::answer(*second);
        EXPECT_EQ(side.exchange.take(taken), Exchange::Reply::none);
        AtFirstHand::answer(*first);
        ASSERT_EQ(side.exchange.take(taken), Exchange::Reply::good);
        EXPECT_EQ(taken.id, 1u);
        EXPECT_EQ(side.exchange.waiting(), 1u) << "both slots are free";
        if (round % 2 == 0) {
            AtFirstHand::answer(*third);
            ASSERT_EQ(side.exchange.take(taken), Exchange::Reply::good);
            EXPECT_EQ(taken.id, 3u);
        } else {
            EXPECT_EQ(side.exchange.give_up(Stage::before), 3u);
        }
        EXPECT_EQ(side.exchange.waiting(), 0u);
    }
}

/// What its process makes of packets, all at once or stage by stage: outcomes, and the fields that it may change.
struct Made {
    std::vector<uint32_t> outcomes;
    std::vector<std::vector<uint8_t>> back;
    friend bool operator==(const Made&, const Made&) = default;
};
Made made_of(const Member::Batch& batch, const std::vector<Shown>& packets) {
    Made made;
    for (uint32_t i = 0; i < batch.count; ++i) {
        made.outcomes.push_back(batch.outcome(i));
        const auto back = batch.back(i).first(packets[i].back_bytes);
        made.back.emplace_back(back.begin(), back.end());
    }
    return made;
}

class Stages : public testing::Test {
protected:
    FunctionHost made_host() { return {test::marks(), Config::parse(test::kMarks), "acme", testing::TempDir()}; }
    /// The device half, as a GPU would have it, over frames of which only what is shown is there.
    static void run_device(const FunctionHost& host, const Terms& terms, const std::vector<Asked>& packets,
                           const Member::Batch& before, std::vector<Shown>& shown,
                           std::vector<std::vector<uint8_t>>& bytes) {
        const Fields sees{terms.sees};
        for (size_t i = 0; i < packets.size(); ++i) {
            const auto length = static_cast<uint32_t>(packets[i].frame.size());
            millrace::test::Frame frame(length);
            unpack(shown[i].bytes.data(), frame.data(), length, packets[i].layers, sees);
            Packet packet = device::handle_at(frame.data(), length, shown[i].about, static_cast<uint32_t>(i),
                                              before.argument(static_cast<uint32_t>(i)));
            shown[i].decision = test::marks().process_with(1)(packet, host.function().image().tables());
            bytes.emplace_back(shown[i].bytes.size());
            pack(frame.data(), length, packets[i].layers, sees, bytes.back().data());
        }
        for (size_t i = 0; i < packets.size(); ++i) shown[i].bytes = bytes[i];
    }
};

TEST_F(Stages, OneByOneGiveWhatTheWholeFunctionGives) {
    const Terms terms = terms_for(test::marks());
    FunctionHost whole = made_host(), staged = made_host();
    whole.agree(terms);
    staged.agree(terms);
    std::set<uint32_t> outcomes;
    for (const uint32_t count : {0u, 1u, 31u, 32u, 33u, 256u}) {
        SCOPED_TRACE(count);
        const std::vector<Asked> packets = test::packets_of_customers(count, count + 1);
        ShownPackets shown(packets, terms);
        AtFirstHand side(test::shape_for(terms));
        ASSERT_TRUE(side.exchange.ask(shown.all(), 1));
        const auto all = side.next();
        whole.answer(*all);
        const Made wanted = made_of(*all, shown.all());
        ASSERT_TRUE(side.exchange.ask(shown.all(), 2, Stage::before));
        const auto before = side.next();
        staged.answer(*before);
        std::vector<std::vector<uint8_t>> bytes;
        run_device(staged, terms, packets, *before, shown.all(), bytes);
        ASSERT_TRUE(side.exchange.ask(shown.all(), 3, Stage::after));
        const auto after = side.next();
        staged.answer(*after);
        EXPECT_EQ(made_of(*after, shown.all()), wanted);
        outcomes.insert(wanted.outcomes.begin(), wanted.outcomes.end());
    }
    EXPECT_EQ(outcomes, (std::set<uint32_t>{0, 1, 2, 3})) << "packets of each kind came";
    EXPECT_EQ(staged.counters().packets.get(), whole.counters().packets.get()) << "each counts once";
    EXPECT_EQ(staged.counters().bytes.get(), whole.counters().bytes.get());
    for (size_t i = 0; i < 4; ++i)
        EXPECT_EQ(staged.counters().by_outcome[i].get(), whole.counters().by_outcome[i].get());
}

/// A manager is not trusted: whatever number stands in a question, the function is not called with it.
TEST_F(Stages, AreNotAskedForWhatCantBe) {
    const Terms terms = terms_for(test::marks());
    FunctionHost host = made_host();
    host.agree(terms);
    FunctionHost without(*nf::find_type("mirror"), Config::parse("{}"), "acme", testing::TempDir());
    const Terms of_mirror = terms_for(*nf::find_type("mirror"));
    without.agree(of_mirror);
    const std::vector<Asked> packets = test::packets_of_customers(3, 1);
    const auto refusal_of = [&](FunctionHost& whose, const Terms& own, uint32_t stage, const Decision& decision,
                                uint32_t longer = 0) {
        ShownPackets shown(packets, own);
        for (Shown& packet : shown.all()) packet.decision = decision;
        shown.all()[2].about.layers.end = static_cast<uint16_t>(shown.all()[2].about.layers.end + longer);
        AtFirstHand side(test::shape_for(own));
        side.exchange.ask(shown.all(), 1, Stage::after);
        auto batch = side.next();
        batch->stage = static_cast<Stage>(stage);
        try {
            whose.answer(*batch);
        } catch (const std::runtime_error& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    for (uint32_t stage = 0; stage < kStages; ++stage) EXPECT_EQ(refusal_of(host, terms, stage, {0, 1}), "");
    for (const uint32_t stage : {3u, 4u, 0x100u, 0x80000000u, 0xffffffffu})
        EXPECT_EQ(refusal_of(host, terms, stage, {0, 0}),
                  "the manager asks for a stage that 'customer-marks' does not have");
    EXPECT_EQ(refusal_of(without, of_mirror, 0, {0, 0}), "");
    for (const uint32_t stage : {1u, 2u})
        EXPECT_EQ(refusal_of(without, of_mirror, stage, {0, 0}),
                  "the manager asks for a stage that 'mirror' does not have");
    // Any detail, but no outcome that the type does not have.
    for (const uint32_t detail : {0u, 1u, 255u, 0x7fffffffu, kNoDetail})
        EXPECT_EQ(refusal_of(host, terms, 2, {detail, 0}), "");
    for (const uint32_t outcome : {4u, 31u, 32u, 0x80000000u, 0xffffffffu})
        EXPECT_EQ(refusal_of(host, terms, 2, {0, outcome}),
                  "the manager tells of an outcome that its device half can't have given");
    for (const uint32_t stage : {1u, 2u})
        EXPECT_EQ(refusal_of(host, terms, stage, {0, 0}, 5000), "the manager asks about a packet that can't be");
}

/// Tells of each packet in its device half, which is for nobody, and of those with an argument behind it.
struct Teller {
    enum Outcome : uint32_t { kSeen };
    static constexpr Fields reads = field::ip_src;
    static constexpr Fields writes = field::none;
    static constexpr unsigned lanes = 1;
    struct Tables {
        uint32_t unused = 0;
    };
    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables&, Lanes) {
        packet.emit(1000);
        return {argument_of(packet), kSeen};
    }
};
class TellerHost : public nf::NetworkFunction, public nf::BeforeDevice, public nf::AfterDevice {
public:
    TellerHost(const Config&, const nf::Environment&) { image_.start<Teller::Tables>(); }
    const nf::Image& image() const override { return image_; }
    void before(std::span<const Packet* const> packets, uint32_t* arguments) override {
        for (size_t i = 0; i < packets.size(); ++i) arguments[i] = static_cast<uint32_t>(i);
    }
    void after(std::span<Packet* const> packets, Decision* decisions) override {
        for (size_t i = 0; i < packets.size(); ++i) {
            EXPECT_EQ(argument_of(*packets[i]), 0u) << "it is for the device half alone";
            if (decisions[i].detail % 2 == 1) packets[i]->emit_once(decisions[i].detail);
        }
    }
    void on_event(const Event& event, const nf::PacketInfo& packet) override {
        told.push_back({packet.number, event.code});
    }
    std::vector<std::pair<uint64_t, uint32_t>> told;

private:
    nf::Image image_;
};
const nf::Register<Teller, TellerHost> teller{{
    .name = "teller-behind",
    .summary = "tells of packets after its device half",
    .outcomes = {{"seen", nf::Disposition::next, ""}},
    .device_header = "none",
    .device_struct = "none",
    .emits_events = true,
}};

TEST_F(Stages, TellEventsInPlaceOfTheDeviceHalf) {
    FunctionHost host(*nf::find_type("teller-behind"), Config::parse("{}"), "acme", testing::TempDir());
    const Terms terms = terms_for(*nf::find_type("teller-behind"));
    host.agree(terms);
    EXPECT_NO_THROW(host.check_device_half()) << "its device half has nothing to tell, so it may go to a GPU";
    const std::vector<Asked> packets = test::packets_of_customers(4, 1);
    AtFirstHand side(test::shape_for(terms));
    ShownPackets shown(packets, terms);
    side.exchange.ask(shown.all(), 1);
    host.answer(*side.next());
    for (uint32_t i = 0; i < 4; ++i) shown.all()[i].decision = {10 + i, 0};
    side.exchange.ask(shown.all(), 2, Stage::before);
    host.answer(*side.next());
    side.exchange.ask(shown.all(), 3, Stage::after);
    host.answer(*side.next());
    const auto& told = dynamic_cast<const TellerHost&>(host.function()).told;
    using Told = std::vector<std::pair<uint64_t, uint32_t>>;
    EXPECT_EQ(told, (Told{{2, 1}, {4, 3}, {6, 11}, {8, 13}}));
}

}  // namespace
}  // namespace millrace::tenancy
