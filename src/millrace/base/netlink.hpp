// Netlink messages and sockets: what all who ask the Linux kernel share.
#pragma once

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

namespace millrace::netlink {

using Bytes = std::span<const uint8_t>;

constexpr size_t aligned(size_t length) { return (length + 3) & ~size_t{3}; }

/// The value at the start of `bytes`, if it is all there.
template <class T>
std::optional<T> read(Bytes bytes) {
    if (bytes.size() < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
}

/// What lies behind a header of `size` bytes and its padding.
inline Bytes behind(Bytes bytes, size_t size) { return bytes.subspan(std::min(aligned(size), bytes.size())); }

/// Calls `f(type, value)` for each attribute; false when one breaks off, or when `f` says so.
template <class F>
bool for_each_attribute(Bytes bytes, F&& f) {
    while (!bytes.empty()) {
        const auto head = read<rtattr>(bytes);
        if (!head || head->rta_len < sizeof(rtattr) || head->rta_len > bytes.size()) return false;
        if (!f(head->rta_type & NLA_TYPE_MASK, bytes.first(head->rta_len).subspan(sizeof(rtattr)))) return false;
        bytes = behind(bytes, head->rta_len);
    }
    return true;
}

/// Calls `f(header, body)` for each message; false when one breaks off.
template <class F>
bool for_each_message(Bytes bytes, F&& f) {
    while (!bytes.empty()) {
        const auto head = read<nlmsghdr>(bytes);
        if (!head || head->nlmsg_len < sizeof(nlmsghdr) || head->nlmsg_len > bytes.size()) return false;
        f(*head, bytes.first(head->nlmsg_len).subspan(sizeof(nlmsghdr)));
        bytes = behind(bytes, head->nlmsg_len);
    }
    return true;
}

/// The errno that NLMSG_DONE or NLMSG_ERROR of this body tells, 0 for none; nothing when it is malformed.
std::optional<int> answered(uint16_t type, Bytes body);

template <class Body>
std::vector<uint8_t> request(uint16_t type, uint16_t flags, uint32_t sequence, const Body& body, Bytes attributes) {
    static_assert(sizeof(Body) % 4 == 0 && sizeof(nlmsghdr) % 4 == 0);
    nlmsghdr head{};
    head.nlmsg_len = static_cast<uint32_t>(sizeof head + sizeof body + attributes.size());
    head.nlmsg_type = type;
    head.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
    head.nlmsg_seq = sequence;
    std::vector<uint8_t> bytes(head.nlmsg_len);
    std::memcpy(bytes.data(), &head, sizeof head);
    std::memcpy(bytes.data() + sizeof head, &body, sizeof body);
    std::copy(attributes.begin(), attributes.end(), bytes.begin() + sizeof head + sizeof body);
    return bytes;
}

/// A socket of `protocol` (NETLINK_ROUTE, …) in these multicast groups, that does not block; -1 with errno set. Groups
/// among `optional` may be unknown to the kernel.
int open_socket(int protocol, const std::vector<unsigned>& groups, const std::vector<unsigned>& optional = {});

/// What one call of `receive` has found.
enum class Received { nothing, message, lost };
/// Reads one datagram of the kernel into `buffer`, of which `message` becomes a part. `lost`: the kernel had more than
/// it could keep, or more than fits.
Received receive(int socket, std::span<uint8_t> buffer, Bytes& message);

}  // namespace millrace::netlink
