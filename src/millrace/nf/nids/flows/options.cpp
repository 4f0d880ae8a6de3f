#include "millrace/nf/nids/flows/options.hpp"

#include "millrace/nf/flows/timeouts.hpp"

namespace millrace::nf::nids {
namespace {

constexpr uint32_t of(Kept kept) { return static_cast<uint32_t>(kept); }
/// Those of Suricata's own configuration.
constexpr flows::Timeout kTimeouts[] = {{"tcp-new", of(Kept::tcp_new), 60},
                                        {"tcp-established", of(Kept::tcp_established), 600},
                                        {"tcp-closed", of(Kept::tcp_closed), 60},
                                        {"udp-new", of(Kept::udp_new), 30},
                                        {"udp-established", of(Kept::udp_established), 300},
                                        {"icmp-new", of(Kept::icmp_new), 30},
                                        {"icmp-established", of(Kept::icmp_established), 300},
                                        {"other-new", of(Kept::other_new), 30},
                                        {"other-established", of(Kept::other_established), 300}};

constexpr KeyedOptions kUsual{.most = 65'536, .timeout_ns = 30'000'000'000, .when_full = WhenFull::evict};

}  // namespace

FlowOptions read_flow_options(const std::optional<Config>& given) {
    FlowOptions options;
    options.table = kUsual;
    if (given && given->is_scalar()) {
        given->choice({"none"});
        options.followed = false;
        return options;
    }
    if (given) {
        given->only({"max-flows", "when-full", "midstream", "timeouts"});
        options.table = KeyedOptions::read(*given, "flows", kUsual);
        options.rules.midstream = given->boolean_or("midstream", false);
    }
    flows::read_timeouts(given ? given->find("timeouts") : std::nullopt, kTimeouts, options.rules.kept_ns);
    return options;
}

}  // namespace millrace::nf::nids
