// What Linux is asked and told of an interface by its name.
#pragma once

#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <string>

#include "millrace/io/kernel/interface.hpp"

namespace millrace::io {

inline ifreq request_of(const std::string& interface) {
    ifreq request{};
    interface.copy(request.ifr_name, IFNAMSIZ - 1);
    return request;
}

/// Asks or tells, in the calling thread's network namespace. False: see errno.
inline bool ask_kernel(unsigned long what, ifreq& request) {
    const Descriptor any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return ioctl(any.get(), what, &request) == 0;
}

}  // namespace millrace::io
