# MILLRACE_PORTABLE: programs for machines that have nothing of the distribution's but glibc (`make portable`).
# Everything is linked from archives. bin/millrace is the program. Tests and benchmarks, of which there are many, share
# one program, bin/millrace-host, that holds the libraries once: bin/test_exec is a link to it, and lib/test_exec.so
# what it loads and runs when it is called by that name. Of DPDK's drivers, those of the usual NICs and of the virtual
# devices come along; mlx4 and mlx5 do not, as they need libibverbs and its plugins from the machine.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
function(millrace_find_archives variable)
  set(found "")
  foreach(name ${ARGN})
    find_library(ARCHIVE_${name} ${name} REQUIRED)
    list(APPEND found ${ARCHIVE_${name}})
  endforeach()
  set(${variable} ${found} PARENT_SCOPE)
endfunction()

# These are taken whole: drivers register themselves as they are loaded, and plugins and tests may ask for any function.
set(whole acl common_iavf cryptodev eal ethdev fib gso hash ip_frag kvargs lpm mbuf mempool meter net pci rcu rib ring
    security telemetry timer mempool_ring bus_pci bus_vdev net_af_packet net_af_xdp net_bnxt net_e1000 net_ena
    net_i40e net_iavf net_ice net_igc
    net_ixgbe net_memif net_null net_pcap net_ring net_virtio net_vmxnet3)
set(linked_drivers ${whole})
list(FILTER linked_drivers INCLUDE REGEX "^net_")
list(TRANSFORM linked_drivers REPLACE "^net_" "")
list(JOIN linked_drivers " " linked_drivers)
set_source_files_properties(src/millrace/doctor/devices.cpp PROPERTIES COMPILE_DEFINITIONS
  "MILLRACE_LINKED_DRIVERS=\"${linked_drivers}\"")
list(TRANSFORM whole PREPEND rte_)
millrace_find_archives(whole_archives ${whole} yaml-cpp)
millrace_find_archives(archives rte_bpf hs IPSec_MB pcap lzma z fdt bsd md xdp bpf elf)
# DPDK's log is a library of its own since 23.11, and libelf asks for libzstd since 0.189.
find_library(ARCHIVE_rte_log rte_log)
find_library(ARCHIVE_zstd zstd)
if(ARCHIVE_rte_log)
  list(APPEND whole_archives ${ARCHIVE_rte_log})
endif()
if(ARCHIVE_zstd)
  list(APPEND archives ${ARCHIVE_zstd})
endif()
# Debian packages ISA-L without an archive: then a portable program's CRC goes without it.
find_library(ARCHIVE_isal isal)
set(ISAL ${ARCHIVE_isal})
if(ARCHIVE_isal)
  list(APPEND archives ${ARCHIVE_isal})
endif()

if(OPENSSL_FOUND)
  list(APPEND archives ${OPENSSL_SSL_LIBRARY} ${OPENSSL_CRYPTO_LIBRARY})
endif()

# The archive of libnuma asks for versions of its symbols that only its shared library has: a copy that does not.
find_library(ARCHIVE_numa numa REQUIRED)
set(unversioned ${CMAKE_BINARY_DIR}/libnuma.a)
execute_process(COMMAND_ERROR_IS_FATAL ANY
  COMMAND bash -euc
  "nm '${ARCHIVE_numa}' | sed -nE 's/.* ((\\w+)@@.*)$/\\1 \\2/p; s/.* ((\\w+)@[^@]+)$/\\1 \\2_older/p' | sort -u > libnuma.names
    '${CMAKE_OBJCOPY}' --redefine-syms=libnuma.names '${ARCHIVE_numa}' '${unversioned}'"
  WORKING_DIRECTORY ${CMAKE_BINARY_DIR})

# libpcap captures from D-Bus through libdbus, which has no archive that stands alone, and from InfiniBand, where its
# packager chose so, through libibverbs, which wants plugins of the machine's.
add_library(millrace_pcap_modules STATIC ${CMAKE_SOURCE_DIR}/cmake/portable/pcap_modules.cpp)

add_library(millrace_headers INTERFACE)
target_include_directories(millrace_headers INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_include_directories(millrace_headers SYSTEM INTERFACE ${DPDK_INCLUDE_DIRS} ${HYPERSCAN_INCLUDE_DIRS})
target_compile_options(millrace_headers INTERFACE ${DPDK_CFLAGS_OTHER})
target_compile_definitions(millrace_headers INTERFACE SPDLOG_FMT_EXTERNAL)
target_link_libraries(millrace_headers INTERFACE fmt::fmt-header-only nlohmann_json::nlohmann_json
  Threads::Threads ${CMAKE_DL_LIBS})
list(JOIN whole_archives "," whole_archives)
list(JOIN archives "," archives)
target_link_libraries(millrace_dependencies INTERFACE millrace_headers
  "$<LINK_LIBRARY:WHOLE_ARCHIVE,${whole_archives}>" millrace_pcap_modules "$<LINK_GROUP:RESCAN,${archives}>"
  ${unversioned} rt m)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_SKIP_RPATH ON)
add_link_options(-static-libgcc -s)

# Programs hold the C++ library whole, so that there is one of it for the modules and plugins that they load.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.a OUTPUT_VARIABLE standard_library
  OUTPUT_STRIP_TRAILING_WHITESPACE)
function(millrace_finish_program target)
  target_link_options(${target} PRIVATE -static-libstdc++)
  target_link_libraries(${target} PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,${standard_library}>")
endfunction()
function(millrace_finish_module target)
  target_link_libraries(${target} PRIVATE -nodefaultlibs gcc gcc_eh c)
endfunction()

# The program that tests and benchmarks share.
function(millrace_add_host)
  add_executable(millrace-host ${CMAKE_SOURCE_DIR}/cmake/portable/host.cpp)
  set_target_properties(millrace-host PROPERTIES ENABLE_EXPORTS ON)
  target_link_options(millrace-host PRIVATE LINKER:-u,pcap_fopen_offline,-u,pcap_next_ex,-u,pcap_close)
  target_link_libraries(millrace-host PRIVATE "$<LINK_LIBRARY:WHOLE_ARCHIVE,millrace,millrace_lab>")
  millrace_finish_program(millrace-host)
endfunction()
