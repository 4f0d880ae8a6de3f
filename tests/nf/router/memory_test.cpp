// Many routers take memory for the routes that they have.
#include <gtest/gtest.h>

#include "millrace/nf/router/routes.hpp"
#include "nf/router/reference.hpp"
#include "support/nf_runner.hpp"
#include "support/resident_memory.hpp"

namespace millrace::test {
namespace {

/// So many random routes of IPv4 and a quarter as many of IPv6, written to a file.
std::string options_of(Rng& rng, size_t count) {
    std::string lines;
    for (size_t i = 0; i < count; ++i) {
        Prefix prefix;
        prefix.ipv6 = i % 4 == 3;
        prefix.length = static_cast<uint8_t>(prefix.ipv6 ? 20 + rng() % 45 : 12 + rng() % 21);
        for (unsigned bit = 0; bit < prefix.length; ++bit)
            if (rng() % 2) prefix.bytes[bit / 8] = static_cast<uint8_t>(prefix.bytes[bit / 8] | 0x80 >> bit % 8);
        if (prefix.ipv6) prefix.bytes[0] = 0x20;
        lines += prefix.text() + " h" + std::to_string(prefix.bytes[1] % 3) + "\n";
    }
    return "{next-hops: {h0: {port: port1}, h1: {port: port2}, h2: {}}, routes: [" +
           temporary_file("memory-" + std::to_string(count) + ".txt", lines) + ", {prefix: 64.0.0.0/2, via: h1}]}";
}

TEST(RouterMemory, OfAThousandRoutersOfTenRoutesStaysBelow128MiB) {
    Rng rng(1);
    std::vector<std::unique_ptr<NfRunner>> routers;
    std::vector<std::unique_ptr<nf::CpuHalf>> halves;
    routers.push_back(std::make_unique<NfRunner>("router", options_of(rng, 10)));  // what all share is there then
    const int64_t before = resident_bytes();
    uint64_t on_device = 0;
    for (int i = 0; i < 1000; ++i) {
        routers.push_back(std::make_unique<NfRunner>("router", options_of(rng, 10)));
        halves.push_back(routers.back()->nf().make_cpu_half());
        on_device += routers.back()->nf().image().array_bytes();
    }
    const int64_t taken = resident_bytes() - before;
    std::printf("1,000 routers: %.1f KiB each; on a device %.1f KiB\n", static_cast<double>(taken) / 1024e3,
                static_cast<double>(on_device) / 1024e3);
#if !defined(__SANITIZE_ADDRESS__)
    EXPECT_LT(taken, int64_t{128} << 20);
    EXPECT_GT(taken, int64_t{1} << 20) << "then it was not measured";
#endif
    EXPECT_LT(on_device, uint64_t{64} << 20);
}

/// Around where tables become large, on every device.
TEST(RouterMemory, DoesNotChangeWhatBecomesOfPackets) {
    Rng rng(2);
    for (const size_t count : {1, 33, 1025, 3000, 9000}) {
        const std::string options = options_of(rng, count);
        RandomOptions traffic;
        traffic.ipv6 = 0.4;
        traffic.max_payload = 20;
        traffic.adjust = [](PacketSpec& spec, Rng& random) {
            if (spec.ipv6) spec.ipv6->dst[0] = 0x20;
            if (spec.ipv4) spec.ipv4->dst = static_cast<uint32_t>(random());
        };
        check_halves_agree("router", options, random_packets(rng, 1100, traffic));
        NfRunner runner("router", options);
        EXPECT_EQ(runner.nf().image().array_bytes() >= size_t{32} << 20, count == 9000) << count;
    }
}

}  // namespace
}  // namespace millrace::test
