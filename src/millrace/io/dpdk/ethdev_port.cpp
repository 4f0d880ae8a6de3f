#include "millrace/io/dpdk/ethdev_port.hpp"

#include <rte_dev.h>
#include <rte_epoll.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>

#include "millrace/io/clock.hpp"
#include "millrace/io/wake_event.hpp"

namespace millrace::io {
namespace {

constexpr uint32_t kSparePackets = 4096;  // beyond what lies in the device's rings

void check(int result, const std::string& what) {
    if (result < 0) throw std::runtime_error(what + ": " + rte_strerror(-result));
}

/// DPDK's numbers of all network devices.
std::set<uint16_t> devices() {
    std::set<uint16_t> all;
    for (uint64_t id = rte_eth_find_next(0); id < RTE_MAX_ETHPORTS;
         id = rte_eth_find_next(static_cast<uint16_t>(id + 1)))
        all.insert(static_cast<uint16_t>(id));
    return all;
}

/// Makes the device known to DPDK and returns its number.
uint16_t attach(const std::string& device) {
    const std::set<uint16_t> before = devices();
    uint16_t id = 0;
    const std::string name = device.substr(0, device.find(','));
    const int result = rte_dev_probe(device.c_str());
    if (result == -EEXIST || result >= 0) {
        for (const uint16_t found : devices())
            if (!before.contains(found)) return found;
        if (rte_eth_dev_get_port_by_name(name.c_str(), &id) == 0) {
            if (rte_eth_dev_is_valid_port(id) != 0 && !before.contains(id)) return id;
            throw std::runtime_error("device '" + name + "' is in use by another port already");
        }
        throw std::runtime_error("device '" + name + "' has no network port");
    }
    throw std::runtime_error("DPDK cannot use device '" + device + "': " + rte_strerror(-result) +
                             "; 'millrace doctor' lists devices, drivers and rights");
}

/// The key of the receive-side hash for which both directions of a flow have the same one: 16 bits over and over.
/// Shinae Woo, KyoungSoo Park, *Scalable TCP Session Monitoring with Symmetric Receive-side Scaling* (KAIST, 2012).
std::vector<uint8_t> symmetric_hash_key(size_t bytes) {
    std::vector<uint8_t> key(bytes);
    for (size_t i = 0; i < bytes; ++i) key[i] = i % 2 == 0 ? 0x6d : 0x5a;
    return key;
}

void detach(uint16_t id) {
    rte_eth_dev_info info{};
    rte_device* device = rte_eth_dev_info_get(id, &info) == 0 ? info.device : nullptr;
    rte_eth_dev_close(id);
    if (device != nullptr) rte_dev_remove(device);
}

uint16_t usable_queues(const EthdevOptions& options, const rte_eth_dev_info& device) {
    const auto most = std::min(device.max_rx_queues, device.max_tx_queues);
    if (options.queues_given && options.queues > most)
        throw std::runtime_error("the device has " + std::to_string(most) + " queues, not " +
                                 std::to_string(options.queues));
    return std::min(options.queues, most);
}

}  // namespace

EthdevPort::EthdevPort(PortInfo info, uint16_t device, std::unique_ptr<PacketPool> pool)
    : Port(std::move(info)), device_(device), pool_(std::move(pool)), queues_(info_.receive_queues) {}

std::unique_ptr<EthdevPort> EthdevPort::open(PortInfo info, const EthdevOptions& options, PoolOptions pool,
                                             bool pool_size_given) {
    const uint16_t id = attach(options.device);
    try {
        rte_eth_dev_info device{};
        check(rte_eth_dev_info_get(id, &device), "the device does not describe itself");
        info.receive_queues = info.send_queues = usable_queues(options, device);
        uint16_t mtu = 1500;
        rte_eth_dev_get_mtu(id, &mtu);
        info.mtu = options.mtu != 0 ? options.mtu : mtu;
        if (options.mtu > device.max_mtu && device.max_mtu != 0)
            throw std::runtime_error("the device's MTU is at most " + std::to_string(device.max_mtu));
        info.numa_node = rte_eth_dev_socket_id(id);
        rte_ether_addr mac{};
        if (rte_eth_macaddr_get(id, &mac) == 0) std::copy_n(mac.addr_bytes, 6, info.mac.begin());

        pool.numa_node = info.numa_node;
        pool.max_frame_bytes = std::max({info.mtu + kFrameOverhead, options.least_room_bytes, pool.max_frame_bytes});
        pool.max_frame_bytes = std::min(pool.max_frame_bytes, longest_frame(pool.headroom_bytes));
        const uint32_t needed = uint32_t{2} * options.descriptors * info.receive_queues + kSparePackets;
        if (pool_size_given && pool.packets < needed)
            throw std::runtime_error("'buffers' is below what the queues hold: at least " + std::to_string(needed));
        pool.packets = std::max(pool.packets, needed);
        const std::string name = info.name;
        std::unique_ptr<EthdevPort> port(new EthdevPort(std::move(info), id, std::make_unique<PacketPool>(name, pool)));
        port->start(options);
        return port;
    } catch (...) {
        // A port that was made has closed the device already.
        if (rte_eth_dev_is_valid_port(id) != 0) detach(id);
        throw;
    }
}

void EthdevPort::start(const EthdevOptions& options) {
    try {
        start(options, true);
    } catch (const std::runtime_error&) {
        start(options, false);  // some drivers refuse, rather than say that they have no interrupts
    }
    started_ = true;
    find_interrupts();
}

void EthdevPort::start(const EthdevOptions& options, bool with_interrupts) {
    rte_eth_dev_info device{};
    check(rte_eth_dev_info_get(device_, &device), "the device does not describe itself");
    rte_eth_conf conf{};
    conf.rxmode.mtu = info_.mtu;
    conf.intr_conf.rxq = with_interrupts ? 1 : 0;
    std::vector<uint8_t> key = symmetric_hash_key(device.hash_key_size);
    if (info_.receive_queues > 1 && device.flow_type_rss_offloads != 0) {
        if (!key.empty()) {
            conf.rx_adv_conf.rss_conf.rss_key = key.data();
            conf.rx_adv_conf.rss_conf.rss_key_len = static_cast<uint8_t>(key.size());
        }
        conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
        conf.rx_adv_conf.rss_conf.rss_hf = (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP) &
                                           device.flow_type_rss_offloads;
    }
    check(rte_eth_dev_configure(device_, info_.receive_queues, info_.send_queues, &conf),
          "the device refuses its settings");
    uint16_t receive_slots = options.descriptors, send_slots = options.descriptors;
    check(rte_eth_dev_adjust_nb_rx_tx_desc(device_, &receive_slots, &send_slots),
          "the device refuses its queue lengths");
    const auto socket = static_cast<unsigned>(std::max(info_.numa_node, 0));
    for (uint16_t q = 0; q < info_.receive_queues; ++q) {
        rte_eth_rxconf receive = device.default_rxconf;
        receive.offloads = 0;
        check(rte_eth_rx_queue_setup(device_, q, receive_slots, socket, &receive, pool_->mempool()),
              "no queue for receiving");
        rte_eth_txconf transmit = device.default_txconf;
        transmit.offloads = 0;
        check(rte_eth_tx_queue_setup(device_, q, send_slots, socket, &transmit), "no queue for sending");
    }
    // Some virtual devices know no promiscuous mode: they see everything anyway.
    if (options.promiscuous) rte_eth_promiscuous_enable(device_);
    else rte_eth_promiscuous_disable(device_);
    check(rte_eth_dev_start(device_), "the device does not start");
}

/// Finds out how each queue can wake who sleeps.
void EthdevPort::find_interrupts() {
    for (uint16_t q = 0; q < info_.receive_queues; ++q) {
        Queue& queue = queues_[q];
        if (rte_eth_dev_rx_intr_enable(device_, q) != 0) continue;
        rte_eth_dev_rx_intr_disable(device_, q);
        // DPDK takes interrupts off a descriptor when it is asked for what has happened there.
        queue.interrupts = std::make_unique<Descriptor>(epoll_create1(EPOLL_CLOEXEC));
        if (queue.interrupts->get() >= 0 &&
            rte_eth_dev_rx_intr_ctl_q(device_, q, queue.interrupts->get(), RTE_INTR_EVENT_ADD, nullptr) == 0)
            queue.wakes = true;
    }
}

void EthdevPort::begin_sleep(uint16_t queue_number, WakeUps& wake_ups) {
    const Queue& queue = queues_[queue_number];
    if (!queue.wakes || rte_eth_dev_rx_intr_enable(device_, queue_number) != 0) return wake_ups.poll();
    wake_ups.on(queue.interrupts->get());
}

void EthdevPort::end_sleep(uint16_t queue_number) {
    const Queue& queue = queues_[queue_number];
    if (!queue.wakes) return;
    rte_eth_dev_rx_intr_disable(device_, queue_number);
    rte_epoll_event event;
    rte_epoll_wait(queue.interrupts->get(), &event, 1, 0);
}

uint16_t EthdevPort::receive(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
    BurstNotes notes;
    const uint16_t n = receive_noted(queue, mbufs, count, notes);
    for (uint16_t i = 0; i < n; ++i) set_packet_metadata(mbufs[i], notes.timestamp_ns(i), notes.number(i));
    return n;
}

uint16_t EthdevPort::receive_noted(uint16_t queue, rte_mbuf** mbufs, uint16_t count, BurstNotes& notes) {
    const uint16_t got = rte_eth_rx_burst(device_, queue, mbufs, count);
    if (got == 0) return 0;
    notes = {.written = false,
             .first_number = queue + 1u + queues_[queue].received * info_.receive_queues,
             .number_step = info_.receive_queues,
             .first_ns = wall_clock_ns()};
    uint64_t bytes = 0;
    uint16_t n = 0;
    for (uint16_t i = 0; i < got; ++i) {
        rte_mbuf* mbuf = mbufs[i];
        if (mbuf->nb_segs != 1) {
            receiving(queue).drop(PortDrop::too_long);
            rte_pktmbuf_free(mbuf);
            continue;
        }
        mbuf->port = info_.index;
        bytes += mbuf->pkt_len;
        mbufs[n++] = mbuf;
    }
    queues_[queue].received += n;
    receiving(queue).count(n, bytes);
    return n;
}

uint16_t EthdevPort::send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
    // The driver may free packets at once: their lengths are read before.
    uint32_t lengths[256];
    uint16_t taken = 0;
    while (taken < count) {
        const auto most = static_cast<uint16_t>(std::min<size_t>(count - taken, std::size(lengths)));
        uint16_t part = 0;
        for (; part < most; ++part) {
            rte_mbuf* const mbuf = mbufs[taken + part];
            if (!fits_mtu(rte_pktmbuf_mtod(mbuf, const uint8_t*), mbuf->data_len, mbuf->pkt_len, info_.mtu)) break;
            lengths[part] = mbuf->pkt_len;
            // Nothing for the NIC to do; where the frame lies stays known, as its memory is given back by that.
            mbuf->ol_flags &= RTE_MBUF_F_EXTERNAL | RTE_MBUF_F_INDIRECT;
        }
        const uint16_t n = part == 0 ? part : rte_eth_tx_burst(device_, queue, mbufs + taken, part);
        uint64_t bytes = 0;
        for (uint16_t i = 0; i < n; ++i) bytes += lengths[i];
        sending(queue).count(n, bytes);
        taken = static_cast<uint16_t>(taken + n);
        if (n < part) break;
        if (part == most) continue;
        sending(queue).drop(PortDrop::over_mtu);
        rte_pktmbuf_free(mbufs[taken++]);
    }
    return taken;
}

std::array<uint8_t, 6> EthdevPort::mac() const {
    rte_ether_addr mac{};
    std::array<uint8_t, 6> bytes = info_.mac;
    if (!closed_ && rte_eth_macaddr_get(device_, &mac) == 0) std::copy_n(mac.addr_bytes, bytes.size(), bytes.begin());
    return bytes;
}

LinkState EthdevPort::link() const {
    rte_eth_link link{};
    if (closed_ || rte_eth_link_get_nowait(device_, &link) != 0) return {.up = false};
    const bool known = link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
    return {.up = link.link_status == RTE_ETH_LINK_UP, .speed_mbps = known ? link.link_speed : 0};
}

PortCounters EthdevPort::with_device_counters(PortCounters result) const {
    rte_eth_stats stats{};
    if (rte_eth_stats_get(device_, &stats) != 0) return result;
    const auto add = [&](PortDrop drop, uint64_t n) {
        if (n != 0) result.drops[drop_name(drop)] += n;
    };
    add(PortDrop::missed, stats.imissed);
    add(PortDrop::receive_error, stats.ierrors);
    add(PortDrop::no_mbuf, stats.rx_nombuf);
    // What the driver took and could not send was counted as sent when it was taken.
    const uint64_t failed = std::min(stats.oerrors, result.sent_packets);
    add(PortDrop::tx_error, failed);
    result.sent_packets -= failed;
    return result;
}

PortCounters EthdevPort::counters() const { return closed_ ? last_ : with_device_counters(Port::counters()); }

void EthdevPort::close() {
    if (closed_) return;
    last_ = with_device_counters(Port::counters());
    closed_ = true;
    if (started_) rte_eth_dev_stop(device_);
    detach(device_);
}

}  // namespace millrace::io
