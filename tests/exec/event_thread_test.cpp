// The thread beside the workers: what has been told of packets is soon seen by others.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <stdexcept>
#include <thread>

#include "millrace/nftest/listener.hpp"
#include "millrace/exec/cpu/event_line.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "support/test_chain.hpp"
#include "support/end_of_run.hpp"

namespace millrace::test {
namespace {

/// Counts how often it is asked to show its events.
class Showing : public nftest::Listener {
public:
    using Listener::Listener;
    void on_event(const Event& event, const nf::PacketInfo& packet) override {
        Listener::on_event(event, packet);
        if (then) then();
    }
    void events_told() override {
        seen = events.size();
        ++shown;
        if (throws) throw std::runtime_error("no room");
    }
    std::function<void()> then;
    std::atomic<size_t> shown{0}, seen{0};
    bool throws = false;
};

bool comes_true(const std::function<bool()>& condition) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition() && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return condition();
}

/// Two functions of a chain, and the thread that tells their events.
class EventThreadOfTwo : public testing::Test {
protected:
    EventThreadOfTwo() : line(events.add_line()) {
        auto made = std::make_shared<chain::Program>(
            *make_configuration("[{name: a, mirror: }, {name: b, mirror: }]", "cpu").chains[0]);
        for (chain::Node& node : made->nodes) {
            functions.push_back(std::make_shared<Showing>(node.nf));
            node.nf = functions.back();
        }
        program = made;
    }
    void put(uint16_t node) {
        Event event{};
        event.node = node;
        ASSERT_TRUE(line.put(program, {&event, 1}, {}, false));
    }
    std::shared_ptr<const chain::Program> program;
    std::vector<std::shared_ptr<Showing>> functions;
    exec::EventThread events;
    exec::EventLine& line;
};

TEST_F(EventThreadOfTwo, AsksOnceForManyEventsAndOnlyWhoseTheyAre) {
    for (unsigned i = 0; i < 1000; ++i) put(1);
    events.start();
    ASSERT_TRUE(comes_true([&] { return functions[1]->shown > 0; }));
    EXPECT_EQ(functions[1]->seen, 1000u);
    events.finish();
    EXPECT_EQ(functions[1]->shown, 1u);
    EXPECT_EQ(functions[0]->shown, 0u);
}

TEST_F(EventThreadOfTwo, AsksWhileThereAreAlwaysMoreEvents) {
    std::atomic<bool> on{true};
    functions[0]->then = [&] {
        if (on) put(0);
    };
    put(0);
    events.start();
    EXPECT_TRUE(comes_true([&] { return functions[0]->shown > 2; }));
    on = false;
    events.finish();
    EXPECT_EQ(functions[0]->seen, functions[0]->events.size());
}

TEST_F(EventThreadOfTwo, AsksTheOthersWhereOneThrowsAndSaysWhy) {
    functions[0]->throws = functions[1]->throws = true;
    for (const uint16_t node : {0, 1}) put(node);
    events.start();
    events.finish();
    EXPECT_EQ(functions[0]->shown + functions[1]->shown, 2u);
    EXPECT_EQ(events.trouble(), "an event could not be shown: no room");
}

/// However full the line is, and however many lines there are.
TEST_F(EventThreadOfTwo, TellsThePiecesOfANoteOneBehindTheOther) {
    exec::EventLine& other = events.add_line();
    constexpr uint32_t kNotes = 20'000;
    const auto put_notes = [this](exec::EventLine& into, uint16_t node) {
        Event pieces[3] = {};
        for (uint32_t note = 0; note < kNotes; ++note) {
            for (uint32_t i = 0; i < 3; ++i) {
                pieces[i].node = node;
                pieces[i].code = i;
                pieces[i].packet = note;
            }
            ASSERT_TRUE(into.put(program, pieces, {}, false));
        }
    };
    std::vector<std::pair<uint16_t, uint32_t>> told;
    for (const uint16_t node : {0, 1})
        functions[node]->then = [&, node] { told.emplace_back(node, functions[node]->events.back().code); };
    events.start();
    std::thread first([&] { put_notes(line, 0); }), second([&] { put_notes(other, 1); });
    first.join();
    second.join();
    events.finish();
    ASSERT_EQ(told.size(), 6 * kNotes);
    for (size_t i = 0; i < told.size(); i += 3)
        for (uint32_t piece = 0; piece < 3; ++piece)
            ASSERT_EQ(told[i + piece], std::pair(told[i].first, piece)) << "event " << i;
}

/// So few alerts a second that they don't fill a buffer meanwhile.
TEST(Alerts, AreInTheirFileWhilePacketsGoOn) {
    const std::string file = testing::TempDir() + "event_thread_test.json";
    std::filesystem::remove(file);
    exec::Runtime runtime(chain::parse_configuration(
        "version: 1\nports: {in: {source: {rate: 5}}, out: {sink: {}}}\nchains: {c: {input: in, output: out, nfs: "
        "[nids: {eve: " +
            file + ", rule: ['alert ip any any -> any any (sid:1;)']}]}}\n",
        "test"));
    runtime.start();
    EXPECT_TRUE(comes_true([&] {
        std::ifstream lines(file);
        std::string first;
        return std::getline(lines, first) && first.ends_with("}");
    }));
    EXPECT_FALSE(runtime.wait(std::chrono::milliseconds(0))) << "it still runs";
    stop_run(runtime);
    std::filesystem::remove(file);
}

}  // namespace
}  // namespace millrace::test
