// ESP by OpenSSL: an independent implementation that writes and opens the packets of `gateway.hpp`'s tunnels.
#pragma once

#include <optional>
#include <string>

#include "nf/ipsec/gateway.hpp"

namespace millrace::test {

/// One end of a tunnel with the keys of gateway.hpp.
class EspOracle {
public:
    explicit EspOracle(Tunnel tunnel) : tunnel_(std::move(tunnel)) {}

    /// Everything that a sender may choose.
    struct Outer {
        uint64_t sequence = 1;  ///< 64 bits, where they are extended
        uint32_t spi = 0x1001;
        uint8_t traffic_class = 0;
        std::optional<uint8_t> next_header = {};  ///< else that of the inner packet
        Frame tfc = {};                           ///< behind the inner packet, before the padding
        std::optional<Frame> padding = {};        ///< else 1, 2, 3, … as many as are needed
        std::optional<uint8_t> pad_length = {};   ///< else that of the padding
        uint32_t ipv4_source = 0xc0000201;        ///< 192.0.2.1
        size_t cut = 0;                           ///< bytes taken off the end before the ICV is computed
    };

    /// The ESP frame that carries `inner`, an IP packet without its Ethernet header.
    Frame seal(const Frame& inner, const Outer& outer) const;
    Frame seal(const Frame& inner, uint64_t sequence) const { return seal(inner, Outer{.sequence = sequence}); }

    /// An ESP frame taken apart.
    struct Opened {
        uint32_t spi = 0, sequence = 0;
        uint8_t next_header = 0;
        Frame padding;
        Frame inner;
    };
    /// Nothing when the ICV is wrong or the packet is too short. `high`: of an extended sequence number.
    std::optional<Opened> open(const Frame& frame, uint32_t high = 0) const;
    /// The same of the ESP packet alone.
    std::optional<Opened> open_esp(const Frame& esp, uint32_t high = 0) const;
    /// What `seal` puts behind the outer headers; `next_header` must be there.
    Frame esp(const Frame& inner, const Outer& outer) const;

private:
    Frame crypt(const Frame& iv, const Frame& text, bool encrypt) const;
    /// Of the whole packet up to it.
    Frame icv(const Frame& esp, const Frame& iv, const Frame& clear, uint32_t high) const;
    Tunnel tunnel_;
};

/// The IP packet in a frame with `vlans` tags.
Frame inner_of(const Frame& frame, size_t vlans = 0);

}  // namespace millrace::test
