// A capture held in memory: what replays it as fast as memory allows.
#pragma once

#include <atomic>
#include <vector>

#include "millrace/io/capture/capture_options.hpp"
#include "millrace/io/port.hpp"

namespace millrace::io {

/// Reads the whole capture at start and hands out copies. With several queues both directions of a connection are on
/// one of them, so that flows keep their order and functions see whole connections. Damage and frames that do not fit
/// were counted while loading. Waits when its pool is empty.
class CapturePort : public Port {
public:
    /// Captures above this many bytes of frames are refused.
    static constexpr uint64_t kMaxBytes = uint64_t{8} << 30;

    CapturePort(PortInfo info, const CaptureOptions& options, CaptureReader& reader, const PoolOptions& pool);
    uint16_t receive(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    uint16_t send(uint16_t, rte_mbuf**, uint16_t) override { return 0; }
    void begin_sleep(uint16_t queue, WakeUps& wake_ups) override;
    bool exhausted() const override;
    double progress() const override;
    PortCounters counters() const override;
    std::string trouble() const override { return trouble_; }
    std::vector<const PacketPool*> pools() const override { return {&pool_}; }

private:
    struct Frame {
        uint64_t offset;  // in bytes_
        uint64_t timestamp_ns;
        uint64_t number;
        uint32_t length;
    };
    struct alignas(64) Queue {
        explicit Queue(const CapturePacer& its_pacer) : pacer(its_pacer) {}
        std::vector<Frame> frames;
        size_t next = 0;
        uint64_t rounds = 0;
        CapturePacer pacer;
        std::atomic<bool> done{false};
        std::atomic<uint64_t> starved{0};
    };
    void load(CaptureReader& reader);
    uint16_t queue_of(const ReadyFrame& frame) const;

    CaptureOptions options_;
    PacketPool pool_;
    std::vector<uint8_t> bytes_;
    std::vector<std::unique_ptr<Queue>> queues_;
    uint64_t records_ = 0, packets_ = 0, padded_ = 0, snapped_ = 0;
    std::string trouble_;
};

}  // namespace millrace::io
