#include <chrono>
#include <cstdlib>
#include <thread>

#include "millrace/nf/nf.hpp"
#include "probe/device.hpp"

namespace probe {

// One for the whole process, were it not for -fno-gnu-unique.
inline uint32_t build = PROBE_BUILD;

namespace {

// A library that loops as it is loaded, where the environment asks for it.
const bool loaded = [] {
    while (std::getenv("PROBE_LOOPS_AS_IT_IS_LOADED") != nullptr)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return true;
}();

class ProbeHost : public millrace::nf::NetworkFunction {
public:
    ProbeHost(const millrace::Config& options, const millrace::nf::Environment& environment) {
        options.only({"keeps", "outcome", "loops", "loops-in", "looks", "writes", "beyond"});
        loops_in_ = options.has("loops-in") ? options.at("loops-in").text() : "";
        loop_in("making");
        auto& tables = image_.start<Probe::Tables>();
        tables.build = build;
        tables.outcome = static_cast<uint32_t>(options.integer_or("outcome", 0, 0, 0xffffffff));
        tables.loops = options.boolean_or("loops", false);
        tables.naps = loops_in_ == "packets";
        tables.looks = options.boolean_or("looks", false);
        tables.writes = options.boolean_or("writes", false);
        tables.beyond = options.boolean_or("beyond", false);
        if (!options.boolean_or("keeps", false)) return;
        if (const auto* before = dynamic_cast<ProbeHost*>(environment.previous)) kept_ = before->kept_;
        image_.attach_state(tables.kept, kept_, "kept");
    }
    const millrace::nf::Image& image() const override { return image_; }
    std::unique_ptr<millrace::nf::CpuHalf> make_cpu_half() override {
        loop_in("half");
        return nullptr;
    }
    std::string summary() const override {
        loop_in("summary");
        return "";
    }

private:
    /// For ever, where it was asked to loop there.
    void loop_in(const std::string& place) const {
        while (loops_in_ == place) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::string loops_in_;
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
