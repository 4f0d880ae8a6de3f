// Writing captures beside the packet path.
#pragma once

#include <rte_mbuf.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "millrace/base/queue.hpp"
#include "millrace/io/capture/capture_writer.hpp"

namespace millrace::io {

/// Hands packets to a thread of its own, which writes them in the order in which they came and frees them. Who puts
/// packets here neither locks nor writes nor waits.
class CaptureSpool {
public:
    static constexpr uint16_t kMaxSegments = 64;  ///< of a packet

    explicit CaptureSpool(std::unique_ptr<CaptureWriter> writer);
    ~CaptureSpool() { close(); }
    CaptureSpool(const CaptureSpool&) = delete;
    CaptureSpool& operator=(const CaptureSpool&) = delete;

    /// Takes a packet, of at most kMaxSegments; false while the file takes them slower than they come. Any thread.
    bool put(rte_mbuf* packet);
    /// Returns when all that was put before is with the kernel.
    void flush();
    /// Flushes and closes the file. Nobody puts any more. Called again it does nothing.
    void close();

    // As of CaptureWriter. Any thread.
    uint64_t written_records() const { return written_records_.load(std::memory_order_relaxed); }
    uint64_t written_bytes() const { return written_bytes_.load(std::memory_order_relaxed); }
    uint64_t lost_records() const { return lost_records_.load(std::memory_order_relaxed); }
    std::string error() const;

private:
    void run();
    bool write_some();
    void tell();

    std::unique_ptr<CaptureWriter> writer_;  // the thread's, until it has ended
    BoundedQueue<rte_mbuf*> waiting_{4096};
    std::atomic<uint64_t> flushes_asked_{0}, flushes_done_{0};
    std::atomic<uint64_t> put_{0}, freed_{0};  // packets, since the beginning
    std::atomic<uint64_t> to_free_first_{0};   // of these, before more are taken
    std::atomic<bool> closing_{false};
    std::atomic<uint64_t> written_records_{0}, written_bytes_{0}, lost_records_{0};
    mutable std::mutex error_mutex_;
    std::string error_;
    std::thread thread_;
};

}  // namespace millrace::io
