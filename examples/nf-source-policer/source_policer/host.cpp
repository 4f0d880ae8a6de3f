// The host half: reads the options and fills the tables.
#include "millrace/nf/state/keyed_table.hpp"
#include "source_policer/device.hpp"

namespace source_policer {
namespace {

struct SourcePolicerHost : nf::KeyedFunction<SourcePolicer> {
    SourcePolicerHost(const Config& options, const nf::Environment& environment)
        : KeyedFunction({.most = 100'000, .timeout_ns = 60'000'000'000}, environment, "prefixes") {
        options.only({"packets-per-second", "burst"});
        const int64_t rate = options.at("packets-per-second").integer(1, 1'000'000'000);
        tables().packet_ns = static_cast<uint64_t>(1'000'000'000 / rate);
        tables().burst_ns = static_cast<uint64_t>(options.integer_or("burst", 1, 1, 1'000'000) - 1) *
                            tables().packet_ns;
    }
};

const nf::Register<SourcePolicer, SourcePolicerHost> registration{{
    .name = "source-policer",
    .summary = "lets each /24 of IPv4 sources send up to a rate",
    .outcomes = {{"pass", nf::Disposition::next, "its source is within the rate"},
                 {"over", nf::Disposition::drop, "its source is over the rate"},
                 {"not-ipv4", nf::Disposition::next, "it is not IPv4"}},
    .device_header = "source_policer/device.hpp",
    .device_struct = "source_policer::SourcePolicer",
}};

}  // namespace
}  // namespace source_policer
