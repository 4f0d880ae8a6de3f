// The port that counts packets and frees them.
#pragma once

#include <memory>
#include <vector>

#include "millrace/base/histogram.hpp"
#include "millrace/io/port.hpp"

namespace millrace::io {

/// A packet that a sink kept.
struct SunkFrame {
    uint64_t number = 0;
    uint64_t timestamp_ns = 0;
    std::vector<uint8_t> bytes;
};

struct SinkOptions {
    size_t keep = 0;  ///< copies of so many packets of each queue stay, the first ones: for tests and checks only, as
                      ///< copying allocates
    bool sample = false;   ///< copies are kept of packets of the sample (`in_sample`) only
    bool latency = false;  ///< count how long each packet was on its way, from its time to here
};

/// Takes everything at once.
class SinkPort : public Port {
public:
    SinkPort(PortInfo info, const SinkOptions& options);
    uint16_t receive(uint16_t, rte_mbuf**, uint16_t) override { return 0; }
    uint16_t send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    bool sends_frames() const override { return true; }
    size_t send_frames(uint16_t queue, const ReceiveBlock& block, std::span<const FramePieces> frames) override;
    /// What was kept, queue by queue. Call it when no worker sends.
    std::vector<SunkFrame> sample() const;
    bool times_packets() const { return options_.latency; }
    /// Adds the counts of all queues to `sums`. Any thread.
    void add_latency_to(std::array<uint64_t, Histogram::kBuckets>& sums) const;

private:
    struct alignas(64) Queue {
        std::vector<SunkFrame> frames;
        std::unique_ptr<Histogram> latency;
    };
    static_assert(alignof(Queue) == 64);
    void keep(Queue& queue, rte_mbuf** mbufs, uint16_t count);
    void keep(Queue& queue, const ReceiveBlock& block, std::span<const FramePieces> frames);
    SinkOptions options_;
    std::vector<Queue> queues_;
};

}  // namespace millrace::io
