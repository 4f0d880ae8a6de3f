// The options of `af_packet` ports.
#include "millrace/io/packet_socket/packet_socket_port.hpp"
#include "millrace/io/port_plan.hpp"

namespace millrace::io {

namespace {

void warn_of_both(const PortPlan& plan, const std::string& interface, const std::string& why) {
    Diagnostic warning = plan.value.diagnostic(
        "Linux itself sees what comes in at '" + interface + "', too, and may answer it or forward it a second time (" +
            why + ")",
        "have Linux drop it: 'tc qdisc add dev " + interface + " clsact; tc filter add dev " + interface +
            " ingress matchall action drop'");
    warning.severity = Diagnostic::Severity::warning;
    plan.warn(std::move(warning));
}

}  // namespace

OpenPort plan_packet_socket(const PortPlan& plan) {
    plan.only({"promiscuous", "descriptors", "qdisc-bypass", "layout", "uncut", "linux"});
    PacketSocketOptions options;
    options.interface = interface_name(plan.value);
    options.promiscuous = plan.options.boolean_or("promiscuous", true);
    options.is_hidden = plan.options.has("linux");
    options.past_queueing = plan.options.boolean_or("qdisc-bypass", false);
    options.slots = plan.options.has("descriptors")
                        ? static_cast<uint32_t>(plan.options.integer_or("descriptors", 0, 32, 1 << 20))
                        : 0;
    if (const auto layout = plan.options.find("layout"))
        options.layout = static_cast<PacketSocketOptions::Layout>(layout->choice({"buffers", "contiguous", "blocks"}));
    options.keeps_uncut = plan.options.boolean_or("uncut", true);
    options.max_frame_bytes = plan.max_frame_bytes;
    PortInfo info = plan.info;
    info.detail = options.interface;
    info.receive_queues = info.send_queues = plan.queues;
    return [plan, options, info]() mutable -> std::unique_ptr<Port> {
        PoolOptions pool;
        PacketSocketPort::describe(info, options, pool = plan.pool);
        pool = plan.pool_for(options.max_frame_bytes);
        auto port = std::make_unique<PacketSocketPort>(info, options, pool);
        if (const std::string why = port->not_hidden(); !why.empty()) warn_of_both(plan, options.interface, why);
        return port;
    };
}

}  // namespace millrace::io
