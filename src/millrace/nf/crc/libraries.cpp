#include "millrace/nf/crc/libraries.hpp"

#include <intel-ipsec-mb.h>
#include <rte_hash_crc.h>

#include <new>
#if MILLRACE_ISAL
#include <isa-l/crc.h>
#endif

namespace millrace::nf::crc {
namespace {

#if MILLRACE_ISAL
uint32_t isal_ethernet(const uint8_t* data, size_t bytes) { return crc32_gzip_refl(0, data, bytes); }
uint32_t isal_castagnoli(const uint8_t* data, size_t bytes) {
    // Its parameters are neither const nor unsigned where they could be; it reads only.
    return ~crc32_iscsi(const_cast<unsigned char*>(data), static_cast<int>(bytes), ~0u);
}
#endif

/// Its manager is the table of functions that suit this CPU; these keep no state in it.
struct Manager {
    Manager() : handle(alloc_mb_mgr(0)) {
        if (handle == nullptr) throw std::bad_alloc();
        init_mb_mgr_auto(handle, nullptr);
    }
    ~Manager() { free_mb_mgr(handle); }
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;
    IMB_MGR* handle;
};

uint32_t ipsec_mb_ethernet(const uint8_t* data, size_t bytes) {
    static const Manager manager;
    return bytes == 0 ? 0 : IMB_CRC32_ETHERNET_FCS(manager.handle, data, bytes);
}
uint32_t dpdk_castagnoli(const uint8_t* data, size_t bytes) {
    return ~rte_hash_crc(data, static_cast<uint32_t>(bytes), ~0u);
}

constexpr Library kLibraries[] = {
#if MILLRACE_ISAL
    {"ISA-L", {isal_ethernet, isal_castagnoli}},
#endif
    {"intel-ipsec-mb and rte_hash_crc", {ipsec_mb_ethernet, dpdk_castagnoli}},
};

}  // namespace

std::span<const Library> libraries() { return kLibraries; }

}  // namespace millrace::nf::crc
