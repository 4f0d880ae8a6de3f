// What tests of AF_XDP ports need: a kernel that has it.
#pragma once

#include <sys/socket.h>

#include "io/cable.hpp"

namespace millrace::io::test {

inline bool kernel_has_xdp() { return Descriptor(socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0)).get() >= 0; }

/// As IN_OWN_NETWORK; skips the test where the kernel has no AF_XDP, too.
#define IN_XDP_NETWORK(...)                                                              \
    if (geteuid() == 0 && !kernel_has_xdp()) GTEST_SKIP() << "the kernel has no AF_XDP"; \
    IN_OWN_NETWORK(__VA_ARGS__)

}  // namespace millrace::io::test
