// The chain and the traffic that the executor's tests run: every kind of NF, all of it in one text.
#pragma once

#include "support/engine_runner.hpp"

namespace millrace::test {

/// firewall → NIDS → router → IPsec, both directions, small tables.
inline chain::Configuration make_test_chain(const std::string& device, unsigned lanes = 0, const chain::Configuration* previous = nullptr) {
    return make_configuration(R"(
      - mirror
      - ipsec:
          sas:
            - {name: east, direction: out, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1, cipher: aes-128-ctr, key: 7e24067817fae0d743d6ce1f32539163, nonce: "006cb6db", auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98}
            - {name: west, direction: out, spi: 0x1002, local: "2001:db8::1", remote: "2001:db8::2", cipher: aes-128-cbc, key: 7e24067817fae0d743d6ce1f32539164, auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba99}
          policies:
            - {dst: 10.0.0.0/9, action: protect, sa: east}
            - {dst: "2001:db8::/33", action: protect, sa: west}
          default: bypass
)",
                              device, lanes, "(test)", previous);
}

/// Packets of every kind, some malformed, with addresses that the chain's tables know.
inline std::vector<Frame> random_frames(size_t count, unsigned seed) {
    Rng rng(seed);
    RandomOptions options;
    options.adjust = [](PacketSpec& spec, Rng& random) {
        if (spec.ipv4) {
            spec.ipv4->src = ipv4("10.0.0.0") + static_cast<uint32_t>(random() & 0xffffff);
            spec.ipv4->dst = ipv4("10.0.0.0") + static_cast<uint32_t>(random() & 0xffffff);
        }
    };
    return random_packets(rng, count, options);
}

}  // namespace millrace::test
