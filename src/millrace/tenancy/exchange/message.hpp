// Messages on the socket between a manager and a tenant, which may carry descriptors.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>

#include "millrace/base/descriptor.hpp"

namespace millrace::tenancy {

inline constexpr size_t kMaxDescriptors = 3;  ///< of a message

/// What sendmsg says. At most kMaxDescriptors.
ssize_t send_message(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors, int flags);

/// What recvmsg says, and into `came` the descriptors, at most kMaxDescriptors; the others have none. Whatever more is
/// sent the kernel closes.
ssize_t receive_message(int socket, std::span<std::byte> bytes, std::span<Descriptor> came, int flags);

}  // namespace millrace::tenancy
