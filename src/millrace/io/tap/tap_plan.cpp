// The options of `tap` ports.
#include <algorithm>

#include "millrace/io/tap/tap_port.hpp"
#include "millrace/io/port_plan.hpp"

namespace millrace::io {

OpenPort plan_tap(const PortPlan& plan) {
    plan.only({"descriptors", "mtu", "mac", "redirects"});
    TapPortOptions options;
    options.interface.interface = interface_name(plan.value);
    options.interface.redirects = plan.options.boolean_or("redirects", false);
    if (const auto mac = plan.options.find("mac"))
        options.interface.mac = static_cast<TapOptions::Mac>(mac->choice({"automatic", "own", "port"}));
    options.mtu = static_cast<uint32_t>(plan.options.integer_or("mtu", 0, 68, 65000));
    options.waiting = static_cast<uint32_t>(plan.options.integer_or("descriptors", 1024, 32, 32768));
    options.warn = [where = plan.value.where(), warn = plan.warn](const std::string& message, const std::string& hint) {
        warn(Diagnostic{where, message, hint});
    };
    PortInfo info = plan.info;
    info.detail = plan.value.text();
    info.receive_queues = info.send_queues = plan.queues;
    return [=]() mutable -> std::unique_ptr<Port> {
        constexpr uint32_t kUsualMtu = 1500, kMaxMtu = 65000, kPackets = 2048;
        if (options.mtu == 0) options.mtu = std::clamp(*plan.port_mtu, kUsualMtu, kMaxMtu);
        info.mtu = options.mtu;
        PoolOptions pool = plan.pool_for(std::max(options.mtu + kFrameOverhead, plan.max_frame_bytes));
        if (!plan.buffers_given) pool.packets = std::min(pool.packets, kPackets);
        return std::make_unique<TapPort>(info, options, pool);
    };
}

}  // namespace millrace::io
