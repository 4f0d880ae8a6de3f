#include "millrace/tenancy/exchange/message.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace millrace::tenancy {
namespace {

/// A message's bytes, and room for descriptors.
struct Message {
    Message(const std::byte* bytes, size_t size) : part{const_cast<std::byte*>(bytes), size} {
        message.msg_iov = &part;
        message.msg_iovlen = 1;
    }
    void with_descriptors(size_t count) {
        message.msg_control = control;
        // Not CMSG_SPACE, which is rounded up: there the kernel finds room for one more.
        message.msg_controllen = CMSG_LEN(count * sizeof(int));
    }
    iovec part;
    msghdr message{};
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
};

}  // namespace

ssize_t send_message(int socket, std::span<const std::byte> bytes, std::span<const int> descriptors, int flags) {
    Message own(bytes.data(), bytes.size());
    if (!descriptors.empty()) {
        own.with_descriptors(descriptors.size());
        cmsghdr* const head = CMSG_FIRSTHDR(&own.message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
    }
    return sendmsg(socket, &own.message, flags | MSG_NOSIGNAL);
}

ssize_t receive_message(int socket, std::span<std::byte> bytes, std::span<Descriptor> came, int flags) {
    Message own(bytes.data(), bytes.size());
    own.with_descriptors(came.size());
    const ssize_t n = recvmsg(socket, &own.message, flags | MSG_CMSG_CLOEXEC);
    const cmsghdr* const head = n >= 0 ? CMSG_FIRSTHDR(&own.message) : nullptr;
    if (head == nullptr || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) return n;
    const size_t count = std::min((head->cmsg_len - CMSG_LEN(0)) / sizeof(int), came.size());
    for (size_t i = 0; i < count; ++i) {
        int descriptor = -1;
        std::memcpy(&descriptor, CMSG_DATA(head) + i * sizeof descriptor, sizeof descriptor);
        came[i] = Descriptor(descriptor);
    }
    return n;
}

}  // namespace millrace::tenancy
