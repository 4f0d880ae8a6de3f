// Batches of a function with CPU stages, on their way from its process to the GPU and back: a real GPU, or the emulated
// one.
#include <deque>
#include <thread>

#include "millrace/tenancy/manager/rotation.hpp"
#include "tenancy/stages.hpp"

namespace millrace::tenancy {
namespace {

using test::Asked;
using test::AtFirstHand;
using test::half_of;
using test::OnTheGpu;
using test::ShownPackets;
using test::some_packets;
using test::wait_until;
using Reply = Rotation::Reply;
using Clock = Rotation::Clock;

/// Where a packet's handle has its argument.
size_t place_of_argument() {
    Packet packet{};
    packet.set_ticket(0x0102030405060708);
    std::vector<uint8_t> bytes(sizeof packet);
    std::memcpy(bytes.data(), static_cast<const void*>(&packet), sizeof packet);
    const uint8_t wanted[] = {8, 7, 6, 5, 4, 3, 2, 1};
    return static_cast<size_t>(std::search(bytes.begin(), bytes.end(), std::begin(wanted), std::end(wanted)) -
                               bytes.begin());
}

/// Of the argument the lowest byte is the outcome, the next one is written to the destination's address, and the upper
/// half says how many rounds it takes. The detail is all of it.
std::string obeys_its_argument() {
    return ".version 9.0\n.target sm_90\n.address_size 64\n"
           ".visible .func (.param .align 4 .b8 result[8]) obeys(.param .b64 packet, .param .b64 tables)\n{\n"
           ".reg .pred %p<2>;\n.reg .b32 %r<6>;\n.reg .b64 %rd<3>;\n"
           "ld.param.u64 %rd1, [packet];\nld.u32 %r1, [%rd1+" +
           std::to_string(place_of_argument()) +
           "];\nand.b32 %r2, %r1, 255;\nshr.u32 %r3, %r1, 8;\nshr.u32 %r4, %r1, 16;\nmov.u32 %r5, 0;\n"
           "ROUND:\nsetp.ge.u32 %p1, %r5, %r4;\n@%p1 bra DONE;\nadd.u32 %r5, %r5, 1;\nbra ROUND;\n"
           "DONE:\nld.u64 %rd2, [%rd1];\nst.u8 [%rd2+3], %r3;\n"
           "st.param.b32 [result], %r1;\nst.param.b32 [result+4], %r2;\nret;\n}\n";
}
constexpr uint32_t argument_of_test(uint32_t outcome, uint32_t mark, uint32_t rounds = 0) {
    return outcome | mark << 8 | rounds << 16;
}

class RotationOnTheGpu : public OnTheGpu {
protected:
    static constexpr uint32_t kOutcomes = 3, kPackets = 33;
    void begin(const nf::CpuStages& stages) {
        DeviceHalf half = half_of(obeys_its_argument(), "obeys", kOutcomes);
        half.stages = stages;
        function_ = place(half, test::terms_of_addresses());
        side_.emplace(function_->terms().shape);
        rotation_.emplace(side_->exchange, counters_);
        rotation_->use(function_->lane(0), stages);
        packets_ = some_packets(kPackets, 3);
        shown_.emplace(packets_, test::terms_of_addresses());
    }
    void TearDown() override {
        if (function_ != nullptr) {
            EXPECT_TRUE(wait_until([&] { return function_->idle(); }));
        }
        OnTheGpu::TearDown();
    }
    bool ask(uint64_t id) { return rotation_->ask(shown_->all(), id, Clock::now()); }
    Reply take() { return rotation_->take(taken_, Clock::now()); }
    static void give(const Member::Batch& before, uint32_t argument) {
        EXPECT_EQ(before.stage, Stage::before);
        for (uint32_t i = 0; i < before.count; ++i) before.argument(i) = argument;
        AtFirstHand::answer(before);
    }
    static void finish(const Member::Batch& after, uint32_t outcome, uint8_t mark) {
        EXPECT_EQ(after.stage, Stage::after);
        for (uint32_t i = 0; i < after.count; ++i) {
            after.outcome(i) = outcome;
            after.back(i)[0] = mark;
        }
        AtFirstHand::answer(after);
    }
    /// Until one is answered; `none` where that takes too long.
    Reply wait_for_reply() {
        Reply reply = Reply::none;
        wait_until([&] { return (reply = take()) != Reply::none; });
        return reply;
    }
    bool wait_for_after(size_t batches) {
        return wait_until([&] { return take() == Reply::none && rotation_->in_after() == batches; });
    }

    std::unique_ptr<ConfinedFunction> function_;
    std::optional<AtFirstHand> side_;
    RotationCounters counters_;
    std::optional<Rotation> rotation_;
    std::vector<Asked> packets_;
    std::optional<ShownPackets> shown_;
    Exchange::Taken taken_;
};

TEST_F(RotationOnTheGpu, ThreeBatchesAreInThreePlaces) {
    begin({true, true});
    for (const uint64_t id : {1, 2, 3}) {
        EXPECT_TRUE(rotation_->has_room({}));
        ASSERT_TRUE(ask(id));
    }
    EXPECT_FALSE(rotation_->has_room({}));
    EXPECT_FALSE(ask(4));
    EXPECT_EQ(rotation_->in_before(), 3u);
    const auto first = side_->next(), second = side_->next(), third = side_->next();
    ASSERT_TRUE(first && second && third);
    EXPECT_EQ(first->in(0).size(), 12u);
    give(*first, argument_of_test(1, 0x77));
    ASSERT_TRUE(wait_for_after(1));
    // So long that it is there while the process works at two others.
    give(*second, argument_of_test(2, 0x78, 20'000));
    EXPECT_EQ(take(), Reply::none);
    EXPECT_EQ(rotation_->in_before(), 1u);
    EXPECT_EQ(rotation_->on_device(), 1u);
    EXPECT_EQ(rotation_->in_after(), 1u);
    EXPECT_EQ(counters_.beside.get(), 0u);
    const auto behind = side_->next();
    ASSERT_TRUE(behind);
    // What the device half has written and decided.
    for (uint32_t i = 0; i < kPackets; ++i) {
        EXPECT_EQ(behind->decision(i), (Decision{argument_of_test(1, 0x77), 1}));
        ASSERT_EQ(behind->in(i)[3], 0x77);
        ASSERT_TRUE(std::equal(behind->in(i).begin() + 4, behind->in(i).end(), packets_[i].frame.begin() + 4));
    }
    give(*third, argument_of_test(0, 0x79));
    finish(*behind, 2, 0x11);
    ASSERT_EQ(wait_for_reply(), Reply::good) << "the process answers in order: the third was asked first";
    EXPECT_EQ(taken_.id, 1u);
    EXPECT_EQ(taken_.outcomes[kPackets - 1], 2u) << "the last word is the process's";
    EXPECT_EQ(taken_.back[0], 0x11);
    EXPECT_GT(counters_.beside.get(), 0u) << "a CPU stage ended while the device had another batch";
    ASSERT_TRUE(wait_for_after(2));
    for (const uint64_t id : {2, 3}) {
        const auto after = side_->next();
        ASSERT_TRUE(after);
        EXPECT_EQ(after->decision(0).outcome, id == 2 ? 2u : 0u);
        finish(*after, 0, 0);
        ASSERT_EQ(wait_for_reply(), Reply::good);
        EXPECT_EQ(taken_.id, id);
    }
    EXPECT_EQ(rotation_->waiting(), 0u);
}

TEST_F(RotationOnTheGpu, AFunctionMayHaveOneStageAlone) {
    for (const nf::CpuStages stages : {nf::CpuStages{true, false}, nf::CpuStages{false, true}}) {
        SCOPED_TRACE(stages.before);
        begin(stages);
        for (uint64_t id = 1; id < 20; ++id) {
            ASSERT_TRUE(ask(id));
            if (stages.before) give(*side_->next(), argument_of_test(2, 0x55));
            if (stages.after) {
                ASSERT_TRUE(wait_for_after(1));
                const auto after = side_->next();
                EXPECT_EQ(after->decision(0).outcome, 0u) << "its argument is 0";
                finish(*after, 1, 0x66);
            }
            ASSERT_EQ(wait_for_reply(), Reply::good);
            EXPECT_EQ(taken_.id, id);
            EXPECT_EQ(taken_.outcomes[0], stages.before ? 2u : 1u);
            EXPECT_EQ(taken_.back[stages.before ? 3 : 0], stages.before ? 0x55 : 0x66);
        }
        EXPECT_TRUE(wait_until([&] { return function_->idle(); }));
    }
}

TEST_F(RotationOnTheGpu, ABatchThatTheDeviceHalfHasWrongWaitsForThoseBeforeIt) {
    begin({true, true});
    for (const uint64_t id : {1, 2, 3}) ASSERT_TRUE(ask(id));
    give(*side_->next(), argument_of_test(0, 0));
    give(*side_->next(), argument_of_test(kOutcomes, 0));  // of 0, 1, 2
    give(*side_->next(), argument_of_test(1, 0));
    ASSERT_TRUE(wait_until([&] { return take() == Reply::none && rotation_->on_device() == 1; }));
    EXPECT_EQ(rotation_->waiting(), 3u);
    EXPECT_EQ(take(), Reply::none) << "the first is still in its process";
    finish(*side_->next(), 0, 0);
    ASSERT_EQ(wait_for_reply(), Reply::good);
    EXPECT_EQ(taken_.id, 1u);
    ASSERT_EQ(wait_for_reply(), Reply::wrong);
    EXPECT_EQ(taken_.id, 2u);
    ASSERT_TRUE(wait_for_after(1));
    finish(*side_->next(), kOutcomes, 0);  // it has that one by the terms, if not by its device half
    ASSERT_EQ(wait_for_reply(), Reply::good);
    EXPECT_EQ(taken_.id, 3u);
    ASSERT_TRUE(ask(4));
    give(*side_->next(), 0);
    ASSERT_TRUE(wait_for_after(1));
    finish(*side_->next(), kMaxOutcomes, 0);
    ASSERT_EQ(wait_for_reply(), Reply::wrong);
    EXPECT_EQ(taken_.id, 4u);
}

/// Wherever the oldest batch is: those behind it get their answers, and what comes of it later is nobody's.
TEST_F(RotationOnTheGpu, BatchesAreGivenUpInAnyPlace) {
    begin({true, true});
    // Before the device.
    ASSERT_TRUE(ask(1) && ask(2) && ask(3));
    EXPECT_EQ(rotation_->give_up(), 1u);
    give(*side_->next(), argument_of_test(kOutcomes, 0));
    give(*side_->next(), argument_of_test(1, 0));
    ASSERT_TRUE(wait_for_after(1));
    // After it, behind a question about a later one.
    const auto of_third = side_->next(), of_second = side_->next();
    EXPECT_EQ(of_second->stage, Stage::after);
    EXPECT_EQ(rotation_->give_up(), 2u);
    EXPECT_EQ(side_->exchange.waiting(), 2u);
    finish(*of_second, 7, 7);
    give(*of_third, argument_of_test(2, 0, 20'000));
    EXPECT_EQ(take(), Reply::none);
    EXPECT_EQ(rotation_->on_device(), 1u);
    // On it.
    ASSERT_TRUE(ask(4));
    EXPECT_EQ(rotation_->give_up(), 3u);
    EXPECT_EQ(rotation_->waiting(), 1u);
    give(*side_->next(), argument_of_test(1, 0));
    ASSERT_TRUE(wait_for_after(1));
    const auto last = side_->next();
    EXPECT_EQ(last->decision(0), (Decision{argument_of_test(1, 0), 1})) << "not the third's";
    finish(*last, 1, 0);
    ASSERT_EQ(wait_for_reply(), Reply::good);
    EXPECT_EQ(taken_.id, 4u);
    EXPECT_EQ(rotation_->waiting(), 0u);
}

/// A process that answers anything, whenever, and a manager that loses patience: each batch has one end, in order.
TEST_F(RotationOnTheGpu, EachBatchHasOneEndWhateverItsProcessDoes) {
    begin({true, true});
    millrace::test::Rng random(11);
    std::deque<uint64_t> waiting;
    std::deque<Member::Batch> questions;
    uint64_t next = 1, good = 0, wrong = 0, given_up = 0;
    const auto ended = [&](uint64_t id) {
        ASSERT_FALSE(waiting.empty());
        ASSERT_EQ(id, waiting.front());
        waiting.pop_front();
    };
    const auto end = Clock::now() + std::chrono::seconds(20);
    while ((good < 40 || wrong < 20 || given_up < 30) && Clock::now() < end) {
        while (auto question = side_->next()) questions.push_back(*question);
        switch (random() % 8) {
            case 0:
                if (ask(next)) waiting.push_back(next++);
                break;
            case 1:
            case 2:
            case 3: {
                if (questions.empty()) break;
                const bool any = random() % 4 == 0;
                const size_t which = any ? random() % questions.size() : 0;
                const Member::Batch batch = questions[which];
                questions.erase(questions.begin() + static_cast<ptrdiff_t>(which));
                for (uint32_t i = 0; i < batch.count; ++i) {
                    const auto outcome = static_cast<uint32_t>(random() % 64 == 0 ? random() : random() % kOutcomes);
                    batch.outcome(i) = batch.stage == Stage::before
                                           ? argument_of_test(outcome & 0xff, static_cast<uint32_t>(random() & 0xff))
                                           : outcome;
                    for (uint8_t& byte : batch.back(i)) byte = static_cast<uint8_t>(random());
                }
                AtFirstHand::answer(batch);
                break;
            }
            case 4: {
                // Some number where the answer's belongs, and anything behind it.
                Answer& there = side_->memory->answer(0, random() % 8);
                there.number.store(random() % 2 == 0 ? random() : next, std::memory_order_release);
                for (uint32_t& word : there.words) word = static_cast<uint32_t>(random() & 0xffff);
                break;
            }
            case 5:
                if (!waiting.empty() && random() % 16 == 0) {
                    ended(rotation_->give_up());
                    ++given_up;
                }
                break;
            default:
                // However long the device takes, not every batch is given up there.
                if (random() % 4 == 0) {
                    ASSERT_TRUE(wait_until([&] { return function_->idle(); }));
                }
                const Reply reply = take();
                if (reply == Reply::none) break;
                ended(taken_.id);
                if (reply == Reply::good) {
                    ++good;
                    ASSERT_EQ(taken_.count, kPackets);
                    for (uint32_t i = 0; i < taken_.count; ++i) ASSERT_LT(taken_.outcomes[i], kMaxOutcomes);
                } else {
                    ++wrong;
                }
        }
        if (HasFatalFailure()) return;
        ASSERT_EQ(rotation_->waiting(), waiting.size());
        ASSERT_LE(waiting.size(), kSlots);
    }
    EXPECT_GE(good, 20u);
    EXPECT_GE(wrong, 20u);
    EXPECT_GE(given_up, 20u);
    while (!waiting.empty()) ended(rotation_->give_up());
    EXPECT_EQ(rotation_->waiting(), 0u);
}

}  // namespace
}  // namespace millrace::tenancy
