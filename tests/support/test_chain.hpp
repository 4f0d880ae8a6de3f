// The chain and the traffic that the executor's tests run: every kind of NF, all of it in one text.
#pragma once

#include "support/engine_runner.hpp"

namespace millrace::test {

/// firewall → NIDS → router → IPsec, both directions, small tables; ports are in, out and third.
inline const char* test_chain_nfs() {
    return R"(
      - firewall:
          default: permit
          rules: [deny tcp from any to any port 22-23, deny ip from 10.200.0.0/13,
            deny udp from any port 1024-2047 to 10.64.0.0/10]
      - nids:
          mode: ips
          rule:
            - 'alert ip any any -> any any (msg:"some bytes"; content:"|00 01|"; sid:1;)'
            - 'alert tcp any any -> any any (msg:"letters"; content:"ab"; nocase; pcre:"/a[b-f]+/i"; sid:2;)'
            - 'drop udp any any -> any any (msg:"three bytes"; content:"|7f 01|"; offset:4; sid:3;)'
            - 'drop udp any any -> any 1:2000 (msg:"long one"; dsize:>900; sid:4;)'
        on: {alert: next}
      - router:
          next-hops:
            a: {mac: "02:00:00:00:00:0a", src-mac: "02:00:00:00:00:01", port: out}
            b: {mac: "02:00:00:00:00:0b", src-mac: "02:00:00:00:00:01", port: third}
            c: {mac: "02:00:00:00:00:0c", src-mac: "02:00:00:00:00:01"}
          routes:
            - {prefix: 10.0.0.0/8, via: a}
            - {prefix: 10.32.0.0/11, via: [b, c]}
            - {prefix: 10.99.0.0/16, via: c}
            - {prefix: "2001:db8::/32", via: b}
          local: [10.1.2.3/32]
      - ipsec:
          sas:
            - {name: east, direction: out, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1,
              cipher: aes-128-ctr, key: 7e24067817fae0d743d6ce1f32539163, nonce: "006cb6db",
              auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98}
            - {name: west, direction: out, spi: 0x1002, local: "2001:db8::1", remote: "2001:db8::2",
              cipher: aes-128-cbc, key: 7e24067817fae0d743d6ce1f32539164,
              auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba99}
          policies:
            - {dst: 10.0.0.0/9, action: protect, sa: east}
            - {dst: "2001:db8::/33", action: protect, sa: west}
          default: bypass
)";
}
inline chain::Configuration make_test_chain(const std::string& device, unsigned lanes = 0,
                                            const chain::Configuration* previous = nullptr) {
    return make_configuration(test_chain_nfs(), device, lanes, "(test)", previous);
}

/// Packets of every kind, some malformed, with addresses that the chain's tables know, and payloads of at least so many
/// bytes.
inline std::vector<Frame> random_frames(size_t count, unsigned seed, size_t least_payload = 0) {
    Rng rng(seed);
    RandomOptions options;
    options.adjust = [least_payload](PacketSpec& spec, Rng& random) {
        while (spec.payload.size() < least_payload) spec.payload.push_back(static_cast<uint8_t>(random()));
        if (spec.ipv4) {
            spec.ipv4->src = ipv4("10.0.0.0") + static_cast<uint32_t>(random() & 0xffffff);
            spec.ipv4->dst = ipv4("10.0.0.0") + static_cast<uint32_t>(random() & 0xffffff);
        }
    };
    return random_packets(rng, count, options);
}

}  // namespace millrace::test
