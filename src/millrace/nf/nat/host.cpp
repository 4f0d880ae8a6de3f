#include "millrace/nf/mappings/host.hpp"
#include "millrace/nf/nat/device.hpp"
#include "millrace/nf/nat/options.hpp"

namespace millrace::nf::nat {
namespace {

class NatHost : public mappings::MappingHost<Nat> {
public:
    NatHost(const Config& options, const Environment& environment) : NatHost(read_options(options), environment) {}

private:
    NatHost(NatOptions options, const Environment& environment) : MappingHost(std::move(options.ports), environment) {
        image_to_fill().attach(tables().own.inside, options.inside);
    }
};

const Register<Nat, NatHost> registration{{
    .name = "nat",
    .summary = "lets many inside share external IPv4 addresses, and forwards ports to some of them",
    .outcomes = {{"outbound", Disposition::next, "it comes from inside, and has an external source now"},
                 {"inbound", Disposition::next, "it comes from outside, and goes to an endpoint inside now"},
                 {"hairpin", Disposition::next, "both: from inside to an external address that stands for one inside"},
                 {"other", Disposition::next, "it is for nobody to translate: not changed"},
                 {"no-mapping", Disposition::drop, "for an external port that stands for nobody"},
                 {"exhausted", Disposition::drop, "the ports that its source may have are all taken"},
                 {"fragment", Disposition::drop, "a fragment, whose ports are not all known"},
                 {"untranslatable", Disposition::drop, "it has no ports that could be translated"}},
    .device_header = "millrace/nf/nat/device.hpp",
    .device_struct = "millrace::nf::nat::Nat",
}};

}  // namespace
}  // namespace millrace::nf::nat
