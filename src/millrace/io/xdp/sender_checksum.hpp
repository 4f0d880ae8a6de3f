// Checksums that a sender on this machine has left to a network card, where nothing tells of them.
#pragma once

#include <cstdint>
#include <span>

namespace millrace::io {

/// Finishes the checksum of a frame in which it is that of the pseudo header alone: TCP's and UDP's, over IPv4 or IPv6,
/// in tunnels, too; of SCTP the CRC that is 0. Returns whether it did. Where it stands finished already, and is equal
/// to that of the pseudo header by chance, it stays as it is.
bool finish_sender_checksum(std::span<uint8_t> frame);

}  // namespace millrace::io
