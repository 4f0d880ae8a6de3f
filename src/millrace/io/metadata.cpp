#include "millrace/io/metadata.hpp"

#include <rte_errno.h>

#include <mutex>
#include <stdexcept>
#include <string>

namespace millrace::io {

void register_metadata() {
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    if (detail::metadata_offset > 0) return;
    rte_mbuf_dynfield field{};
    const std::string name = "millrace_packet_metadata";
    name.copy(field.name, sizeof field.name - 1);
    field.size = sizeof(detail::PacketMetadata);
    field.align = alignof(detail::PacketMetadata);
    const int offset = rte_mbuf_dynfield_register(&field);
    if (offset < 0)
        throw std::runtime_error(std::string("no room in the mbuf for packet metadata: ") + rte_strerror(rte_errno));
    detail::metadata_offset = offset;
}

}  // namespace millrace::io
