#include <gtest/gtest.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <mutex>

#include "exec/contract/hoarder/device.hpp"
#include "exec/contract/watch.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::test {
namespace {

/// A network function that does what none may, on one packet in a thousand, as its option `deed` says.
class HoarderHost : public nf::NetworkFunction {
public:
    HoarderHost(const Config& options, const nf::Environment&) {
        options.only({"deed"});
        deed_ = static_cast<Deed>(options.at("deed").choice({"allocation", "lock", "sleep", "write", "log"}));
        image_.start<Hoarder::Tables>();
    }
    const nf::Image& image() const override { return image_; }
    std::unique_ptr<nf::CpuHalf> make_cpu_half() override { return std::make_unique<Half>(deed_); }

private:
    class Half : public nf::CpuHalf {
    public:
        explicit Half(Deed deed) : deed_(deed) {}
        void process(std::span<Packet* const> packets, Decision* decisions) override {
            for (size_t i = 0; i < packets.size(); ++i) {
                decisions[i] = {};
                if (++packets_ % 1000 == 0) misbehave();
            }
        }

    private:
        void misbehave() {
            switch (deed_) {
                case Deed::allocation: kept_ = std::make_unique<uint64_t>(packets_); break;
                case Deed::lock: {
                    const std::lock_guard lock(mutex_);
                    break;
                }
                case Deed::sleep: usleep(1); break;
                case Deed::write: EXPECT_EQ(write(nowhere_, "x", 1), 1); break;
                case Deed::log: spdlog::warn("packet {}", packets_); break;
            }
        }
        const Deed deed_;
        uint64_t packets_ = 0;
        std::unique_ptr<uint64_t> kept_;
        std::mutex mutex_;
        const int nowhere_ = open_null();
        static int open_null() {
            FILE* const file = std::fopen("/dev/null", "w");
            return file != nullptr ? fileno(file) : -1;
        }
    };
    Deed deed_;
    nf::Image image_;
};

const nf::Register<Hoarder, HoarderHost> registration{{
    .name = "hoarder",
    .summary = "breaks the contract of the packet path, for a test",
    .outcomes = {{"forward", nf::Disposition::next, "always"}},
    .device_header = "exec/contract/hoarder/device.hpp",
    .device_struct = "millrace::test::Hoarder",
    .has_cpu_half = true,
}};

}  // namespace
}  // namespace millrace::test
