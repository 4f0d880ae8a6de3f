// A chain in one piece by itself: when its packets go which way, and that none is lost or overtaken at the turn.
#include <gtest/gtest.h>

#include <chrono>

#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/worker/undivided.hpp"
#include "support/engine_runner.hpp"

namespace millrace::exec {
namespace {

using Way = Undivided::Way;

struct Said {
    bool ready = false, holds = true;
    unsigned settled = 0, launched = 0, left = 0;
};

class SomeInChain : public TenantsInChain {
public:
    explicit SomeInChain(Said& said) : said_(said) {}
    unsigned take_place() override { return said_.launched++; }
    device::Status run(device::StreamId, const device::Step&, const device::BatchView&, unsigned) const override {
        return device::Status::ok;
    }
    void leave(unsigned place, const uint32_t*) override { said_.left += place == said_.left; }

private:
    Said& said_;
};

class SomeTenants : public ChainTenants {
public:
    explicit SomeTenants(Said& said) : said_(said) {}
    bool ready() override { return said_.ready; }
    std::shared_ptr<TenantsInChain> settle() override {
        ++said_.settled;
        return said_.ready ? std::make_shared<SomeInChain>(said_) : nullptr;
    }
    bool holds() override { return said_.holds; }

private:
    Said& said_;
};

class UndividedTest : public testing::Test {
protected:
    UndividedTest() {
        test::frame_pool();
        chain_.follow(program_, &counters_, find_);
    }
    /// Packets that wait, by their numbers.
    void hold(uint64_t first, size_t count) {
        std::vector<rte_mbuf*> mbufs;
        for (size_t i = 0; i < count; ++i) mbufs.push_back(test::make_mbuf(frame_, first + i));
        chain_.hold(counters_, mbufs);
    }
    bool go_over(size_t in_parts) {
        return chain_.go_over([in_parts] { return in_parts; }, released_);
    }
    /// Those that go on come in their order, from `first` on.
    void expect_released(uint64_t first, size_t count) {
        ASSERT_EQ(released_.size(), count);
        for (size_t i = 0; i < count; ++i) {
            EXPECT_EQ(io::packet_number(released_[i]), first + i);
            rte_pktmbuf_free(released_[i]);
        }
        released_.clear();
    }

    const test::Frame frame_ = test::build_packet("{ipv4: {}, udp: {src: 1, dst: 2}}");
    const chain::Configuration configuration_ = test::make_configuration("[mirror]", "sim");
    const std::shared_ptr<const chain::Program> program_ = configuration_.chains[0];
    const std::shared_ptr<device::Device> device_ = std::make_shared<device::sim::SimDevice>();
    ChainCounters counters_{*program_};
    test::Collector collector_{false};
    Said said_;
    unsigned found_ = 0;
    const Undivided::FindTenants find_ = [this] {
        ++found_;
        return std::make_unique<SomeTenants>(said_);
    };
    Undivided chain_{16, [this](const std::shared_ptr<TenantsInChain>* tenants) {
                         OffloadOptions options;
                         options.batch_bytes = 1 << 16;
                         options.tenants = tenants;
                         return std::make_unique<OffloadEngine>(device_, collector_, 32, options);
                     }};
    std::vector<rte_mbuf*> released_;
};

TEST_F(UndividedTest, GoesOverOnceAllAreThereAndNothingIsInItsParts) {
    EXPECT_EQ(chain_.way(), Way::parts);
    EXPECT_FALSE(go_over(0));
    EXPECT_EQ(chain_.way(), Way::parts);
    EXPECT_EQ(said_.settled, 0u);
    said_.ready = true;
    EXPECT_FALSE(go_over(5));
    EXPECT_EQ(chain_.way(), Way::held);
    hold(1, 3);
    EXPECT_EQ(chain_.in_flight(), 3u);
    EXPECT_FALSE(go_over(1)) << "one is still there";
    EXPECT_EQ(said_.settled, 0u) << "nobody is to be asked in two ways at a time";
    EXPECT_TRUE(go_over(0));
    EXPECT_EQ(chain_.way(), Way::whole);
    expect_released(1, 3);
    EXPECT_EQ(chain_.in_flight(), 0u);
    EXPECT_FALSE(go_over(0));
    EXPECT_EQ(said_.settled, 1u);
}

TEST_F(UndividedTest, GoesBackOnceItsOwnPacketsHaveLeft) {
    said_.ready = true;
    go_over(0);
    ASSERT_EQ(chain_.way(), Way::whole);
    std::vector<rte_mbuf*> mbufs;
    for (uint64_t i = 1; i <= 40; ++i) mbufs.push_back(test::make_mbuf(frame_, i));
    chain_.engine().submit(program_, counters_, mbufs.data(), mbufs.size());
    said_.holds = said_.ready = false;
    EXPECT_FALSE(go_over(0));
    EXPECT_EQ(chain_.way(), Way::held);
    hold(41, 2);
    for (int i = 0; i < 100'000'000 && chain_.engine().in_flight() > 0; ++i) {
        EXPECT_FALSE(go_over(0));
        ASSERT_EQ(chain_.way(), Way::held);
        chain_.poll();
    }
    ASSERT_EQ(collector_.outcomes.size(), 40u);
    EXPECT_TRUE(go_over(0));
    EXPECT_EQ(chain_.way(), Way::parts);
    expect_released(41, 2);
    EXPECT_GE(said_.launched, 2u);
    EXPECT_EQ(said_.left, said_.launched) << "each batch has left its place, in order";
    EXPECT_EQ(counters_.retried_on_cpu.get(), 0u);
}

TEST_F(UndividedTest, StaysInPartsWhereThesePacketsDoNotEnd) {
    said_.ready = true;
    go_over(9);
    hold(1, 7);
    EXPECT_FALSE(go_over(9));
    hold(8, 1);
    EXPECT_FALSE(go_over(9)) << "half of the room, but they may be about to end";
    EXPECT_FALSE(go_over(8)) << "and are";
    const auto since = std::chrono::steady_clock::now();
    while (!go_over(8)) ASSERT_LT(std::chrono::steady_clock::now() - since, std::chrono::seconds(10));
    EXPECT_GE(std::chrono::steady_clock::now() - since, std::chrono::milliseconds(4));
    EXPECT_EQ(chain_.way(), Way::parts);
    expect_released(1, 8);
    EXPECT_FALSE(go_over(0));
    EXPECT_EQ(chain_.way(), Way::parts) << "not at once again";
    EXPECT_EQ(said_.settled, 0u);
}

TEST_F(UndividedTest, DropsByNameWhatItHasNoRoomFor) {
    said_.ready = true;
    go_over(1);
    hold(1, 20);
    EXPECT_EQ(chain_.in_flight(), 16u);
    EXPECT_EQ(counters_.exit_drops[static_cast<size_t>(ExitDrop::no_buffer)].get(), 4u);
    EXPECT_EQ(counters_.received_packets.get(), 4u) << "the others are received where they go";
    EXPECT_TRUE(go_over(0));
    expect_released(1, 16);
}

TEST_F(UndividedTest, IsItsPartsAgainWhereAGenerationHasNoWhole) {
    said_.ready = true;
    go_over(0);
    ASSERT_EQ(chain_.way(), Way::whole);
    chain_.follow(nullptr, nullptr, find_);
    EXPECT_EQ(chain_.way(), Way::held);
    EXPECT_FALSE(go_over(3));
    EXPECT_EQ(chain_.way(), Way::parts);
    EXPECT_FALSE(go_over(0));
    chain_.follow(program_, &counters_, find_);
    go_over(0);
    EXPECT_EQ(chain_.way(), Way::whole) << "and the next one has one";
}

TEST_F(UndividedTest, StaysInOnePieceThroughAGenerationOfTheSameTenants) {
    said_.ready = true;
    go_over(0);
    ASSERT_EQ(chain_.way(), Way::whole);
    for (int i = 0; i < 1000; ++i) {
        chain_.follow(std::make_shared<chain::Program>(*program_), &counters_, find_);
        EXPECT_FALSE(go_over(7));
        ASSERT_EQ(chain_.way(), Way::whole);
    }
    EXPECT_EQ(found_, 1u);
    EXPECT_EQ(said_.settled, 1u);
}

TEST_F(UndividedTest, GoesThroughItsPartsWhereTheDeviceHasNoMemoryForMore) {
    Undivided other(16, [](const auto*) -> std::unique_ptr<OffloadEngine> { throw device::DeviceError("full"); });
    other.follow(program_, &counters_, find_);
    said_.ready = true;
    EXPECT_FALSE(other.go_over([] { return size_t{0}; }, released_));
    EXPECT_EQ(other.way(), Way::parts);
    EXPECT_EQ(other.in_flight(), 0u);
    EXPECT_EQ(said_.settled, 0u);
}

TEST_F(UndividedTest, IsNotSettledWithThoseThatLeaveAtTheTurn) {
    said_.ready = true;
    EXPECT_FALSE(go_over(2));
    said_.ready = false;
    hold(1, 1);
    EXPECT_TRUE(go_over(0));
    EXPECT_EQ(chain_.way(), Way::parts);
    expect_released(1, 1);
}

}  // namespace
}  // namespace millrace::exec
