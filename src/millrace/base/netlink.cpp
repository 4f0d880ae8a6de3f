#include "millrace/base/netlink.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace millrace::netlink {
namespace {

/// For messages that wait: what the kernel can't keep must be asked for anew.
constexpr int kSocketBytes = 32 << 20;

}  // namespace

std::optional<int> answered(uint16_t type, Bytes body) {
    // Both begin with an error, negative; a kernel may leave it out behind a dump.
    const auto error = read<int32_t>(body);
    if (!error && type == NLMSG_ERROR) return std::nullopt;
    const int number = error ? *error : 0;
    if (number > 0 || number < -4095) return std::nullopt;
    return -number;
}

int open_socket(int protocol, const std::vector<unsigned>& groups, const std::vector<unsigned>& optional) {
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
    if (fd < 0) return fd;
    // The first wants CAP_NET_ADMIN, the second is limited by net.core.rmem_max.
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &kSocketBytes, sizeof kSocketBytes) != 0)
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kSocketBytes, sizeof kSocketBytes);
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    bool good = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    const auto join = [&](unsigned group) {
        return setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) == 0;
    };
    for (const unsigned group : groups) good = good && join(group);
    if (good)
        for (const unsigned group : optional) join(group);
    if (good) return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

Received receive(int socket, std::span<uint8_t> buffer, Bytes& message) {
    for (;;) {
        sockaddr_nl from{};
        socklen_t from_bytes = sizeof from;
        const ssize_t bytes = recvfrom(socket, buffer.data(), buffer.size(), MSG_TRUNC,
                                       reinterpret_cast<sockaddr*>(&from), &from_bytes);
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) return errno == ENOBUFS ? Received::lost : Received::nothing;
        if (static_cast<size_t>(bytes) > buffer.size()) return Received::lost;
        if (from.nl_pid != 0) continue;  // not the kernel's
        message = {buffer.data(), static_cast<size_t>(bytes)};
        return Received::message;
    }
}

}  // namespace millrace::netlink
