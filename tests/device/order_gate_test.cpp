// What devices that run the same chains share: states, and the word of resident kernels.
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

#include "millrace/device/order_gate.hpp"
#include "millrace/device/sim/sim_device.hpp"

namespace millrace::device {
namespace {

/// A state of an NF's in the host's memory.
struct State {
    explicit State(uint32_t first) : words(64, first), owner(std::make_shared<int>(0)) {}
    StateArray array() const {
        StateArray array;
        array.host = const_cast<uint32_t*>(words.data());
        array.bytes = 16 * sizeof(uint32_t);
        array.whole_bytes = words.size() * sizeof(uint32_t);
        array.owner = owner;
        return array;
    }
    std::vector<uint32_t> words;
    std::shared_ptr<const void> owner;
};

TEST(OrderGate, SharesAStateAmongAllThatAskForIt) {
    OrderGate gate;
    const auto one = std::make_shared<sim::SimDevice>(), other = std::make_shared<sim::SimDevice>();
    State state(7), second(9);
    uint32_t* const words = gate.share(one, state.array());
    EXPECT_EQ(gate.share(other, state.array()), words) << "devices must find it in the same place";
    EXPECT_NE(gate.share(one, second.array()), words);
    // All of it, as a later generation may change more of it than this one.
    for (size_t i = 0; i < state.words.size(); ++i) ASSERT_EQ(words[i], 7u) << i;
    words[3] = 1;
    EXPECT_EQ(gate.share(one, state.array())[3], 1u) << "what a batch has left is not overwritten";
}

TEST(OrderGate, TakesAnotherStateInTheSamePlaceForAnother) {
    OrderGate gate;
    const auto device = std::make_shared<sim::SimDevice>();
    State state(1);
    gate.share(device, state.array())[0] = 100;
    // The NF has gone, and another one's state has come to lie there.
    state.owner = std::make_shared<int>(1);
    state.words.assign(64, 2);
    EXPECT_EQ(gate.share(device, state.array())[0], 2u);
}

TEST(OrderGate, KeepsAThousandStates) {
    OrderGate gate;
    const auto device = std::make_shared<sim::SimDevice>();
    std::vector<std::unique_ptr<State>> states;
    std::vector<uint32_t*> words;
    for (uint32_t i = 0; i < 1000; ++i) {
        states.push_back(std::make_unique<State>(i));
        words.push_back(gate.share(device, states.back()->array()));
    }
    for (uint32_t i = 0; i < 1000; ++i) {
        ASSERT_EQ(gate.share(device, states[i]->array()), words[i]);
        ASSERT_EQ(words[i][63], i);
    }
}

/// Tables of an NF with the states that it shares with other NFs.
struct Image : nf::Image {
    using Words = std::shared_ptr<std::vector<uint64_t>>;
    struct Tables {
        MutableView<uint64_t> states[2];
        View<uint64_t> rules;
    };
    explicit Image(const std::vector<Words>& states, const Words& rules = std::make_shared<std::vector<uint64_t>>(4)) {
        auto& tables = start<Tables>();
        for (size_t i = 0; i < states.size(); ++i) attach_state(tables.states[i], states[i], "state");
        attach(tables.rules, std::shared_ptr<const std::vector<uint64_t>>(rules));
    }
    static Words words() { return std::make_shared<std::vector<uint64_t>>(4); }
};

TEST(OrderGate, KeepsBatchesInSequenceByWhatTheyChange) {
    OrderGate gate;
    const auto state = Image::words(), other = Image::words(), more = Image::words(), rules = Image::words();
    const auto first = gate.sequence_of(Image({state}, rules));
    EXPECT_EQ(gate.sequence_of(Image({state})), first) << "of another worker, or a later generation";
    EXPECT_EQ(gate.sequence_of(Image({state, more})), first);
    EXPECT_EQ(gate.sequence_of(Image({more})), first) << "the state came along";
    const auto second = gate.sequence_of(Image({other}, rules));
    EXPECT_NE(second, first) << "what nobody changes keeps nobody waiting";
    EXPECT_NE(second->place(), first->place());
    EXPECT_THROW(gate.sequence_of(Image({state, other})), DeviceError);

    EXPECT_EQ(first->follow(7).number(), 0u) << "there is none before";
    const SequencePoint before = first->follow(9);
    EXPECT_EQ(before.number(), 7u);
    EXPECT_EQ(before.place(), first->place());
    EXPECT_EQ(second->follow(10).number(), 0u);
}

TEST(OrderGate, HasPlacesForThousandsOfSequences) {
    OrderGate gate;
    std::vector<Image::Words> states;
    std::vector<std::shared_ptr<StateSequence>> sequences;
    std::set<uint32_t> places;
    for (int i = 0; i < 5000; ++i) {
        states.push_back(Image::words());
        sequences.push_back(gate.sequence_of(Image({states.back()})));
        places.insert(sequences.back()->place());
    }
    EXPECT_EQ(places.size(), 5000u);
    // Where nobody has a sequence any more all its batches are through.
    const uint32_t free = sequences[17]->place();
    sequences[17]->follow(3);
    sequences[17] = nullptr;
    const auto again = gate.sequence_of(Image({states[17]}));
    EXPECT_EQ(again->place(), free);
    EXPECT_EQ(again->follow(4).number(), 0u);
}

TEST(OrderGate, HasOneWordForResidentKernelsAsLongAsSomebodyNeedsIt) {
    const auto device = std::make_shared<sim::SimDevice>();
    OrderGate& gate = *device->order_gate();
    gate.resident_sequences = 41;
    auto word = gate.sequence_word(device);
    EXPECT_EQ(*word, 41u) << "it begins where the kernels before have ended";
    EXPECT_EQ(gate.sequence_word(device), word);
    *word = 50;
    word = nullptr;
    gate.resident_sequences = 60;
    EXPECT_EQ(*gate.sequence_word(device), 60u);
}

/// The gate is the device's, so that a word which kept the device would keep itself.
TEST(OrderGate, LetsItsDeviceGo) {
    std::weak_ptr<Device> gone;
    {
        const auto device = std::make_shared<sim::SimDevice>();
        gone = device;
        const auto word = device->order_gate()->sequence_word(device);
    }
    EXPECT_TRUE(gone.expired());
}

TEST(OrderGate, IsAskedByManyThreadsAtOnce) {
    OrderGate gate;
    const auto device = std::make_shared<sim::SimDevice>();
    std::vector<std::unique_ptr<State>> states;
    for (uint32_t i = 0; i < 16; ++i) states.push_back(std::make_unique<State>(i));
    std::vector<std::vector<uint32_t*>> seen(4);
    std::vector<std::thread> threads;
    for (auto& own : seen)
        threads.emplace_back([&] {
            for (int round = 0; round < 50; ++round)
                for (const auto& state : states) own.push_back(gate.share(device, state->array()));
        });
    for (std::thread& thread : threads) thread.join();
    for (const auto& own : seen) EXPECT_EQ(own, seen[0]);
}

}  // namespace
}  // namespace millrace::device
