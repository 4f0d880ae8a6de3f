// Its host half: dies, stops, sleeps or lies in the stage that it is told, from when a file is there on.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "millrace/nf/cpu_stages.hpp"
#include "millrace/nf/nf.hpp"
#include "trouble/device.hpp"

namespace trouble {
namespace {

class TroubleHost : public nf::NetworkFunction, public nf::BeforeDevice, public nf::AfterDevice {
public:
    TroubleHost(const Config& options, const nf::Environment&) {
        options.only({"in", "does", "when"});
        before_ = options.at("in").text() == "before";
        does_ = options.at("does").text();
        when_ = options.at("when").text();
        image_.start<Trouble::Tables>();
    }
    const nf::Image& image() const override { return image_; }
    void before(std::span<const Packet* const> packets, uint32_t* arguments) override {
        const bool lies = before_ && makes_trouble();
        for (size_t i = 0; i < packets.size(); ++i) arguments[i] = lies ? 9 : Trouble::kPass;
    }
    void after(std::span<Packet* const> packets, Decision* decisions) override {
        if (before_ || !makes_trouble()) return;
        for (size_t i = 0; i < packets.size(); ++i) decisions[i].outcome = 9;
    }

private:
    /// Whether it shall lie.
    bool makes_trouble() {
        if (access(when_.c_str(), F_OK) != 0) return false;
        if (does_ == "dies") raise(SIGKILL);
        if (does_ == "stops") raise(SIGSTOP);
        if (does_ == "sleeps") std::this_thread::sleep_for(std::chrono::seconds(5));
        return does_ == "lies";
    }
    bool before_ = false;
    std::string does_, when_;
    nf::Image image_;
};

const nf::Register<Trouble, TroubleHost> registration{{
    .name = "trouble",
    .summary = "lets packets pass, and makes trouble in a stage",
    .outcomes = {{"pass", nf::Disposition::next, "all of them"}},
    .device_header = "trouble/device.hpp",
    .device_struct = "trouble::Trouble",
}};

}  // namespace
}  // namespace trouble
