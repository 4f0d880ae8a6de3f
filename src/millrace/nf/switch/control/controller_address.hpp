// Where a switch's controllers are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::nf::flow_switch {

struct ControllerAddress {
    std::string text;      ///< as written
    std::string host;      ///< a name or an address; empty: the loopback address, to listen on
    std::string port;      ///< a number up to 65535
    bool listens = false;  ///< the controller comes to us
    bool tls = false;
    friend bool operator==(const ControllerAddress&, const ControllerAddress&) = default;
};

/// Reads tcp:HOST[:PORT] or ptcp:[PORT][:HOST], or by TLS ssl: and pssl:; the port is 6653 unless given
/// (OpenFlow 1.3.5, section 6.3.2). IPv6 addresses stand in brackets. Nothing when it is none of these.
std::optional<ControllerAddress> parse_controller(std::string_view text);

}  // namespace millrace::nf::flow_switch
