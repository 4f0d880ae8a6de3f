#include "millrace/nf/mappings/host.hpp"
#include "millrace/nf/nat64/device.hpp"
#include "millrace/nf/nat64/options.hpp"

namespace millrace::nf::nat64 {
namespace {

/// Both headers of an ICMP error grow.
constexpr uint32_t kHeadGrowth = 2 * (ip::kIpv6Bytes - ip::kIpv4Bytes);

class Nat64Host : public mappings::MappingHost<Nat64> {
public:
    Nat64Host(const Config& options, const Environment& environment) : Nat64Host(read_options(options), environment) {}

private:
    Nat64Host(Nat64Options options, const Environment& environment)
        : MappingHost(std::move(options.ports), environment) {
        OwnTables& own = tables().own;
        image_to_fill().attach(own.inside, options.inside);
        own.prefix = options.prefix;
        own.prefix_bytes = options.prefix_bytes;
        own.mtu = options.mtu;
    }
};

const Register<Nat64, Nat64Host> registration{{
    .name = "nat64",
    .summary = "lets those who have IPv6 alone reach IPv4, by shared external addresses",
    .outcomes = {{"outbound", Disposition::next, "it comes from inside, and is a packet of IPv4 now"},
                 {"inbound", Disposition::next, "it comes from outside, and is a packet of IPv6 now"},
                 {"hairpin", Disposition::next, "from inside to an external address that stands for one inside"},
                 {"other", Disposition::next, "it is for nobody to translate: not changed"},
                 {"no-mapping", Disposition::drop, "for an external port that stands for nobody"},
                 {"exhausted", Disposition::drop, "the ports that its source may have are all taken"},
                 {"fragment", Disposition::drop, "a fragment, whose ports are not all known"},
                 {"untranslatable", Disposition::drop, "the other family has nothing like it"},
                 {"too-big", Disposition::drop,
                  "would be longer than the MTU inside, and has DF; its sender can't be told"},
                 {"too-big-answered", Disposition::next, "would be longer: it has become the ICMP error that says so"},
                 {"no-room", Disposition::drop, "no room before the packet for the longer headers"}},
    .device_header = "millrace/nf/nat64/device.hpp",
    .device_struct = "millrace::nf::nat64::Nat64",
    .head_growth = kHeadGrowth,
}};

}  // namespace
}  // namespace millrace::nf::nat64
