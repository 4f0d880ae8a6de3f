// Numbers of pcapng (draft-ietf-opsawg-pcapng, sections 4.1 to 4.4). Private to io/.
#pragma once

#include <cstdint>

namespace millrace::io {

/// Types of blocks.
inline constexpr uint32_t kSectionHeader = 0x0a0d0d0a, kInterfaceDescription = 1, kObsoletePacket = 2,
                          kSimplePacket = 3, kEnhancedPacket = 6;
inline constexpr uint32_t kByteOrderMagic = 0x1a2b3c4d, kSwappedMagic = 0x4d3c2b1a;

}  // namespace millrace::io
