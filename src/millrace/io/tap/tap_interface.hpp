// The Linux interface that a tap port has made, and how it stands for another port.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "millrace/io/tap/redirects_off.hpp"
#include "millrace/io/port.hpp"

namespace millrace::io {

struct TapOptions {
    /// Whose MAC address it has while it stands for a port.
    enum class Mac : uint8_t {
        automatic,  ///< the port's, but for an `af_packet` port its own: there Linux would take the port's frames, too
        own,
        port,
    };
    std::string interface;
    Mac mac = Mac::automatic;
    bool redirects = false;  ///< Linux may send ICMP redirects there, as its own settings say
};

/// What a tap takes over from its port it takes over once for each change of the port: an MTU below the port's, or
/// another MAC address, which somebody gives it later, stays.
class TapInterface {
public:
    /// `descriptor`: an open queue of it. `most_mtu`: the longest that it has room for. `warn` is told of settings that
    /// Linux does not let it make.
    TapInterface(TapOptions options, int descriptor, uint32_t most_mtu,
                 std::function<void(const std::string& message, const std::string& hint)> warn);

    void stand_for(const Port& port);
    /// The descriptor is not used from here on.
    void leave();

private:
    void set(const char* family, const char* where, const char* name, char value);
    void take_mtu(uint32_t mtu);
    void take_mac(const std::array<uint8_t, 6>& mac);

    const TapOptions options_;
    const uint32_t most_mtu_;
    const std::function<void(const std::string& message, const std::string& hint)> warn_;
    std::mutex mutex_;  // what is below
    int descriptor_;
    bool stands_ = false, told_carrier_ = false;
    std::shared_ptr<RedirectsOff> redirects_off_;  // null: redirects may be sent
    uint32_t taken_mtu_ = 0;
    std::array<uint8_t, 6> taken_mac_{};
};

}  // namespace millrace::io
