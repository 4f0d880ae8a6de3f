// What devices that run the same chains share: states, and the word of resident kernels.
#include <gtest/gtest.h>

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
