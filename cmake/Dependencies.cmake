# The libraries that Millrace stands on, all from the distribution (scripts/setup installs them).
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(LibLZMA REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(DPDK REQUIRED IMPORTED_TARGET libdpdk>=22.11)
# DPDK's headers bring their configuration along. A header before all others would keep every precompiled one from being
# used.
list(REMOVE_ITEM DPDK_CFLAGS_OTHER -include rte_config.h)
set_target_properties(PkgConfig::DPDK PROPERTIES INTERFACE_COMPILE_OPTIONS "${DPDK_CFLAGS_OTHER}")
pkg_check_modules(HYPERSCAN REQUIRED IMPORTED_TARGET libhs)
pkg_check_modules(PCAP REQUIRED IMPORTED_TARGET libpcap)
find_library(IPSEC_MB IPSec_MB REQUIRED)
find_library(ISAL isal)
set(OPENSSL_USE_STATIC_LIBS ${MILLRACE_PORTABLE})
find_package(OpenSSL COMPONENTS SSL Crypto)  # without it there are no controllers by TLS

add_library(millrace_dependencies INTERFACE)
if(MILLRACE_PORTABLE)
  include(cmake/Portable.cmake)
else()
  target_link_libraries(millrace_dependencies INTERFACE
    PkgConfig::DPDK PkgConfig::HYPERSCAN PkgConfig::PCAP ${IPSEC_MB} $<$<BOOL:${ISAL}>:${ISAL}>
    yaml-cpp fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json
    $<$<BOOL:${OPENSSL_FOUND}>:OpenSSL::SSL>
    LibLZMA::LibLZMA ZLIB::ZLIB Threads::Threads ${CMAKE_DL_LIBS})
endif()
