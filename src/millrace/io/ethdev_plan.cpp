// The options of `dpdk`, `af_packet` and `tap` ports.
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "millrace/io/ethdev_port.hpp"
#include "millrace/io/port_plan.hpp"

namespace millrace::io {
namespace {

/// Virtual devices need names of their own in the process.
std::string next_name(const std::string& driver) {
    static std::atomic<unsigned> number{0};
    return driver + std::to_string(number++);
}

/// The kernel's MTU of an interface. Throws when there is none.
uint32_t interface_mtu(const std::string& interface) {
    if (if_nametoindex(interface.c_str()) == 0)
        throw std::runtime_error("there is no network interface '" + interface + "'; 'ip link' shows those that are there");
    ifreq request{};
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const int result = fd < 0 ? -1 : ioctl(fd, SIOCGIFMTU, &request);
    if (fd >= 0) close(fd);
    return result == 0 && request.ifr_mtu > 0 ? static_cast<uint32_t>(request.ifr_mtu) : 1500;
}

std::string read_interface(const Config& value) {
    const std::string name = value.text();
    if (name.empty() || name.size() >= IFNAMSIZ || name.find_first_of(",/ =") != std::string::npos)
        value.fail("'" + name + "' is no name of a network interface", "at most 15 characters, without commas and blanks");
    return name;
}

/// af_packet moves frames through a ring of slots shared with the kernel. A slot is a power of two, so that
/// slots fill their blocks without a gap, as the driver expects; the kernel's own header takes some of it.
struct PacketRing {
    static constexpr uint32_t kHeader = 128;
    static constexpr uint32_t kLongest = 32768 - kHeader;
    uint32_t slot_bytes, block_bytes, slots;
};

PacketRing ring_for(uint32_t frame_bytes) {
    const uint32_t slot = std::max(std::bit_ceil(frame_bytes + PacketRing::kHeader), 2048u);
    const uint32_t slots = slot <= 4096 ? 2048 : 512;
    return {slot, std::max(slot, 65536u), slots};
}

OpenPort plan_af_packet(const PortPlan& plan, EthdevOptions options, const PortInfo& info) {
    const std::string interface = read_interface(plan.value);
    const bool bypass = plan.options.boolean_or("qdisc-bypass", false);
    if (plan.max_frame_bytes > PacketRing::kLongest)
        plan.options.at("max-frame").fail("af_packet carries frames of at most " + std::to_string(PacketRing::kLongest) + " bytes");
    return [=]() mutable -> std::unique_ptr<Port> {
        options.kernel_mtu = interface_mtu(interface);
        const uint32_t frame = std::min(std::max(plan.max_frame_bytes, options.kernel_mtu + 22), PacketRing::kLongest);
        const PacketRing ring = ring_for(frame);
        options.device = next_name("net_af_packet") + ",iface=" + interface + ",qpairs=" + std::to_string(options.queues) +
                         ",blocksz=" + std::to_string(ring.block_bytes) + ",framesz=" + std::to_string(ring.slot_bytes) +
                         ",framecnt=" + std::to_string(ring.slots) + ",qdisc_bypass=" + (bypass ? "1" : "0");
        options.least_room_bytes = ring.slot_bytes;
        return EthdevPort::open(info, options, plan.pool_for(ring.slot_bytes), plan.buffers_given);
    };
}

OpenPort plan_tap(const PortPlan& plan, EthdevOptions options, const PortInfo& info) {
    const std::string interface = read_interface(plan.value);
    return [=]() mutable -> std::unique_ptr<Port> {
        if (access("/dev/net/tun", R_OK | W_OK) != 0)
            throw std::runtime_error(std::string("/dev/net/tun: ") + std::strerror(errno) + "; tap ports need it and CAP_NET_ADMIN");
        options.device = next_name("net_tap") + ",iface=" + interface;
        return EthdevPort::open(info, options, plan.pool_for(plan.max_frame_bytes), plan.buffers_given);
    };
}

OpenPort plan_device(const PortPlan& plan, EthdevOptions options, const PortInfo& info) {
    options.device = plan.value.text();
    if (options.device.empty()) plan.value.fail("a device is missing here", "such as 0000:01:00.0 or net_ring0");
    return [=]() -> std::unique_ptr<Port> {
        return EthdevPort::open(info, options, plan.pool_for(plan.max_frame_bytes), plan.buffers_given);
    };
}

}  // namespace

OpenPort plan_ethdev(const PortPlan& plan) {
    // The MTU below af_packet is the kernel's: 'ip link set … mtu' changes it.
    std::vector<std::string> keys = {"promiscuous", "descriptors", plan.info.kind == "af_packet" ? "qdisc-bypass" : "mtu"};
    plan.only(keys);
    if (plan.pool.headroom_bytes > RTE_PKTMBUF_HEADROOM)
        plan.value.fail("the chains may put " + std::to_string(plan.pool.headroom_bytes) + " bytes before a frame, but drivers leave " +
                        std::to_string(RTE_PKTMBUF_HEADROOM), "use fewer network functions that add headers");
    EthdevOptions options;
    options.queues = plan.queues;
    options.queues_given = plan.options.has("queues");
    options.mtu = static_cast<uint32_t>(plan.options.integer_or("mtu", 0, 68, 65000));
    options.promiscuous = plan.options.boolean_or("promiscuous", true);
    options.descriptors = static_cast<uint16_t>(plan.options.integer_or("descriptors", 1024, 32, 32768));
    options.least_room_bytes = plan.max_frame_bytes;
    PortInfo info = plan.info;
    info.detail = plan.value.text();
    if (plan.info.kind == "af_packet") return plan_af_packet(plan, options, info);
    if (plan.info.kind == "tap") return plan_tap(plan, options, info);
    return plan_device(plan, options, info);
}

}  // namespace millrace::io
