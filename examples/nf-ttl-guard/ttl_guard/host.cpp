// The host half: reads the options and fills the tables.
#include "millrace/nf/nf.hpp"
#include "ttl_guard/device.hpp"

namespace ttl_guard {
namespace {

using millrace::Config;
using millrace::nf::Disposition;

class TtlGuardHost : public millrace::nf::NetworkFunction {
public:
    TtlGuardHost(const Config& options, const millrace::nf::Environment&) {
        options.only({"least", "least-ipv6"});  // anything else is an error with its line and column
        auto& tables = image_.start<TtlGuard::Tables>();
        tables.least_ipv4 = static_cast<uint32_t>(options.at("least").integer(1, 255));
        tables.least_ipv6 = static_cast<uint32_t>(options.integer_or("least-ipv6", tables.least_ipv4, 1, 255));
        summary_ = "TTL of at least " + std::to_string(tables.least_ipv4) + ", hop limit of at least " +
                   std::to_string(tables.least_ipv6);
    }

    const millrace::nf::Image& image() const override { return image_; }
    std::string summary() const override { return summary_; }
    std::string explain(const millrace::Decision& decision) const override {
        return decision.detail == millrace::kNoDetail ? "" : "TTL " + std::to_string(decision.detail);
    }

private:
    millrace::nf::Image image_;
    std::string summary_;
};

const millrace::nf::Register<TtlGuard, TtlGuardHost> registration{{
    .name = "ttl-guard",
    .summary = "drops packets whose TTL or hop limit is below a limit",
    .outcomes = {{"pass", Disposition::next, "the TTL is high enough"},
                 {"too-low", Disposition::drop, "the TTL is below the limit"},
                 {"not-ip", Disposition::next, "neither IPv4 nor IPv6"}},
    .device_header = "ttl_guard/device.hpp",
    .device_struct = "ttl_guard::TtlGuard",
}};

}  // namespace
}  // namespace ttl_guard
