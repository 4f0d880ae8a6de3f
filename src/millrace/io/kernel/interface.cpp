#include "millrace/io/kernel/interface.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "millrace/base/netlink.hpp"
#include "millrace/io/kernel/interface_request.hpp"

namespace millrace::io {
namespace {

int open_event_socket() {
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    sockaddr_nl address{};
    address.nl_family = AF_NETLINK;
    address.nl_groups = RTMGRP_LINK;
    if (fd >= 0 && bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
    const int error = errno;
    if (fd >= 0) close(fd);
    throw std::runtime_error(std::string("the kernel does not tell of changes of interfaces: ") + std::strerror(error));
}

/// What the driver answers to a command; false: it knows none.
template <class Command>
bool ask_driver(int fd, ifreq request, Command& command) {
    request.ifr_data = reinterpret_cast<char*>(&command);
    return ioctl(fd, SIOCETHTOOL, &request) == 0;
}

/// In Mb/s; 0 when the driver does not know.
uint32_t speed_of(int fd, const ifreq& request) {
    ethtool_cmd command{};
    command.cmd = ETHTOOL_GSET;
    if (!ask_driver(fd, request, command)) return 0;
    const uint32_t speed = ethtool_cmd_speed(&command);
    return speed == static_cast<uint32_t>(SPEED_UNKNOWN) || speed == UINT16_MAX ? 0 : speed;
}

}  // namespace

int open_packet_socket() {
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) return fd;
    const bool is_forbidden = errno == EPERM;
    throw std::runtime_error(
        std::string("no packet socket: ") + std::strerror(errno) +
        (is_forbidden ? "; it takes the right CAP_NET_RAW: run as root, or setcap cap_net_raw+ep on the program" : ""));
}

Interface find_interface(const std::string& name) {
    Interface found;
    const Descriptor any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request = request_of(name);
    const auto ask = [&](unsigned long what) { return ioctl(any.get(), what, &request) == 0; };
    if (!ask(SIOCGIFINDEX)) return found;
    const int index = request.ifr_ifindex;
    if (!ask(SIOCGIFFLAGS)) return found;
    constexpr int kBoth = IFF_UP | IFF_RUNNING;
    found.is_up = (request.ifr_flags & kBoth) == kBoth;
    if (!ask(SIOCGIFMTU)) return found;
    found.mtu = static_cast<uint32_t>(std::max(request.ifr_mtu, 0));
    if (!ask(SIOCGIFHWADDR)) return found;
    found.is_ethernet = request.ifr_hwaddr.sa_family == ARPHRD_ETHER || request.ifr_hwaddr.sa_family == ARPHRD_LOOPBACK;
    std::memcpy(found.mac.data(), request.ifr_hwaddr.sa_data, found.mac.size());
    found.speed_mbps = speed_of(any.get(), request);
    found.index = index;
    return found;
}

Interface ethernet_interface(const std::string& name) {
    const Interface found = find_interface(name);
    if (found.index == 0)
        throw std::runtime_error("there is no network interface '" + name + "'; 'ip link' shows those that are there");
    if (!found.is_ethernet)
        throw std::runtime_error("frames of the interface '" + name + "' have no Ethernet header, and chains need one");
    return found;
}

InterfaceDriver driver_of(const std::string& name) {
    InterfaceDriver found;
    const Descriptor any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const ifreq request = request_of(name);
    ethtool_channels channels{};
    channels.cmd = ETHTOOL_GCHANNELS;
    if (ask_driver(any.get(), request, channels)) {
        found.receive_queues = std::max(channels.rx_count + channels.combined_count, 1u);
        found.send_queues = std::max(channels.tx_count + channels.combined_count, 1u);
    }
    ethtool_drvinfo driver{};
    driver.cmd = ETHTOOL_GDRVINFO;
    if (ask_driver(any.get(), request, driver)) {
        // Who is on no bus is no hardware; behind virtio_net is another kernel of this machine.
        const std::string bus = driver.bus_info, own = driver.driver;
        found.is_tap = own == "tun";
        found.is_card = !bus.empty() && bus != "tap" && bus != "N/A" && own != "virtio_net";
    }
    ethtool_value flag{};
    flag.cmd = ETHTOOL_GFLAGS;
    if (ask_driver(any.get(), request, flag)) {
        found.takes_tags = (flag.data & ETH_FLAG_RXVLAN) != 0;
        found.card_joins = (flag.data & ETH_FLAG_LRO) != 0;
    }
    const auto is_on = [&](uint32_t what) {
        flag.cmd = what;
        return ask_driver(any.get(), request, flag) && flag.data != 0;
    };
    found.joins = is_on(ETHTOOL_GGRO);
    found.checks = is_on(ETHTOOL_GRXCSUM);
    found.sums = is_on(ETHTOOL_GTXCSUM);
    found.cuts = is_on(ETHTOOL_GTSO) || is_on(ETHTOOL_GGSO);
    return found;
}

std::vector<std::string> addresses_of(const std::string& name) {
    std::vector<std::string> found;
    ifaddrs* all = nullptr;
    if (getifaddrs(&all) != 0) return found;
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
        if (one->ifa_addr == nullptr || name != one->ifa_name) continue;
        const int family = one->ifa_addr->sa_family;
        char text[INET6_ADDRSTRLEN] = "";
        if (family == AF_INET) {
            inet_ntop(family, &reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr, text, sizeof text);
        } else if (family == AF_INET6) {
            const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
            if (!IN6_IS_ADDR_LINKLOCAL(&address)) inet_ntop(family, &address, text, sizeof text);
        }
        if (*text != 0) found.emplace_back(text);
    }
    freeifaddrs(all);
    return found;
}

uint64_t dropped_by_sending(int interface) {
    const Descriptor kernel(netlink::open_socket(NETLINK_ROUTE, {}));
    if (kernel.get() < 0) return 0;
    ifinfomsg link{};
    link.ifi_index = interface;
    const std::vector<uint8_t> request = netlink::request(RTM_GETLINK, 0, 1, link, {});
    if (send(kernel.get(), request.data(), request.size(), 0) < 0) return 0;
    std::vector<uint8_t> buffer(32768);
    netlink::Bytes message;
    if (netlink::receive(kernel.get(), buffer, message) != netlink::Received::message) return 0;
    uint64_t dropped = 0;
    netlink::for_each_message(message, [&](const nlmsghdr& head, netlink::Bytes body) {
        if (head.nlmsg_type != RTM_NEWLINK) return;
        netlink::for_each_attribute(netlink::behind(body, sizeof(ifinfomsg)), [&](int type, netlink::Bytes value) {
            constexpr size_t kAt = offsetof(rtnl_link_stats64, tx_dropped);  // the whole differs between kernels
            if (type == IFLA_STATS64 && value.size() > kAt)
                dropped = netlink::read<uint64_t>(value.subspan(kAt)).value_or(0);
            return true;
        });
    });
    return dropped;
}

bool make_promiscuous(int packet_socket, int interface) {
    const packet_mreq request{.mr_ifindex = interface, .mr_type = PACKET_MR_PROMISC, .mr_alen = 0, .mr_address = {}};
    return setsockopt(packet_socket, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof request) == 0;
}

std::string interface_name(const Config& value) {
    const std::string name = value.text();
    if (name.empty() || name.size() >= IFNAMSIZ || name == "." || name == ".." ||
        name.find_first_of(",/: =\t\n") != std::string::npos)
        value.fail("'" + name + "' is no name of a network interface",
                   "at most 15 characters, without commas and blanks");
    return name;
}

InterfaceWatch::InterfaceWatch(std::string name, std::function<void()> changed)
    : name_(std::move(name)), changed_(std::move(changed)), events_(open_event_socket()),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (stop_.get() < 0) throw std::runtime_error(std::string("no event descriptor: ") + std::strerror(errno));
    tell();
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "interfaces");
}

InterfaceWatch::~InterfaceWatch() {
    const uint64_t one = 1;
    if (write(stop_.get(), &one, sizeof one) != sizeof one)
        std::terminate();  // an event descriptor takes 2^64 - 2 of them
    thread_.join();
}

void InterfaceWatch::tell() {
    index_ = static_cast<int>(if_nametoindex(name_.c_str()));
    changed_();
}

/// Whether one of the messages is of the interface, which may have got its name by it, or lost it. One that breaks off
/// may be.
bool InterfaceWatch::is_of_it(std::span<const uint8_t> messages) const {
    bool is_of_it = false;
    const bool is_whole = netlink::for_each_message(messages, [&](const nlmsghdr&, netlink::Bytes body) {
        const auto link = netlink::read<ifinfomsg>(body);
        is_of_it |= !link || link->ifi_index == index_;
        netlink::for_each_attribute(netlink::behind(body, sizeof(ifinfomsg)), [&](int type, netlink::Bytes value) {
            const auto* const text = reinterpret_cast<const char*>(value.data());
            is_of_it |= type == IFLA_IFNAME && name_ == std::string_view(text, strnlen(text, value.size()));
            return true;
        });
    });
    return is_of_it || !is_whole;
}

void InterfaceWatch::run() {
    pollfd waiting[] = {{events_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    while (poll(waiting, 2, -1) >= 0 || errno == EINTR) {
        if (waiting[1].revents != 0) return;
        // What has changed is asked for by name, so that a message which was lost does no harm.
        alignas(nlmsghdr) uint8_t messages[8192];
        bool is_of_it_now = false;
        for (ssize_t bytes = 0; bytes >= 0 || errno == ENOBUFS;) {
            errno = 0;
            bytes = recv(events_.get(), messages, sizeof messages, 0);
            if (bytes > 0) is_of_it_now |= is_of_it({messages, static_cast<size_t>(bytes)});
            else is_of_it_now |= errno == ENOBUFS;
        }
        if (is_of_it_now) tell();
    }
}

}  // namespace millrace::io
