#include <fmt/format.h>

#include <array>
#include <stdexcept>

#include "millrace/nf/connections.hpp"
#include "millrace/nf/conntrack/shown.hpp"
#include "millrace/nf/flows/timeouts.hpp"
#include "millrace/nf/state/keyed_table.hpp"
#include "millrace/nf/whole_packets.hpp"

namespace millrace::nf::conntrack {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

using flows::Tcp;

constexpr uint32_t of(Tcp state) { return static_cast<uint32_t>(state); }
constexpr uint32_t of(Kept kept) { return static_cast<uint32_t>(kept); }
/// Linux' own.
constexpr flows::Timeout kTimeouts[] = {{"tcp-syn-sent", of(Tcp::syn_sent), 120},
                                        {"tcp-syn-received", of(Tcp::syn_recv), 60},
                                        {"tcp-established", of(Tcp::established), 432000},
                                        {"tcp-fin-wait", of(Tcp::fin_wait), 120},
                                        {"tcp-close-wait", of(Tcp::close_wait), 60},
                                        {"tcp-last-ack", of(Tcp::last_ack), 30},
                                        {"tcp-time-wait", of(Tcp::time_wait), 120},
                                        {"tcp-close", of(Tcp::close), 10},
                                        {"udp", of(Kept::udp), 30},
                                        {"udp-answered", of(Kept::udp_answered), 120},
                                        {"icmp", of(Kept::icmp), 30},
                                        {"other", of(Kept::other), 600}};

KeyedOptions read_size(const Config& options) {
    options.only({"max-flows", "when-full", "journal", "zones", "pick-up", "check-windows", "timeouts"});
    return KeyedOptions::read(options, "flows",
                              {.most = 262'144, .timeout_ns = 600 * kSecond, .when_full = WhenFull::evict});
}

class ConntrackHost : public KeyedFunction<Conntrack>,
                      public WantsWholePackets,
                      public TracksConnections,
                      public ShowsFlows {
public:
    ConntrackHost(const Config& options, const Environment& environment)
        : KeyedFunction(read_size(options), environment, "flows") {
        Conntrack::Tables& own = tables();
        if (const auto zones = options.find("zones")) own.by_vlan = zones->choice({"none", "vlan"}) == 1;
        own.may_pick_up = options.boolean_or("pick-up", true);
        own.checks_window = options.boolean_or("check-windows", true);
        own.kept_ns[static_cast<size_t>(Tcp::none)] = 10 * kSecond;
        flows::read_timeouts(options.find("timeouts"), kTimeouts, own.kept_ns);
        summary_ = fmt::format("{} KiB of connections", table().bytes() >> 10);
    }
    std::string summary() const override { return summary_; }
    ShownTable show_flows(const FlowQuery& query, StateReader* reader) const override {
        FlowList list(query, static_cast<const Conntrack::Tables*>(image().tables())->kept_ns);
        const auto add = [&](const FlowKey& key, const Flow& flow, uint64_t deadline) {
            list.add(key, flow, deadline);
        };
        if (!table().each(reader, add)) throw std::runtime_error("the device has gone with its connections");
        return list.take();
    }
    /// FIN closes its side behind all that comes with it.
    bool takes_uncut() const override { return true; }

private:
    std::string summary_;
};

const Register<Conntrack, ConntrackHost> registration{{
    .name = "conntrack",
    .summary = "tells packets that begin connections from those of connections that are there",
    .outcomes = {{"new", Disposition::next, "it begins a connection, or nobody has answered yet"},
                 {"established", Disposition::next, "its connection has packets in both directions"},
                 {"related", Disposition::next, "an ICMP error about a connection that is there"},
                 {"invalid", Disposition::drop, "it can be no packet of the connection that it names"},
                 {"untracked", Disposition::next, "it names no connection"},
                 {"full", Disposition::drop, "there is no room for one more connection"}},
    .device_header = "millrace/nf/conntrack/device.hpp",
    .device_struct = "millrace::nf::conntrack::Conntrack",
}};

}  // namespace
}  // namespace millrace::nf::conntrack
