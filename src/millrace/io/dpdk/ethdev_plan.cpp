// The options of `dpdk` ports.
#include "millrace/io/dpdk/ethdev_port.hpp"
#include "millrace/io/port_plan.hpp"

namespace millrace::io {

OpenPort plan_ethdev(const PortPlan& plan) {
    plan.only({"promiscuous", "descriptors", "mtu", "linux"});
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
    options.device = info.detail = plan.value.text();
    if (options.device.empty()) plan.value.fail("a device is missing here", "such as 0000:01:00.0 or net_ring0");
    return [=]() -> std::unique_ptr<Port> {
        return EthdevPort::open(info, options, plan.pool_for(plan.max_frame_bytes), plan.buffers_given);
    };
}

}  // namespace millrace::io
