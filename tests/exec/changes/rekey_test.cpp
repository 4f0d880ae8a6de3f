// IPsec is given new keys again and again under traffic: nothing is lost on the way from one end to the other.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "support/end_of_run.hpp"
#include "support/devices.hpp"

namespace millrace::test {
namespace {

constexpr unsigned kKeys = 20;

/// SA number `key`, of AES-GCM with extended sequence numbers; even ones with another algorithm.
std::string sa(unsigned key, bool inbound) {
    char digits[8];
    std::snprintf(digits, sizeof digits, "%04x", key);
    const std::string spi = std::to_string(0x1000 + key);
    return "{name: k" + std::to_string(key) + ", direction: " +
           (inbound ? "in, local: 198.51.100.1, remote: 192.0.2.1"
                    : "out, local: 192.0.2.1, remote: "
                      "198.51.100.1") +
           ", spi: " + spi + ", key: 7e24067817fae0d743d6ce1f3253" + digits + ", nonce: \"006cb6db\", " +
           (key % 2 == 0 ? "cipher: aes-128-gcm, esn: true"
                         : "cipher: aes-128-ctr, auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98") +
           (inbound ? ", allow: [{}]" : "") + "}";
}

/// Step 3k: both ends have key k. Step 3k + 1: the far end takes key k + 1, too. Step 3k + 2: the near end sends with
/// it.
std::string configuration_text(unsigned step) {
    const unsigned key = step / 2, used = key + step % 2;
    std::string inbound = sa(key + 1, true);
    for (unsigned old = key < 3 ? 0 : key - 3; old <= key; ++old) inbound += ", " + sa(old, true);
    return "version: 1\nports:\n  in: {source: {size: 200, flows: 64, addresses: {src: 10.0.0.0/8, dst: "
           "198.18.0.0/16}, "
           "count: 100000000, rate: 50000}}\n  out: {sink: {}}\nchains:\n"
           "  near:\n    input: in\n    output: out\n    max-delay: 50us\n    max-batch: 256\n    nfs:\n"
           "      - ipsec: {default: bypass, sas: [" +
           sa(used, false) + "], policies: [{dst: 198.18.0.0/16, action: protect, sa: k" + std::to_string(used) +
           "}]}\n        on: {protected: chain far}\n"
           "  far:\n    output: out\n    max-delay: 50us\n    max-batch: 256\n    nfs:\n      - ipsec: {sas: [" +
           inbound + "]}\n";
}

class Rekey : public testing::TestWithParam<std::string> {};

TEST_P(Rekey, LosesNothingWhileTheOldKeysOverlapTheNewOnes) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    const auto configuration = [&](unsigned step, const chain::Configuration* previous) {
        chain::LoadOptions options;
        options.device = GetParam();
        options.previous = previous;
        options.output_folder = testing::TempDir();
        return chain::parse_configuration(configuration_text(step), "(rekey)", options);
    };
    exec::RuntimeOptions options;
    options.devices = open_devices(GetParam());
    exec::Runtime runtime(configuration(0, nullptr), options);
    runtime.start();
    for (unsigned step = 1; step < 2 * kKeys; ++step) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        const auto current = runtime.configuration();
        runtime.apply(configuration(step, current.get()));
    }
    const exec::Report report = stop_run(runtime, Work::device_alone);
    uint64_t received = 0, sent = 0;
    for (const exec::PortReport& port : report.ports) {
        received += port.counters.received_packets;
        sent += port.counters.sent_packets;
    }
    EXPECT_GT(received, 1000u);
    EXPECT_EQ(sent, received);
    for (const auto& chain : report.chains)
        for (const auto& [reason, count] : chain.drops) EXPECT_EQ(count, 0u) << reason;
}

INSTANTIATE_TEST_SUITE_P(OnEveryDevice, Rekey, testing::ValuesIn(test_devices()), device_test_name);

}  // namespace
}  // namespace millrace::test
