// Giving back packets of every kind, mixed.
#include "millrace/io/release.hpp"

#include <algorithm>
#include <random>

#include "io/support.hpp"

namespace millrace::io {
namespace {

/// Memory of others that packets borrow, and how often its owner was told that all have left.
struct Borrowed {
    uint8_t memory[512] = {};
    rte_mbuf_ext_shared_info shared{};
    int told = 0;
    Borrowed() {
        shared.free_cb = [](void*, void* self) { ++static_cast<Borrowed*>(self)->told; };
        shared.fcb_opaque = this;
    }
    void lend(rte_mbuf* mbuf) {
        rte_mbuf_ext_refcnt_set(&shared, static_cast<uint16_t>(is_lent ? rte_mbuf_ext_refcnt_read(&shared) + 1 : 1));
        is_lent = true;
        rte_pktmbuf_attach_extbuf(mbuf, memory, reinterpret_cast<rte_iova_t>(memory), sizeof memory, &shared);
    }
    bool is_lent = false;
};

class Release : public testing::Test {
protected:
    Release() {
        start_eal();
        for (int i = 0; i < 2; ++i)
            pools_.push_back(std::make_unique<PacketPool>("release", PoolOptions{.packets = 4096}));
    }
    rte_mbuf* packet(size_t pool) {
        rte_mbuf* mbuf = nullptr;
        EXPECT_TRUE(pools_[pool]->allocate(&mbuf, 1));
        return mbuf;
    }
    void expect_all_back() const {
        for (const auto& pool : pools_) EXPECT_EQ(pool->available(), pool->packets());
    }
    std::vector<std::unique_ptr<PacketPool>> pools_;
};

TEST_F(Release, OfNothingDoesNothing) { release_packets(nullptr, 0); }

TEST_F(Release, GivesPlainPacketsOfSeveralPoolsBack) {
    for (const size_t count : {1u, 2u, 255u, 256u, 257u, 2000u}) {
        std::vector<rte_mbuf*> mbufs;
        for (size_t i = 0; i < count; ++i) mbufs.push_back(packet(i / 3 % 2));
        release_packets(mbufs.data(), mbufs.size());
        expect_all_back();
    }
}

TEST_F(Release, KeepsWhatSomebodyElseHoldsStill) {
    rte_mbuf* const held = packet(0);
    rte_mbuf_refcnt_update(held, 1);
    rte_mbuf* mbufs[] = {packet(0), held, packet(0)};
    release_packets(mbufs, 3);
    EXPECT_EQ(pools_[0]->available(), pools_[0]->packets() - 1);
    EXPECT_EQ(rte_mbuf_refcnt_read(held), 1);
    release_packets(mbufs + 1, 1);
    expect_all_back();
}

TEST_F(Release, FreesAllSegmentsAndWhatAClonePointsTo) {
    rte_mbuf* const head = packet(0);
    ASSERT_EQ(rte_pktmbuf_chain(head, packet(1)), 0);
    rte_mbuf* const original = packet(0);
    rte_mbuf* const clone = rte_pktmbuf_clone(original, pools_[1]->mempool());
    ASSERT_NE(clone, nullptr);
    rte_mbuf* mbufs[] = {packet(1), head, clone, original};
    release_packets(mbufs, 4);
    expect_all_back();
}

TEST_F(Release, TellsTheOwnerOfBorrowedMemoryOnceWhenTheLastHasLeft) {
    std::mt19937 rng(8);
    for (int round = 0; round < 200; ++round) {
        Borrowed owners[3];
        std::vector<rte_mbuf*> mbufs;
        std::vector<size_t> owner_of;
        for (uint32_t i = 0; i < 1 + rng() % 600; ++i) {
            mbufs.push_back(packet(rng() % 2));
            owner_of.push_back(rng() % 8 == 0 ? rng() % 4 : owner_of.empty() ? 3 : owner_of.back());  // 3: nobody
            if (owner_of.back() < 3) owners[owner_of.back()].lend(mbufs.back());
        }
        const size_t first = rng() % (mbufs.size() + 1);
        release_packets(mbufs.data(), first);
        for (size_t o = 0; o < 3; ++o) {
            const bool some_left = std::find(owner_of.begin() + static_cast<ptrdiff_t>(first), owner_of.end(), o) !=
                                   owner_of.end();
            EXPECT_EQ(owners[o].told, owners[o].is_lent && !some_left ? 1 : 0);
        }
        release_packets(mbufs.data() + first, mbufs.size() - first);
        for (const Borrowed& owner : owners) EXPECT_EQ(owner.told, owner.is_lent ? 1 : 0);
        expect_all_back();
        // A packet that had borrowed is as new.
        rte_mbuf* again[600];
        ASSERT_TRUE(pools_[0]->allocate(again, 600));
        for (const rte_mbuf* mbuf : again) {
            ASSERT_EQ(mbuf->buf_addr, reinterpret_cast<const uint8_t*>(mbuf + 1));
            ASSERT_EQ(mbuf->ol_flags, 0u);
            ASSERT_EQ(mbuf->buf_len, rte_pktmbuf_data_room_size(mbuf->pool));
        }
        release_packets(again, 600);
    }
}

}  // namespace
}  // namespace millrace::io
