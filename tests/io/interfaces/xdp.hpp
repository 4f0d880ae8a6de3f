// What tests of AF_XDP ports need: a kernel that has it, and lets this program have it.
#pragma once

#include <linux/bpf.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "io/interfaces/cable.hpp"

namespace millrace::io::test {

/// Why there are no AF_XDP sockets for this program here; empty when there are.
inline std::string no_xdp() {
    if (Descriptor(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0)).get() < 0) return "the kernel has no AF_XDP";
    bpf_attr request{};
    request.map_type = BPF_MAP_TYPE_XSKMAP;
    request.key_size = request.value_size = 4;
    request.max_entries = 1;
    const Descriptor map(static_cast<int>(syscall(SYS_bpf, BPF_MAP_CREATE, &request, sizeof request)));
    return map.get() < 0 ? "XDP programs are not allowed here" : "";
}

/// As IN_OWN_NETWORK; skips the test where there is no AF_XDP, too.
#define IN_XDP_NETWORK(...)                                                                \
    if (geteuid() == 0 && !io::test::no_xdp().empty()) GTEST_SKIP() << io::test::no_xdp(); \
    IN_OWN_NETWORK(__VA_ARGS__)

}  // namespace millrace::io::test
