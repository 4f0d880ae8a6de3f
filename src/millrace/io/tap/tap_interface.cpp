#include "millrace/io/tap/tap_interface.hpp"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "millrace/io/kernel/interface_request.hpp"

namespace millrace::io {
TapInterface::TapInterface(TapOptions options, int descriptor, uint32_t most_mtu,
                           std::function<void(const std::string& message, const std::string& hint)> warn)
    : options_(std::move(options)), most_mtu_(most_mtu), warn_(std::move(warn)), descriptor_(descriptor) {
    take_mtu(most_mtu_);
    // An interface sends them if its own setting says so, or that of all.
    if (!options_.redirects) {
        set("ipv4", options_.interface.c_str(), "send_redirects", '0');
        redirects_off_ = RedirectsOff::hold(options_.interface, warn_);
    }
}

void TapInterface::leave() {
    const std::lock_guard lock(mutex_);
    redirects_off_.reset();
    descriptor_ = -1;
}

/// Writes a setting of the network (sysctl).
void TapInterface::set(const char* family, const char* where, const char* name, char value) {
    const std::string path = std::string("/proc/sys/net/") + family + "/conf/" + where + "/" + name;
    const Descriptor file(open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (file.get() < 0 && errno == ENOENT) return;  // a kernel without it, or without IPv6
    char now = 0;
    if (file.get() >= 0 && pread(file.get(), &now, 1, 0) == 1 && now == value) return;
    if (file.get() >= 0 && pwrite(file.get(), &value, 1, 0) == 1) return;
    warn_(path + " can't be set to " + value + ": " + std::strerror(errno),
          std::string("sysctl -w net.") + family + ".conf." + where + "." + name + "=" + value);
}

void TapInterface::stand_for(const Port& port) {
    const std::lock_guard lock(mutex_);
    if (descriptor_ < 0) return;
    if (!stands_) {
        // A route whose port has no link is none.
        for (const char* const family : {"ipv4", "ipv6"})
            set(family, options_.interface.c_str(), "ignore_routes_with_linkdown", '1');
        stands_ = true;
    }
    int carrier = port.link().up ? 1 : 0;
    if (ioctl(descriptor_, TUNSETCARRIER, &carrier) != 0 && !std::exchange(told_carrier_, true))
        warn_("this kernel does not let '" + options_.interface + "' lose its link: " + std::strerror(errno),
              "it takes Linux 5.0; before that routes by it stay when the port's link is gone");
    take_mtu(std::min(port.mtu(), most_mtu_));
    const bool takes_mac = options_.mac == TapOptions::Mac::automatic ? !port.linux_hears()
                                                                      : options_.mac == TapOptions::Mac::port;
    if (takes_mac) take_mac(port.mac());
}

void TapInterface::take_mtu(uint32_t mtu) {
    const Interface now = find_interface(options_.interface);
    const bool is_right = mtu == taken_mtu_ ? now.mtu <= mtu : now.mtu == mtu;
    ifreq request = request_of(options_.interface);
    request.ifr_mtu = static_cast<int>(mtu);
    if (is_right || ask_kernel(SIOCSIFMTU, request)) taken_mtu_ = mtu;
}

void TapInterface::take_mac(const std::array<uint8_t, 6>& mac) {
    if (mac == taken_mac_ || mac == std::array<uint8_t, 6>{}) return;
    ifreq request = request_of(options_.interface);
    request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
    std::copy(mac.begin(), mac.end(), request.ifr_hwaddr.sa_data);
    if (ask_kernel(SIOCSIFHWADDR, request)) taken_mac_ = mac;
}

}  // namespace millrace::io
