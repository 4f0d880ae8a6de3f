// Cuts IP packets that are longer than the MTU into fragments.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "millrace/exec/fragments/reassembler.hpp"

namespace millrace::exec {

/// How a packet is cut. Refers to its frame.
class Split {
public:
    /// Nothing of a packet that may go as it is, and of one that must not be cut or can't be: IPv4 that says "don't
    /// fragment" (RFC 791, section 2.3), IPv6 that did not come in fragments (RFC 8200, section 4.5). IPv6 goes in
    /// fragments as long as those that it came in, as they fitted its sender's path; these may have been IPv4's. `mark`
    /// is the packet's (null: it came whole), `mtu` the longest IP packet.
    static std::optional<Split> plan(std::span<const uint8_t> frame, uint32_t mtu, const WholeMark* mark);

    uint32_t count() const { return (payload_ + each_ - 1) / each_; }
    /// Bytes of the longest fragment's frame.
    uint32_t most_bytes() const { return head_ + (ipv6_ ? kFragmentHeader : 0) + each_; }
    /// Writes the frame of one of them, most_bytes() at most; how many bytes it has.
    uint32_t write(uint32_t index, uint8_t* to) const;

private:
    static constexpr uint32_t kFragmentHeader = 8;
    Split() = default;
    bool plan_ipv4(uint32_t mtu);
    bool plan_ipv6(uint32_t mtu, const WholeMark* mark);
    uint32_t later_options(uint8_t* to) const;

    std::span<const uint8_t> frame_;
    uint32_t l3_ = 0;
    uint32_t head_ = 0;     // bytes of the headers that each fragment has; IPv6: without the fragment header
    uint32_t payload_ = 0;  // bytes behind them, of all fragments
    uint32_t each_ = 0;     // of one fragment but the last
    uint32_t next_at_ = 0, id_ = 0;
    bool ipv6_ = false;
};

}  // namespace millrace::exec
