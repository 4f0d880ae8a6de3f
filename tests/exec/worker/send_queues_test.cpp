// Packets wait for ports in their order, are counted by who sends them when a port takes them, and are dropped by name
// when it takes none for too long.
#include "millrace/exec/egress/send_queues.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <random>
#include <ranges>

#include "millrace/io/metadata.hpp"
#include "millrace/nftest/packets/frame_pool.hpp"
#include "support/engine_runner.hpp"

namespace millrace::exec {
namespace {

/// Takes as many packets as it is told to.
class ScriptedPort : public io::Port {
public:
    ScriptedPort(uint16_t index, uint16_t queues)
        : Port({.name = "port", .kind = "test", .index = index, .send_queues = queues}) {}
    uint16_t receive(uint16_t, rte_mbuf**, uint16_t) override { return 0; }
    uint16_t send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override {
        const uint16_t taken = std::min(count, takes);
        takes = static_cast<uint16_t>(takes - taken);
        for (uint16_t i = 0; i < taken; ++i) {
            sent.push_back(io::packet_number(mbufs[i]));
            rte_pktmbuf_free(mbufs[i]);
        }
        if (taken > 0) last_queue = queue;
        return taken;
    }
    std::chrono::nanoseconds send_patience() const override { return patience; }

    uint16_t takes = 0;
    std::chrono::nanoseconds patience = std::chrono::hours(1);
    uint16_t last_queue = UINT16_MAX;
    std::vector<uint64_t> sent;
};

/// Ports, and two chains that send by them. Frames have 60 bytes.
class Sending : public testing::Test {
protected:
    static constexpr size_t kBurst = 32;

    void make(size_t ports, uint16_t queues, unsigned worker = 0) {
        for (size_t i = 0; i < ports; ++i) {
            ports_.push_back(std::make_unique<ScriptedPort>(static_cast<uint16_t>(i), queues));
            locks_.push_back(i % 2 != 0 ? std::make_unique<SpinLock>() : nullptr);
        }
        free_before_ = nftest::frame_pool().available();
        queues_ = std::make_unique<SendQueues>(ports_, locks_, worker, kBurst);
    }
    ScriptedPort& port(size_t index) { return static_cast<ScriptedPort&>(*ports_[index]); }
    void add(uint16_t port, uint64_t number, ChainCounters* sender) {
        rte_mbuf* const mbuf = nftest::make_mbuf(nftest::Frame(60, 0), number);
        queues_->add(port, {&mbuf, 1}, sender);
    }
    static uint64_t dropped(const ChainCounters& counters) {
        return counters.exit_drops[static_cast<size_t>(ExitDrop::transmit_full)].get();
    }

    const chain::Configuration configuration_ = test::make_configuration("[mirror]", "cpu");
    ChainCounters first_{*configuration_.chains[0]}, second_{*configuration_.chains[0]};
    std::vector<std::unique_ptr<io::Port>> ports_;
    std::vector<std::unique_ptr<SpinLock>> locks_;
    uint32_t free_before_ = 0;
    std::unique_ptr<SendQueues> queues_;
};

TEST_F(Sending, PacketsLeaveInTheirOrderAndAreCountedByTheirSenders) {
    make(3, 1);
    std::mt19937 rng(3);
    std::array<std::vector<uint64_t>, 3> given;
    std::array<std::deque<ChainCounters*>, 3> waiting;
    std::map<ChainCounters*, uint64_t> expected;
    uint64_t number = 0;
    for (int step = 0; step < 2000; ++step) {
        const auto to = static_cast<uint16_t>(rng() % 3);
        ChainCounters* const sender = std::array<ChainCounters*, 3>{&first_, &second_, nullptr}[rng() % 3];
        for (size_t count = rng() % 20; count > 0; --count, ++number) {
            add(to, number, sender);
            given[to].push_back(number);
            waiting[to].push_back(sender);
        }
        for (size_t i = 0; i < 3; ++i) port(i).takes = static_cast<uint16_t>(rng() % 40);
        const auto is_full = [&](size_t i) { return waiting[i].size() >= kBurst; };
        const bool all = rng() % 2 == 0;
        std::array<bool, 3> offered{};
        for (size_t i = 0; i < 3; ++i) offered[i] = all || is_full(i);
        std::array<size_t, 3> before{};
        for (size_t i = 0; i < 3; ++i) before[i] = port(i).sent.size();
        const size_t unsent_before = queues_->unsent();
        if (all) queues_->send_all();
        else queues_->send_full();
        size_t most = 0;
        for (size_t i = 0; i < 3; ++i) {
            const size_t left = port(i).sent.size() - before[i];
            const bool took_all = port(i).takes == 0 || left == waiting[i].size();
            ASSERT_TRUE(offered[i] ? took_all : left == 0);
            for (size_t k = 0; k < left; ++k, waiting[i].pop_front()) ++expected[waiting[i].front()];
            most = std::max(most, waiting[i].size());
            ASSERT_EQ(queues_->is_empty(static_cast<uint16_t>(i)), waiting[i].empty());
        }
        ASSERT_EQ(queues_->unsent(), all ? most : unsent_before);
    }
    for (size_t i = 0; i < 3; ++i)
        EXPECT_TRUE(std::ranges::equal(port(i).sent, given[i] | std::views::take(port(i).sent.size())));
    for (ChainCounters* sender : {&first_, &second_}) {
        EXPECT_EQ(sender->sent_packets.get(), expected[sender]);
        EXPECT_EQ(sender->sent_bytes.get(), 60 * expected[sender]);
    }
    // What is left is dropped by its senders' names, and no buffer is lost.
    std::map<ChainCounters*, uint64_t> left;
    for (const auto& line : waiting)
        for (ChainCounters* sender : line) ++left[sender];
    queues_.reset();
    EXPECT_EQ(dropped(first_), left[&first_]);
    EXPECT_EQ(dropped(second_), left[&second_]);
    EXPECT_EQ(nftest::frame_pool().available(), free_before_);
}

TEST_F(Sending, APortThatTakesNothingForTooLongLosesWhatWaitsAndNoMore) {
    make(2, 1);
    port(0).patience = std::chrono::nanoseconds(0);
    for (uint64_t i = 0; i < 5; ++i) add(0, i, &first_);
    add(1, 5, &second_);
    queues_->send_all();  // from here on the port is stuck
    EXPECT_EQ(queues_->unsent(), 5u);
    port(0).takes = 1;
    queues_->send_all();  // it was not: it takes some
    EXPECT_EQ(queues_->unsent(), 4u);
    queues_->send_all();
    EXPECT_EQ(queues_->unsent(), 4u) << "its patience begins anew";
    queues_->send_all();
    EXPECT_EQ(queues_->unsent(), 1u) << "that of the patient port";
    EXPECT_EQ(dropped(first_), 4u);
    EXPECT_EQ(dropped(second_), 0u);
    EXPECT_EQ(first_.sent_packets.get(), 1u);
}

TEST_F(Sending, APortThatCannotSendLosesAllAtOnce) {
    make(1, 0);
    add(0, 0, &first_);
    queues_->send_all();
    EXPECT_TRUE(queues_->is_empty(0));
    EXPECT_EQ(dropped(first_), 1u);
}

TEST_F(Sending, EachWorkerHasItsQueueWhileThereAreAsMany) {
    for (const auto& [worker, queue] : std::map<unsigned, uint16_t>{{0, 0}, {1, 1}, {3, 0}, {1000, 1}}) {
        ports_.clear();
        locks_.clear();
        make(1, 3, worker);
        port(0).takes = 1;
        add(0, 0, nullptr);
        queues_->send_all();
        EXPECT_EQ(port(0).last_queue, queue) << "worker " << worker;
        queues_.reset();
    }
}

}  // namespace
}  // namespace millrace::exec
