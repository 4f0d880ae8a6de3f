// A capture file as a port: read for receiving, written by sending.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "millrace/io/capture/capture_options.hpp"
#include "millrace/io/capture/capture_spool.hpp"
#include "millrace/io/port.hpp"

namespace millrace::io {

/// Receives from a capture on queue 0, reading the file as it goes, and writes what is sent to another.
/// When its pool is empty it waits: no packet of a capture is lost for want of buffers. Damage ends the
/// input; it counts as one `read-error`, and `trouble()` says where. Senders share the file, which a thread of
/// its own writes. What is sent counts as sent once it has reached the kernel.
class PcapPort : public Port {
public:
    struct Input {
        CaptureOptions options;
        std::unique_ptr<CaptureReader> reader;
        PoolOptions pool;
    };
    PcapPort(PortInfo info, std::optional<Input> input, std::unique_ptr<CaptureWriter> output);
    ~PcapPort() override { close(); }

    uint16_t receive(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    uint16_t send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    /// A file loses nothing, however slow it is.
    std::chrono::nanoseconds send_patience() const override { return std::chrono::nanoseconds::max(); }
    void begin_sleep(uint16_t queue, WakeUps& wake_ups) override;
    bool exhausted() const override { return ended_.load(std::memory_order_acquire); }
    double progress() const override { return progress_.load(std::memory_order_relaxed); }
    PortCounters counters() const override;
    void flush() override;
    void close() override;
    std::string trouble() const override;
    std::vector<const PacketPool*> pools() const override {
        return pool_ ? std::vector<const PacketPool*>{pool_.get()} : std::vector<const PacketPool*>();
    }

private:
    /// Makes `ready_` the next packet; false when there is none (any more, or yet).
    bool fetch();
    bool next_record(CaptureRecord& record);

    std::optional<Input> input_;
    std::unique_ptr<PacketPool> pool_;
    std::optional<CapturePacer> pacer_;
    ReadyFrame ready_;
    bool have_ready_ = false;
    uint64_t rounds_done_ = 0, records_in_round_ = 0;
    std::string read_trouble_;  // written before ended_, read after
    std::atomic<bool> ended_{false};
    std::atomic<double> progress_{-1};
    std::atomic<uint64_t> padded_{0}, snapped_{0}, starved_{0};

    std::unique_ptr<CaptureSpool> output_;
};

}  // namespace millrace::io
