#include "millrace/nf/nf.hpp"
#include "probe/device.hpp"

namespace probe {

// One for the whole process, were it not for -fno-gnu-unique.
inline uint32_t build = PROBE_BUILD;

namespace {

class ProbeHost : public millrace::nf::NetworkFunction {
public:
    ProbeHost(const millrace::Config& options, const millrace::nf::Environment& environment) {
        options.only({"keeps", "outcome", "loops", "looks", "writes", "beyond"});
        auto& tables = image_.start<Probe::Tables>();
        tables.build = build;
        tables.outcome = static_cast<uint32_t>(options.integer_or("outcome", 0, 0, 0xffffffff));
        tables.loops = options.boolean_or("loops", false);
        tables.looks = options.boolean_or("looks", false);
        tables.writes = options.boolean_or("writes", false);
        tables.beyond = options.boolean_or("beyond", false);
        if (!options.boolean_or("keeps", false)) return;
        if (const auto* before = dynamic_cast<ProbeHost*>(environment.previous)) kept_ = before->kept_;
        image_.attach_state(tables.kept, kept_, "kept");
    }
    const millrace::nf::Image& image() const override { return image_; }

private:
    std::shared_ptr<std::vector<uint32_t>> kept_ = std::make_shared<std::vector<uint32_t>>(1);
    millrace::nf::Image image_;
};

const millrace::nf::Register<Probe, ProbeHost> registration{{
    .name = PROBE_NAME,
    .summary = "says which build of it runs",
    .outcomes = {PROBE_OUTCOMES},
    .device_header = "probe/device.hpp",
    .device_struct = "probe::Probe",
}};

}  // namespace
}  // namespace probe
