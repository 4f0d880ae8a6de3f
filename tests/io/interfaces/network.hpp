// What tests of ports on network interfaces need: a network of the test's own.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "io/support.hpp"

namespace millrace::io::test {

/// Runs `body` on a thread that has a network namespace for itself; false when that is not allowed.
inline bool in_own_network(const std::function<void()>& body) {
    bool allowed = false;
    std::thread([&] {
        if (unshare(CLONE_NEWNET) != 0) return;
        allowed = true;
        // Nothing but the test's own packets shall be seen.
        write_text("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
        write_text("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
        body();
    }).join();
    return allowed;
}

/// Runs `body` so, in tests; skips the test, and says so, where that is not allowed.
#define IN_OWN_NETWORK(...)                                                               \
    if (geteuid() != 0 || !have("ip")) GTEST_SKIP() << "needs root and the 'ip' program"; \
    if (!in_own_network(__VA_ARGS__)) GTEST_SKIP() << "network namespaces are not allowed here"

/// Sends all that `source` gives through `out`, fetches from `in` for as long as something comes, and hands it to
/// `sink`.
inline void send_and_fetch(Port& source, Port& out, Port& in, Port& sink, uint64_t expected) {
    uint64_t fetched = 0;
    rte_mbuf* mbufs[32];
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (fetched < expected && std::chrono::steady_clock::now() < deadline) {
        if (!source.exhausted()) {
            const uint16_t n = source.receive(0, mbufs, 32);
            uint16_t sent = 0;
            while (sent < n && std::chrono::steady_clock::now() < deadline)
                sent = static_cast<uint16_t>(sent + out.send(0, mbufs + sent, static_cast<uint16_t>(n - sent)));
        }
        for (uint16_t queue = 0; queue < in.info().receive_queues; ++queue) {
            const uint16_t n = in.receive(queue, mbufs, 32);
            if (n != 0) sink.send(0, mbufs, n);
            fetched += n;
        }
        if (source.exhausted()) usleep(100);
    }
}

inline void expect_same_frames(const std::vector<SunkFrame>& got, const std::string& source_yaml, size_t count) {
    const auto again = ports("in: " + source_yaml + "\nout: { sink: { keep: 100000 } }\n");
    pump(*again[0], *again[1]);
    const auto wanted = dynamic_cast<SinkPort&>(*again[1]).sample();
    ASSERT_EQ(got.size(), count);
    for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(got[i].bytes, wanted[i].bytes) << "frame " << i;
        EXPECT_EQ(got[i].number, i + 1);
        EXPECT_GT(got[i].timestamp_ns, uint64_t{1'600'000'000} * 1'000'000'000);
    }
}

/// Fetches from `port` until `wanted` says that it is enough, or five seconds are over; what it was, queue by queue.
inline std::vector<std::vector<uint8_t>> fetch_frames(Port& port, size_t count,
                                                      std::vector<uint16_t>* queues = nullptr) {
    std::vector<std::vector<uint8_t>> frames;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (frames.size() < count && std::chrono::steady_clock::now() < deadline)
        for (uint16_t queue = 0; queue < port.info().receive_queues; ++queue) {
            rte_mbuf* mbufs[32];
            const uint16_t n = port.receive(queue, mbufs, 32);
            for (uint16_t i = 0; i < n; ++i) {
                const auto* data = rte_pktmbuf_mtod(mbufs[i], const uint8_t*);
                frames.emplace_back(data, data + mbufs[i]->data_len);
                if (queues != nullptr) queues->push_back(queue);
            }
            rte_pktmbuf_free_bulk(mbufs, n);
        }
    return frames;
}

/// The same frames, in the same order; says which is the first that differs.
inline testing::AssertionResult same_frames(const std::vector<std::vector<uint8_t>>& got,
                                            const std::vector<std::vector<uint8_t>>& wanted) {
    for (size_t i = 0; i < std::min(got.size(), wanted.size()); ++i)
        if (got[i] != wanted[i]) {
            const auto own = std::find(wanted.begin(), wanted.end(), got[i]);
            return testing::AssertionFailure()
                   << "frame " << i << " of " << got.size() << " differs: " << got[i].size() << " bytes, not "
                   << wanted[i].size()
                   << (own == wanted.end() ? ", a stranger" : ", number " + std::to_string(own - wanted.begin()));
        }
    if (got.size() != wanted.size())
        return testing::AssertionFailure() << got.size() << " frames, not " << wanted.size();
    return testing::AssertionSuccess();
}

/// Waits, five seconds at most, until something is so.
inline bool becomes(const std::function<bool()>& so) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (!so())
        if (std::chrono::steady_clock::now() > deadline) return false;
        else std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return true;
}

}  // namespace millrace::io::test
