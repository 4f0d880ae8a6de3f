// What the load balancer knows, as a device sees it.
#pragma once

#include "millrace/packet/bytes.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::balancer {

/// What packets are looked up by: an address with a protocol and a port of it.
struct EndPoint {
    uint32_t address[4];  ///< as it lies in a packet; of IPv4 the first word, and zeros
    uint16_t port;        ///< 0: any
    uint8_t protocol;     ///< 0: any
    uint8_t ipv6;         ///< 1 or 0

    MILLRACE_DEVICE bool operator==(const EndPoint& other) const {
        bool same = port == other.port && protocol == other.protocol && ipv6 == other.ipv6;
        for (unsigned i = 0; i < 4; ++i) same = same && address[i] == other.address[i];
        return same;
    }
};

/// An element of a hash table that is searched from an end point's place to the next free element.
struct Entry {
    enum Kind : uint32_t {
        kFree,
        kService,  ///< `number` is that of a service
        kBackEnd,  ///< `number` is that of the service whose answers come from here
        kAddress,  ///< has ports that services (`number` 1) or back ends (0) have
    };
    EndPoint end;
    uint32_t kind;
    uint32_t number;
};

struct Service {
    EndPoint end;
    uint32_t first;      ///< of its slots
    uint32_t slots;      ///< 0: it has no back end
    uint16_t to_mac;     ///< 1: the destination's MAC address changes; 0: its IP address and port
    uint16_t by_source;  ///< 1: a client's flows all go to one back end
};

struct BackEnd {
    uint32_t address[4];
    uint16_t port;      ///< 0: that of the packet stays
    uint16_t out_port;  ///< kNoPort: the chain's output
    uint8_t mac[6];
    uint16_t has_mac;
};

/// The forms of an end point, and the bits of `forms` that say that some are there.
enum Form : uint32_t { kWithPort = 1, kWithProtocol = 2, kAddressAlone = 4 };

struct BalancerTables {
    View<Entry> entries;  ///< a power of two of them, half of them free at least
    View<Service> services;
    View<BackEnd> back_ends;
    View<uint16_t> slots;  ///< numbers of back ends
    uint32_t forms = 0;
    uint32_t follows_errors = 0;  ///< 1: what ICMP errors tell of is looked at
};

/// A hash that is the same on every device and in every run.
class Mix {
public:
    MILLRACE_DEVICE void add(uint32_t word) { value_ = (value_ ^ word) * 0xd6e8feb86659fd93ull; }
    MILLRACE_DEVICE void add_address(const uint32_t* address, bool ipv6) {
        for (unsigned i = 0; i < (ipv6 ? 4u : 1u); ++i) {
            add(address[i]);
            value_ ^= value_ >> 32;
        }
    }
    MILLRACE_DEVICE uint32_t result() const {
        uint64_t h = value_ ^ (value_ >> 32);
        h *= 0xd6e8feb86659fd93ull;
        return static_cast<uint32_t>(h >> 32);
    }

private:
    uint64_t value_ = 0x2545f4914f6cdd1dull;
};

MILLRACE_DEVICE uint32_t hash_of(const EndPoint& end) {
    Mix mix;
    mix.add_address(end.address, end.ipv6 != 0);
    mix.add(static_cast<uint32_t>(end.port) << 16 | static_cast<uint32_t>(end.protocol) << 8 | end.ipv6);
    return mix.result();
}

}  // namespace millrace::nf::balancer
