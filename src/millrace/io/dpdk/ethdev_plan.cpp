// The options of `dpdk` and `tap` ports.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "millrace/io/dpdk/ethdev_port.hpp"
#include "millrace/io/kernel/interface.hpp"
#include "millrace/io/port_plan.hpp"

namespace millrace::io {
namespace {

/// Virtual devices need names of their own in the process.
std::string next_name(const std::string& driver) {
    static std::atomic<unsigned> number{0};
    return driver + std::to_string(number++);
}

OpenPort plan_tap(const PortPlan& plan, EthdevOptions options, const PortInfo& info) {
    const std::string interface = interface_name(plan.value);
    options.tap = TapOptions{.interface = interface, .redirects = plan.options.boolean_or("redirects", false)};
    if (const auto mac = plan.options.find("mac"))
        options.tap->mac = static_cast<TapOptions::Mac>(mac->choice({"automatic", "own", "port"}));
    options.warn = [where = plan.value.where(), warn = plan.warn](const std::string& message, const std::string& hint) {
        warn(Diagnostic{where, message, hint});
    };
    return [=]() mutable -> std::unique_ptr<Port> {
        if (access("/dev/net/tun", R_OK | W_OK) != 0)
            throw std::runtime_error(std::string("/dev/net/tun: ") + std::strerror(errno) +
                                     "; tap ports need it and CAP_NET_ADMIN");
        options.device = next_name("net_tap") + ",iface=" + interface;
        constexpr uint32_t kUsualMtu = 1500, kMaxMtu = 65000;
        if (options.mtu == 0 && *plan.port_mtu > kUsualMtu) options.mtu = std::min(*plan.port_mtu, kMaxMtu);
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
    if (plan.info.kind == "tap") plan.only({"promiscuous", "descriptors", "mtu", "mac", "redirects"});
    else plan.only({"promiscuous", "descriptors", "mtu"});
    if (plan.pool.headroom_bytes > RTE_PKTMBUF_HEADROOM)
        plan.value.fail("the chains may put " + std::to_string(plan.pool.headroom_bytes) +
                            " bytes before a frame, but drivers leave " + std::to_string(RTE_PKTMBUF_HEADROOM),
                        "use fewer network functions that add headers");
    EthdevOptions options;
    options.queues = plan.queues;
    options.queues_given = plan.options.has("queues");
    options.mtu = static_cast<uint32_t>(plan.options.integer_or("mtu", 0, 68, 65000));
    options.promiscuous = plan.options.boolean_or("promiscuous", true);
    options.descriptors = static_cast<uint16_t>(plan.options.integer_or("descriptors", 1024, 32, 32768));
    options.least_room_bytes = plan.max_frame_bytes;
    PortInfo info = plan.info;
    info.detail = plan.value.text();
    if (plan.info.kind == "tap") return plan_tap(plan, options, info);
    return plan_device(plan, options, info);
}

}  // namespace millrace::io
