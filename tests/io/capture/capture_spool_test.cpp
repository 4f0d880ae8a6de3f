// The thread that writes captures: nothing is lost, and a flush leaves nothing behind.
#include "millrace/io/capture/capture_spool.hpp"

#include <atomic>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "io/support.hpp"
#include "millrace/nftest/packets/frame_pool.hpp"
#include "millrace/io/capture/capture_reader.hpp"

namespace millrace::io {
namespace {

/// Until it takes it.
void put_packet(CaptureSpool& spool, rte_mbuf* packet) {
    while (!spool.put(packet)) std::this_thread::yield();
}

using test::TestFolder;

/// What is in the file: how many frames of each thread, which must be in their order.
std::map<uint8_t, uint32_t> frames_of_threads(const std::string& path) {
    std::map<uint8_t, uint32_t> counts;
    CaptureReader reader(path);
    for (CaptureRecord record; reader.next(record);) {
        uint32_t number = 0;
        std::memcpy(&number, record.bytes.data() + 1, sizeof number);
        EXPECT_EQ(number, counts[record.bytes[0]]++) << "of thread " << unsigned{record.bytes[0]};
    }
    return counts;
}

nftest::Frame frame_of(uint8_t thread, uint32_t number) {
    nftest::Frame frame(60, 0);
    frame[0] = thread;
    std::memcpy(frame.data() + 1, &number, sizeof number);
    return frame;
}

TEST(CaptureSpool, HasWrittenAllThatWasPutBeforeAFlushHoweverManyPutMeanwhile) {
    constexpr uint8_t kThreads = 3;
    constexpr uint32_t kEach = 500, kFlushEvery = 20;
    const TestFolder folder;
    const std::string path = folder / "spool.pcap";
    const uint32_t free_before = nftest::frame_pool().available();
    {
        CaptureSpool spool(std::make_unique<CaptureWriter>(path));
        std::atomic<uint64_t> put{0};
        std::vector<std::thread> threads;
        for (uint8_t thread = 0; thread < kThreads; ++thread)
            threads.emplace_back([&, thread] {
                for (uint32_t i = 0; i < kEach; ++i) {
                    put_packet(spool, nftest::make_mbuf(frame_of(thread, i), i));
                    ++put;
                    if ((i + 1) % kFlushEvery != 0) continue;
                    const uint64_t before = put;
                    spool.flush();
                    ASSERT_GE(spool.written_records(), before) << "after a flush of thread " << unsigned{thread};
                }
            });
        for (std::thread& thread : threads) thread.join();
        put_packet(spool, nftest::make_mbuf(frame_of(kThreads, 0), 0));
        spool.close();
        EXPECT_EQ(spool.written_records(), kThreads * kEach + 1);
        EXPECT_EQ(spool.lost_records(), 0u);
        EXPECT_EQ(spool.error(), "");
    }
    EXPECT_EQ(nftest::frame_pool().available(), free_before);
    const std::map<uint8_t, uint32_t> expected = {{0, kEach}, {1, kEach}, {2, kEach}, {kThreads, 1}};
    EXPECT_EQ(frames_of_threads(path), expected);
}

/// Others put all the time; a flush waits for what came before it alone.
TEST(CaptureSpool, FlushesWhileOthersGoOnPutting) {
    const TestFolder folder;
    CaptureSpool spool(std::make_unique<CaptureWriter>(folder / "spool.pcap"));
    std::atomic<bool> ended{false};
    nftest::frame_pool();
    std::thread other([&] {
        for (uint32_t i = 0; !ended; ++i) put_packet(spool, nftest::make_mbuf(frame_of(1, i), i));
    });
    for (uint32_t i = 0; i < 20; ++i) {
        put_packet(spool, nftest::make_mbuf(frame_of(0, i), i));
        spool.flush();
        EXPECT_GE(spool.written_records(), i + 1);
    }
    ended = true;
    other.join();
    spool.close();
    EXPECT_EQ(spool.lost_records(), 0u);
    EXPECT_EQ(frames_of_threads(folder / "spool.pcap").at(0), 20u);
}

}  // namespace
}  // namespace millrace::io
