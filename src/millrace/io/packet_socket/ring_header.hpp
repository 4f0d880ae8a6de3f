// What the kernel writes before a frame in a packet socket's memory.
#pragma once

#include <linux/if_ether.h>
#include <linux/if_packet.h>

#include <cstring>

#include "millrace/io/packet_socket/receive_ring.hpp"

namespace millrace::io {

/// The frame behind a header of any version, a tpacket2_hdr or tpacket3_hdr; `tag_type` and `tag` are its VLAN's, which
/// count where the header says so.
template <class Header>
RingFrame frame_behind(const Header& header, uint32_t tag_type, uint32_t tag) {
    const auto* const raw = reinterpret_cast<const uint8_t*>(&header);
    const auto* const address = reinterpret_cast<const sockaddr_ll*>(raw + TPACKET_ALIGN(sizeof header));
    RingFrame frame;
    frame.data = raw + header.tp_mac;
    frame.bytes = header.tp_snaplen;
    frame.whole_bytes = header.tp_len;
    frame.is_outgoing = address->sll_pkttype == PACKET_OUTGOING;
    if ((header.tp_status & TP_STATUS_VLAN_VALID) != 0)
        frame.vlan_tag = ((header.tp_status & TP_STATUS_VLAN_TPID_VALID) != 0 ? tag_type : ETH_P_8021Q) << 16 | tag;
    frame.timestamp_ns = uint64_t{header.tp_sec} * 1'000'000'000 + header.tp_nsec;
    std::memcpy(&frame.offload, frame.data - sizeof frame.offload, sizeof frame.offload);
    return frame;
}

}  // namespace millrace::io
