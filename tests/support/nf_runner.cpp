#include "support/nf_runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <stdexcept>

#include "support/device_work.hpp"
#include "support/devices.hpp"

namespace millrace::test {
namespace {

const nf::Type& type_named(const std::string& name) {
    const nf::Type* type = nf::find_type(name);
    if (type == nullptr) throw std::invalid_argument("there is no network function '" + name + "'");
    return *type;
}

bool same_event(const Event& a, const Event& b) {
    return std::equal(a.src, a.src + 16, b.src) && std::equal(a.dst, a.dst + 16, b.dst) && a.src_port == b.src_port &&
           a.dst_port == b.dst_port && a.protocol == b.protocol && a.ip_version == b.ip_version &&
           a.vlan_id == b.vlan_id && a.length == b.length && a.packet == b.packet && a.code == b.code &&
           a.order == b.order;
}

/// Expects that two halves gave the same; shows the first packet that differs.
void expect_same(const NfResult& want, const NfResult& got, const std::vector<Frame>& frames) {
    for (size_t i = 0; i < frames.size(); ++i) {
        const bool same = want.decisions[i] == got.decisions[i] && want.frames[i] == got.frames[i] &&
                          want.out_ports[i] == got.out_ports[i];
        if (same) continue;
        ADD_FAILURE() << "packet " << i << ": outcome " << got.decisions[i].outcome << " detail "
                      << got.decisions[i].detail << " port " << got.out_ports[i] << ", wanted outcome "
                      << want.decisions[i].outcome << " detail " << want.decisions[i].detail << " port "
                      << want.out_ports[i] << "\nin:\n"
                      << hex_dump(frames[i]) << "\nout:\n"
                      << hex_dump(got.frames[i]) << "\nwanted:\n"
                      << hex_dump(want.frames[i]);
        return;
    }
    ASSERT_EQ(got.events.size(), want.events.size()) << "events";
    for (size_t i = 0; i < got.events.size(); ++i)
        ASSERT_TRUE(same_event(want.events[i], got.events[i]))
            << "event " << i << ": code " << got.events[i].code << " of packet " << got.events[i].packet
            << ", wanted code " << want.events[i].code << " of packet " << want.events[i].packet;
}

}  // namespace

std::vector<Half> host_halves(const nf::Type& type) {
    const bool every = std::ranges::find(test_devices(), "cpu") != test_devices().end();
    std::vector<Half> all = nftest::host_halves(type);
    if (!every) std::erase_if(all, [](const Half& half) { return half.lanes > 1; });
    return all;
}

std::vector<Half> halves(const nf::Type& type) {
    static const std::vector<std::string> devices = [] {
        std::vector<std::string> usable;
        for (const std::string& name : offload_devices()) {
            const std::string trouble = device_trouble(name);
            if (trouble.empty()) usable.push_back(name);
            else std::cerr << "The device " << name << " is left out: " << trouble << "\n";
        }
        return usable;
    }();
    std::vector<Half> all = host_halves(type);
    // Kernels of an emulated GPU take longer to make than to run.
    const char* const lanes = std::getenv("MILLRACE_TEST_LANES");
    const bool usual = lanes != nullptr && std::string(lanes) == "usual";
    std::ranges::copy_if(nftest::device_halves(devices), std::back_inserter(all),
                         [&](const Half& half) { return !usual || half.lanes == type.lanes; });
    return all;
}

NfRunner::NfRunner(const std::string& type, const Config& options, const nf::Environment& environment)
    : nftest::NfRunner(type_named(type), options, environment,
                       [](const std::string& name) { return open_device(name); }) {}

NfResult NfRunner::run(const std::vector<Frame>& frames, const Half& half, uint16_t in_port) {
    if (!half.device.empty() && !frames.empty()) claim_device_work();
    NfResult result = nftest::NfRunner::run(frames, half, in_port);
    for (const std::string& mistake : result.mistakes)
        ADD_FAILURE() << type().name << ", " << half.text() << ": " << mistake;
    return result;
}

void check_halves_agree(const std::string& type, const Config& options, const std::vector<Frame>& frames,
                        const nf::Environment& environment) {
    auto shared = std::make_unique<NfRunner>(type, options, environment);
    std::vector<size_t> sizes = {0, 1, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025};
    std::erase_if(sizes, [&](size_t size) { return size >= frames.size(); });
    sizes.push_back(frames.size());
    for (const size_t size : sizes) {
        const std::vector<Frame> batch(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(size));
        std::optional<NfResult> want;
        for (const Half& half : halves(shared->type())) {
            SCOPED_TRACE(type + ", " + half.text() + ", batch of " + std::to_string(size));
            if (shared->stateful()) shared = std::make_unique<NfRunner>(type, options, environment);
            NfResult got = shared->run(batch, half);
            if (want) expect_same(*want, got, batch);
            if (testing::Test::HasFailure()) return;
            if (!want) want = std::move(got);
        }
    }
}

void check_halves_agree(const std::string& type, const std::string& options_yaml, const std::vector<Frame>& frames) {
    check_halves_agree(type, Config::parse(options_yaml), frames);
}

}  // namespace millrace::test
