#include "millrace/io/tap/redirects_off.hpp"

#include <fcntl.h>
#include <net/if.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

namespace millrace::io {
namespace {

constexpr const char* kFolder = "/proc/sys/net/ipv4/conf/";

/// Of a setting that is one digit; 0: it can't be read.
char read_digit(int file) {
    char now = 0;
    return file >= 0 && pread(file, &now, 1, 0) == 1 ? now : '\0';
}

}  // namespace

std::shared_ptr<RedirectsOff> RedirectsOff::hold(const std::string& tap, const Warn& warn) {
    static std::mutex mutex;
    static std::map<std::pair<dev_t, ino_t>, std::weak_ptr<RedirectsOff>> all;
    struct stat network{};
    stat("/proc/thread-self/ns/net", &network);
    const std::lock_guard lock(mutex);
    std::weak_ptr<RedirectsOff>& known = all[{network.st_dev, network.st_ino}];
    std::shared_ptr<RedirectsOff> held = known.lock();
    if (held == nullptr) known = held = std::make_shared<RedirectsOff>(warn);
    held->taps_.insert(tap);
    return held;
}

RedirectsOff::RedirectsOff(const Warn& warn)
    : file_(open((std::string(kFolder) + "all/send_redirects").c_str(), O_RDWR | O_CLOEXEC)) {
    if (file_.get() < 0 && errno == ENOENT) return;
    if (read_digit(file_.get()) == '0') return;
    changed_ = file_.get() >= 0 && pwrite(file_.get(), "0", 1, 0) == 1;
    if (!changed_)
        warn(std::string("net.ipv4.conf.all.send_redirects can't be set to 0: ") + std::strerror(errno),
             "sysctl -w net.ipv4.conf.all.send_redirects=0");
}

RedirectsOff::~RedirectsOff() {
    if (!changed_ || read_digit(file_.get()) != '0' || others_have_taps()) return;
    [[maybe_unused]] const ssize_t written = pwrite(file_.get(), "1", 1, 0);
}

/// Whether there are taps of another program's that send no redirects, as far as can be seen from here.
bool RedirectsOff::others_have_taps() const {
    struct if_nameindex* const names = if_nameindex();
    bool found = false;
    for (const struct if_nameindex* one = names; one != nullptr && one->if_name != nullptr; ++one) {
        if (taps_.contains(one->if_name) || !driver_of(one->if_name).is_tap) continue;
        const Descriptor own(
            open((std::string(kFolder) + one->if_name + "/send_redirects").c_str(), O_RDONLY | O_CLOEXEC));
        found = found || read_digit(own.get()) == '0';
    }
    if (names != nullptr) if_freenameindex(names);
    return found;
}

}  // namespace millrace::io
