// A DPDK device as a port: any driver, physical or virtual.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "millrace/io/kernel/interface.hpp"
#include "millrace/io/port.hpp"

namespace millrace::io {

struct EthdevOptions {
    std::string device;         ///< as DPDK writes devices: a PCI address or a virtual device, with arguments
    uint16_t queues = 1;        ///< for receiving and for sending
    bool queues_given = false;  ///< else a device with fewer gets fewer
    uint32_t mtu = 0;           ///< to be set; 0: the device's own
    bool promiscuous = true;
    uint16_t descriptors = 1024;    ///< of each queue; the device may round
    uint32_t least_room_bytes = 0;  ///< frames of this length fit into a buffer, whatever the MTU
};

/// Attaches the device when made and detaches it when closed. No offload is on: frames arrive with their VLAN
/// tags and checksums as on the wire, and leave as they are. With several queues, RSS spreads flows by IP
/// addresses and ports where the device can, both directions of a flow to the same queue. Frames in several segments
/// (longer than the buffers) are dropped as `too-long`. Times are those of the receiving burst.
class EthdevPort : public Port {
public:
    /// Throws std::runtime_error with what the device or DPDK says.
    static std::unique_ptr<EthdevPort> open(PortInfo info, const EthdevOptions& options, PoolOptions pool,
                                            bool pool_size_given);
    ~EthdevPort() override { close(); }

    uint16_t receive(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    uint16_t receive_noted(uint16_t queue, rte_mbuf** mbufs, uint16_t count, BurstNotes& notes) override;
    uint16_t send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    void begin_sleep(uint16_t queue, WakeUps& wake_ups) override;
    void end_sleep(uint16_t queue) override;
    bool exhausted() const override { return closed_; }
    LinkState link() const override;
    std::array<uint8_t, 6> mac() const override;
    PortCounters counters() const override;
    void close() override;
    std::vector<const PacketPool*> pools() const override {
        return pool_ ? std::vector<const PacketPool*>{pool_.get()} : std::vector<const PacketPool*>();
    }
    /// DPDK's number of the device.
    uint16_t device() const { return device_; }

private:
    struct alignas(64) Queue {
        uint64_t received = 0;
        std::unique_ptr<Descriptor> interrupts;
        bool wakes = false;  // by them: they are on while the queue's thread sleeps
    };
    EthdevPort(PortInfo info, uint16_t device, std::unique_ptr<PacketPool> pool);
    void start(const EthdevOptions& options);
    void start(const EthdevOptions& options, bool with_interrupts);
    void find_interrupts();
    PortCounters with_device_counters(PortCounters counters) const;

    uint16_t device_;
    std::unique_ptr<PacketPool> pool_;
    std::vector<Queue> queues_;
    std::atomic<bool> closed_{false};
    bool started_ = false;
    PortCounters last_;  // of the device, when it was closed
};

}  // namespace millrace::io
