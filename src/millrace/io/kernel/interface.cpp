#include "millrace/io/kernel/interface.hpp"

#include <linux/ethtool.h>
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
#include <cstring>
#include <stdexcept>

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

/// In Mb/s; 0 when the driver does not know.
uint32_t speed_of(int fd, ifreq request) {
    ethtool_cmd command{};
    command.cmd = ETHTOOL_GSET;
    request.ifr_data = reinterpret_cast<char*>(&command);
    if (ioctl(fd, SIOCETHTOOL, &request) != 0) return 0;
    const uint32_t speed = ethtool_cmd_speed(&command);
    return speed == static_cast<uint32_t>(SPEED_UNKNOWN) || speed == UINT16_MAX ? 0 : speed;
}

}  // namespace

Descriptor::~Descriptor() {
    if (number_ >= 0) close(number_);
}

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
    ifreq request{};
    name.copy(request.ifr_name, IFNAMSIZ - 1);
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

std::string interface_name(const Config& value) {
    const std::string name = value.text();
    if (name.empty() || name.size() >= IFNAMSIZ || name == "." || name == ".." ||
        name.find_first_of(",/: =\t\n") != std::string::npos)
        value.fail("'" + name + "' is no name of a network interface",
                   "at most 15 characters, without commas and blanks");
    return name;
}

InterfaceWatch::InterfaceWatch(std::function<void()> changed)
    : changed_(std::move(changed)), events_(open_event_socket()), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (stop_.get() < 0) throw std::runtime_error(std::string("no event descriptor: ") + std::strerror(errno));
    changed_();
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "interfaces");
}

InterfaceWatch::~InterfaceWatch() {
    const uint64_t one = 1;
    if (write(stop_.get(), &one, sizeof one) != sizeof one)
        std::terminate();  // an event descriptor takes 2^64 - 2 of them
    thread_.join();
}

void InterfaceWatch::run() {
    pollfd waiting[] = {{events_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    while (poll(waiting, 2, -1) >= 0 || errno == EINTR) {
        if (waiting[1].revents != 0) return;
        // What has changed is asked for by name, so that a message which was lost does no harm.
        char message[8192];
        while (recv(events_.get(), message, sizeof message, 0) > 0 || errno == ENOBUFS) errno = 0;
        changed_();
    }
}

}  // namespace millrace::io
