// Functions of the running kernel that XDP programs may call.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace millrace::io {

/// Has an XDP program ask for the VLAN tag that stands beside a frame, by (context, &type, &tag).
inline constexpr std::string_view kVlanTagFunction = "bpf_xdp_metadata_rx_vlan_tag";

/// The number by which a program calls the kernel's function of that name (a kfunc), from the kernel's description of
/// itself; 0: there is none, or the kernel has no such description.
uint32_t kernel_function(std::string_view name);

/// The same in this description (BTF, the kernel's Documentation/bpf/btf.rst), of which any bytes may come.
uint32_t find_function(std::span<const uint8_t> btf, std::string_view name);

}  // namespace millrace::io
