// The system call by which programs come into the kernel.
#pragma once

#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace millrace::io {

/// A new descriptor, or 0, as `command` has it; -1 with errno set.
inline int bpf(bpf_cmd command, bpf_attr& request) {
    return static_cast<int>(syscall(SYS_bpf, command, &request, sizeof request));
}

}  // namespace millrace::io
