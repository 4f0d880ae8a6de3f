// Packet pools: elements in the order of their addresses, all or none, from any thread.
#include "millrace/io/memory/pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "millrace/base/eal.hpp"

namespace millrace::io {
namespace {

class Pool : public ::testing::TestWithParam<uint32_t> {
protected:
    static void SetUpTestSuite() { start_eal(); }
    static PacketPool make(uint32_t packets) {
        PoolOptions options;
        options.packets = packets;
        return PacketPool("pool", options);
    }
    static std::vector<rte_mbuf*> get(PacketPool& pool, uint32_t count) {
        std::vector<rte_mbuf*> mbufs(count);
        EXPECT_TRUE(pool.allocate_raw(mbufs.data(), static_cast<uint16_t>(count)));
        return mbufs;
    }
    static void put(PacketPool& pool, const std::vector<rte_mbuf*>& mbufs) {
        if (!mbufs.empty())
            rte_mempool_put_bulk(pool.mempool(), reinterpret_cast<void* const*>(mbufs.data()),
                                 static_cast<unsigned>(mbufs.size()));
    }
};

TEST_P(Pool, GivesAllInOrderAndNoneWhenShort) {
    const uint32_t n = GetParam();
    PacketPool pool = make(n);
    ASSERT_EQ(pool.available(), n);
    std::vector<rte_mbuf*> all = get(pool, n);
    for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(all[i], pool.at(i));
    rte_mbuf* one = nullptr;
    EXPECT_FALSE(pool.allocate_raw(&one, 1));
    std::shuffle(all.begin(), all.end(), std::mt19937(3));
    rte_mbuf* const held = all.back();
    all.pop_back();
    put(pool, all);
    std::vector<rte_mbuf*> more(n);
    EXPECT_FALSE(pool.allocate_raw(more.data(), static_cast<uint16_t>(n)));
    EXPECT_EQ(pool.available(), n - 1);  // what was taken for it is free again
    std::vector<rte_mbuf*> rest = get(pool, n - 1);
    rest.push_back(held);
    std::sort(rest.begin(), rest.end());
    for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(rest[i], pool.at(i));
    put(pool, rest);
    EXPECT_EQ(pool.available(), n);
}
INSTANTIATE_TEST_SUITE_P(Sizes, Pool, ::testing::Values(1, 31, 32, 33, 63, 64, 65, 1023, 1024, 1025));

TEST_F(Pool, TakesTheLowestAndLeavesOutWhatIsOut) {
    PacketPool pool = make(256);
    std::vector<rte_mbuf*> first = get(pool, 100), second = get(pool, 100);
    put(pool, first);
    // What is left of the fourth 64, the first 64, and only then what lies beside others that are out.
    std::vector<rte_mbuf*> third = get(pool, 120);
    for (uint32_t i = 0; i < 56; ++i) EXPECT_EQ(third[i], pool.at(200 + i));
    for (uint32_t i = 56; i < 120; ++i) EXPECT_EQ(third[i], pool.at(i - 56));
    std::vector<rte_mbuf*> fourth = get(pool, 36);
    for (uint32_t i = 0; i < 36; ++i) EXPECT_EQ(fourth[i], pool.at(64 + i));
    put(pool, fourth);
    put(pool, second);
    put(pool, third);
    EXPECT_EQ(pool.available(), 256u);
}

TEST_F(Pool, KeepsBurstsTogetherWhereSomeAreFreedEarly) {
    PacketPool pool = make(4096);
    std::mt19937 random(5);
    std::vector<std::vector<rte_mbuf*>> in_flight;
    size_t breaks = 0, bursts = 0;
    for (int round = 0; round < 2000; ++round) {
        std::vector<rte_mbuf*> burst = get(pool, 256);
        for (size_t i = 1; i < burst.size(); ++i) breaks += pool.index_of(burst[i]) != pool.index_of(burst[i - 1]) + 1;
        ++bursts;
        std::vector<rte_mbuf*> dropped;
        std::erase_if(burst, [&](rte_mbuf* mbuf) {
            const bool drop = random() % 50 == 0;
            if (drop) dropped.push_back(mbuf);
            return drop;
        });
        put(pool, dropped);
        in_flight.push_back(std::move(burst));
        if (in_flight.size() > 8) {
            put(pool, in_flight.front());
            in_flight.erase(in_flight.begin());
        }
    }
    EXPECT_LE(breaks, bursts);
    for (const auto& burst : in_flight) put(pool, burst);
}

TEST_F(Pool, ServesManyThreads) {
    PacketPool pool = make(2000);
    std::atomic<bool> twice{false};
    std::vector<std::atomic<int>> held(2000);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            std::mt19937 random(t);
            std::vector<std::vector<rte_mbuf*>> own;
            for (int round = 0; round < 4000; ++round) {
                std::vector<rte_mbuf*> burst(1 + random() % 100);
                if (pool.allocate_raw(burst.data(), static_cast<uint16_t>(burst.size()))) {
                    for (const rte_mbuf* mbuf : burst)
                        if (held[pool.index_of(mbuf)].fetch_add(1) != 0) twice = true;
                    own.push_back(std::move(burst));
                }
                if (own.size() > 4 || (!own.empty() && random() % 3 == 0)) {
                    std::swap(own[random() % own.size()], own.back());
                    std::shuffle(own.back().begin(), own.back().end(), random);
                    for (const rte_mbuf* mbuf : own.back()) held[pool.index_of(mbuf)].fetch_sub(1);
                    put(pool, own.back());
                    own.pop_back();
                }
            }
            for (const auto& burst : own) {
                for (const rte_mbuf* mbuf : burst) held[pool.index_of(mbuf)].fetch_sub(1);
                put(pool, burst);
            }
        });
    for (std::thread& thread : threads) thread.join();
    EXPECT_FALSE(twice);
    EXPECT_EQ(pool.available(), 2000u);
}

TEST(PacketPool, LiesAtAConstantStrideAndComesBackInAddressOrder) {
    for (const uint32_t headroom : {128u, 256u})
        for (const uint32_t longest : {60u, 1522u, 9018u, 65000u}) {
            start_eal();
            PacketPool pool("test", {.packets = 300, .max_frame_bytes = longest, .headroom_bytes = headroom});
            std::vector<rte_mbuf*> mbufs(300);
            for (int round = 0; round < 3; ++round) {
                ASSERT_TRUE(pool.allocate(mbufs.data(), 300));
                for (uint32_t i = 0; i < 300; ++i) {
                    ASSERT_EQ(reinterpret_cast<uint8_t*>(mbufs[i]), pool.base() + size_t{i} * pool.stride_bytes());
                    ASSERT_EQ(pool.index_of(mbufs[i]), i);
                    ASSERT_EQ(pool.at(i), mbufs[i]);
                    ASSERT_EQ(mbufs[i]->data_off, headroom);
                    ASSERT_GE(rte_pktmbuf_tailroom(mbufs[i]), longest);
                    ASSERT_GE(reinterpret_cast<uint8_t*>(mbufs[i]), pool.memory());
                    ASSERT_LE(static_cast<uint8_t*>(mbufs[i]->buf_addr) + mbufs[i]->buf_len,
                              pool.memory() + pool.memory_bytes());
                }
                rte_mbuf* none = nullptr;
                EXPECT_FALSE(pool.allocate(&none, 1));
                rte_pktmbuf_free_bulk(mbufs.data(), 300);
            }
        }
}

TEST(PacketPool, StaysUntilTheLastPacketIsBack) {
    start_eal();
    auto pool = std::make_unique<PacketPool>("late", PoolOptions{.packets = 64});
    rte_mbuf* mbuf = nullptr;
    ASSERT_TRUE(pool->allocate(&mbuf, 1));
    pool.reset();
    memset(rte_pktmbuf_mtod(mbuf, void*), 1, 60);
    rte_pktmbuf_free(mbuf);
}

TEST(PacketPool, SaysWhatItCannotDo) {
    start_eal();
    EXPECT_THROW(PacketPool("p", {.headroom_bytes = 64}), std::runtime_error);
    EXPECT_THROW(PacketPool("p", {.max_frame_bytes = 65500}), std::runtime_error);
    EXPECT_THROW(PacketPool("p", {.packets = 0}), std::runtime_error);
}

}  // namespace
}  // namespace millrace::io
