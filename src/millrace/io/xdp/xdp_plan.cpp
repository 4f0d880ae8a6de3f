// The options of `af_xdp` ports.
#include "millrace/io/port_plan.hpp"
#include "millrace/io/xdp/xdp_port.hpp"

namespace millrace::io {

OpenPort plan_xdp(const PortPlan& plan) {
    plan.only({"promiscuous", "descriptors", "mode", "linux"});
    XdpOptions options;
    options.interface = interface_name(plan.value);
    options.promiscuous = plan.options.boolean_or("promiscuous", true);
    if (const auto mode = plan.options.find("mode"))
        options.mode = static_cast<XdpMode>(mode->choice({"auto", "copy", "zero-copy"}));
    if (plan.options.has("descriptors"))
        options.descriptors = static_cast<uint32_t>(plan.options.integer_or("descriptors", 0, 64, 1 << 18));
    options.queues_given = plan.options.has("queues");
    options.max_frame_bytes = plan.max_frame_bytes;
    PortInfo info = plan.info;
    info.detail = options.interface;
    info.receive_queues = info.send_queues = plan.queues;
    return [plan, options, info]() mutable -> std::unique_ptr<Port> {
        XdpPort::describe(info, options);
        auto port = std::make_unique<XdpPort>(info, options, plan.pool_for(options.max_frame_bytes));
        if (options.may_lose_tags && !port->tells_tags()) {
            Diagnostic warning = plan.value.diagnostic(
                "VLAN tags that the other end of '" + options.interface + "' leaves to its card are lost",
                "this kernel does not tell AF_XDP of them; 'ethtool -K INTERFACE txvlan off' at the other end ends "
                "that");
            warning.severity = Diagnostic::Severity::warning;
            plan.warn(std::move(warning));
        }
        return port;
    };
}

}  // namespace millrace::io
