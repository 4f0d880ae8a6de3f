#include "millrace/io/port.hpp"

#include "millrace/io/wake_event.hpp"
#include "millrace/packet/bytes.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::io {
namespace {

constexpr const char* kDropNames[kPortDrops] = {
    "too-long", "too-short", "no-mbuf",  "missed",    "receive-error",     "read-error", "unsupported-link",
    "tx-full",  "tx-error",  "over-mtu", "link-down", "too-many-segments", "write-error"};

uint64_t sum_drops(const std::map<std::string, uint64_t>& drops, bool sending) {
    uint64_t sum = 0;
    for (size_t i = 0; i < kPortDrops; ++i) {
        if (is_send_drop(static_cast<PortDrop>(i)) != sending) continue;
        if (const auto found = drops.find(kDropNames[i]); found != drops.end()) sum += found->second;
    }
    return sum;
}

}  // namespace

const char* drop_name(PortDrop drop) { return kDropNames[static_cast<size_t>(drop)]; }
bool is_send_drop(PortDrop drop) { return drop >= PortDrop::tx_full; }

uint64_t PortCounters::receive_drops() const { return sum_drops(drops, false); }
uint64_t PortCounters::send_drops() const { return sum_drops(drops, true); }

bool Port::fits_mtu(const uint8_t* head, size_t head_bytes, uint32_t bytes, uint32_t mtu) {
    if (bytes <= mtu + eth::kHeaderBytes) return true;
    uint32_t tags = 0;
    while (tags < 2 && eth::kHeaderBytes + tags * eth::kVlanBytes <= head_bytes) {
        const uint16_t type = load_be16(head + eth::kHeaderBytes - 2 + tags * eth::kVlanBytes);
        if (type != eth::kTypeVlan && type != eth::kTypeQinq && type != eth::kTypeQinqOld) break;
        ++tags;
    }
    return bytes <= mtu + eth::kHeaderBytes + tags * eth::kVlanBytes;
}

Port::Port(PortInfo info)
    : info_(std::move(info)), receiving_(std::make_unique<QueueCounters[]>(info_.receive_queues)),
      sending_(std::make_unique<QueueCounters[]>(info_.send_queues)) {}

void Port::begin_sleep(uint16_t, WakeUps& wake_ups) { wake_ups.poll(); }

PortCounters Port::counters() const {
    PortCounters result;
    const auto add_drops = [&](const QueueCounters& queue) {
        for (size_t i = 0; i < kPortDrops; ++i)
            if (const uint64_t n = queue.drops[i].load(std::memory_order_relaxed); n != 0)
                result.drops[kDropNames[i]] += n;
    };
    for (uint16_t q = 0; q < info_.receive_queues; ++q) {
        result.received_packets += receiving_[q].packets.load(std::memory_order_relaxed);
        result.received_bytes += receiving_[q].bytes.load(std::memory_order_relaxed);
        add_drops(receiving_[q]);
    }
    for (uint16_t q = 0; q < info_.send_queues; ++q) {
        result.sent_packets += sending_[q].packets.load(std::memory_order_relaxed);
        result.sent_bytes += sending_[q].bytes.load(std::memory_order_relaxed);
        add_drops(sending_[q]);
    }
    return result;
}

}  // namespace millrace::io
