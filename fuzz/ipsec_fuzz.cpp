// Any bytes as a frame into the IPsec gateway: an SA without authentication, so that they get behind
// decryption. The device half with 1 and 32 lanes and the CPU half must do the same.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "fuzz/entry.hpp"
#include "millrace/nf/variant.hpp"

namespace ipsec_fuzz {

using namespace millrace;

constexpr uint32_t kRoom = 128;
/// The first has the common device half, the second the complete one.
const char* const kOptions[] = {
    "sas:\n"
    "  - {name: in4, direction: in, spi: 0x1001, local: 198.51.100.1, cipher: aes-128-cbc, auth: none,\n"
    "     key: 7e24067817fae0d743d6ce1f32539163}\n"
    "  - {name: in6, direction: in, spi: 0x1001, local: '2001:db8::2', cipher: aes-128-ctr, nonce: 006cb6db,\n"
    "     key: 7e24067817fae0d743d6ce1f32539163, auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98}\n"
    "  - {name: out, direction: out, spi: 0x1002, local: 192.0.2.1, remote: 198.51.100.1, cipher: aes-128-cbc,\n"
    "     key: 8e24067817fae0d743d6ce1f32539163, auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98}\n"
    "policies: [{action: protect, sa: out}]\n"
    "mtu: 0\nsa-slots: 8\n",
    "sas:\n"
    "  - {name: in4, direction: in, spi: 0x1001, local: 198.51.100.1, remote: 192.0.2.1, cipher: aes-256-cbc,\n"
    "     auth: none, mode: transport, key: 7e24067817fae0d743d6ce1f325391637e24067817fae0d743d6ce1f32539163}\n"
    "  - {name: in6, direction: in, spi: 0x1001, local: '2001:db8::2', remote: '2001:db8::1', cipher: aes-128-cbc,\n"
    "     auth: none, mode: transport, key: 7e24067817fae0d743d6ce1f32539163}\n"
    "  - {name: udp, direction: in, spi: 0x1003, local: 198.51.100.1, encapsulation: udp, cipher: aes-128-gcm,\n"
    "     nonce: 006cb6db, key: 7e24067817fae0d743d6ce1f32539164, esn: true}\n"
    "  - {name: out4, direction: out, spi: 0x1002, local: 198.51.100.1, remote: 192.0.2.1, cipher: aes-256-gcm,\n"
    "     nonce: 006cb6db, key: 7e24067817fae0d743d6ce1f325391637e24067817fae0d743d6ce1f32539165, mode: transport}\n"
    "  - {name: out6, direction: out, spi: 0x1002, local: '2001:db8::2', remote: '2001:db8::1', cipher: aes-128-gcm,\n"
    "     nonce: 006cb6db, key: 7e24067817fae0d743d6ce1f32539166, mode: transport, esn: true}\n"
    "policies:\n"
    "  - {src: 198.51.100.1, dst: 192.0.2.1, action: protect, sa: out4}\n"
    "  - {src: '2001:db8::2', dst: '2001:db8::1', action: protect, sa: out6}\n"
    "mtu: 0\nsa-slots: 8\n"};

struct Outcome {
    Decision decision;
    std::vector<uint8_t> frame;
    bool operator==(const Outcome&) const = default;
};

/// Runs one frame on a new gateway; `lanes` 0 is the CPU half.
Outcome run(const char* options, const uint8_t* data, size_t size, unsigned lanes) {
    static const nf::Type& kind = *nf::find_type("ipsec");
    const auto gateway = kind.create(Config::parse(options), {});
    const nf::Type& type = nf::type_of(kind, *gateway);
    const void* tables = gateway->image().tables();
    if (size > 65535) std::abort();
    std::vector<uint8_t> memory(kRoom + size + kRoom);
    if (size > 0) std::memcpy(memory.data() + kRoom, data, size);
    Packet packet;
    packet.attach(memory.data() + kRoom, static_cast<uint32_t>(size), static_cast<uint32_t>(size), kRoom, kRoom);
    packet.parse();
    Decision decision;
    if (lanes == 0) {
        Packet* packets[] = {&packet};
        gateway->make_cpu_half()->process(packets, &decision);
    } else {
        const uint32_t key = type.order_key(packet, tables);
        if (key != kNoOrderKey) packet.set_ticket(type.tickets(tables)[key]++);
        decision = type.process_with(lanes)(packet, tables);
        decision = type.commit(packet, tables, decision);
    }
    return {decision, {packet.data(), packet.data() + packet.length()}};
}

MILLRACE_FUZZER(ipsec)(const uint8_t* data, size_t size) {
    if (size > 65535) return 0;
    for (const char* options : kOptions) {
        const Outcome one = run(options, data, size, 1);
        if (one != run(options, data, size, 32) || one != run(options, data, size, 0)) std::abort();
    }
    return 0;
}

}  // namespace ipsec_fuzz
