// A network interface that Linux has and a port serves.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/io/kernel/followed_interface.hpp"
#include "millrace/io/tap/readable_queues.hpp"
#include "millrace/io/tap/tap_interface.hpp"
#include "millrace/io/port.hpp"
#include "millrace/io/wake_event.hpp"

namespace millrace::io {

struct TapPortOptions {
    TapOptions interface;
    uint32_t mtu = 1500;
    uint32_t waiting = 1024;  ///< frames of Linux' that wait until they are received
    std::function<void(const std::string& message, const std::string& hint)> warn;
};

/// Makes the interface when made, and takes it away when closed; one that stays (`ip tuntap add`) is served, and left.
/// What Linux sends by the interface is received, what is sent Linux receives. No offload is on: frames come with their
/// checksums, VLAN tags and in the pieces of the wire. With several queues Linux spreads flows. Times are those of the
/// receiving burst.
class TapPort : public InterfacePort {
public:
    /// Throws std::runtime_error with what Linux says, and what mends it.
    TapPort(const PortInfo& info, const TapPortOptions& options, const PoolOptions& pool);
    ~TapPort() override { close(); }

    uint16_t receive(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    uint16_t send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    void begin_sleep(uint16_t queue, WakeUps& wake_ups) override { wake_ups.on(queues_[queue].file.get()); }
    /// Whatever woke it, it looks once: it may be quicker than who notes readable queues.
    void end_sleep(uint16_t queue) override { queues_[queue].goes_on = true; }
    void stand_for(const Port& port) override { tap_->stand_for(port); }
    PortCounters counters() const override;
    void close() override;
    std::vector<const PacketPool*> pools() const override { return {&pool_}; }

private:
    struct alignas(64) Queue {
        Descriptor file;
        bool goes_on = false;      // there may be more than was received last
        rte_mbuf* next = nullptr;  // for the next frame
        uint64_t received = 0;
        std::atomic<uint64_t> starved{0};
    };
    enum class Read { frame, nothing, no_room, useless };
    Read read_frame(uint16_t queue);
    bool send_frame(uint16_t queue, rte_mbuf* mbuf);
    PortCounters with_missed(PortCounters counters) const;

    PacketPool pool_;
    std::vector<Queue> queues_;
    std::unique_ptr<TapInterface> tap_;
    std::unique_ptr<ReadableQueues> readable_;
    int index_ = 0;               // of the interface
    uint64_t missed_before_ = 0;  // it was made
    mutable std::atomic<uint64_t> missed_{0};
};

}  // namespace millrace::io
