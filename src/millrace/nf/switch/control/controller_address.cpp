#include "millrace/nf/switch/control/controller_address.hpp"

#include <algorithm>
#include <charconv>

namespace millrace::nf::flow_switch {
namespace {

bool is_port(std::string_view text) {
    uint16_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return error == std::errc{} && end == text.data() + text.size();
}

/// A name, or an address that may stand in brackets, whose colons are its own.
std::optional<std::string> host_of(std::string_view text) {
    const bool bracketed = text.starts_with('[') && text.ends_with(']');
    if (bracketed) text = text.substr(1, text.size() - 2);
    if (text.find_first_of("[] ") != std::string_view::npos || (!bracketed && text.find(':') != std::string_view::npos))
        return std::nullopt;
    return std::string(text);
}

}  // namespace

std::optional<ControllerAddress> parse_controller(std::string_view text) {
    const std::string_view way = text.substr(0, text.find(':') + 1);
    ControllerAddress address{std::string(text), {}, "6653", way.starts_with('p'), way.ends_with("ssl:")};
    if (way != "tcp:" && way != "ptcp:" && way != "ssl:" && way != "pssl:") return std::nullopt;
    std::string_view rest = text.substr(way.size());
    std::string_view port;
    if (address.listens) {
        port = rest.substr(0, rest.find(':'));
        rest = rest.size() > port.size() ? rest.substr(port.size() + 1) : std::string_view{};
    } else if (const size_t colon = rest.rfind(':'); colon != std::string_view::npos && !rest.ends_with(']')) {
        port = rest.substr(colon + 1);
        rest = rest.substr(0, colon);
        if (port.empty()) return std::nullopt;
    }
    if (!port.empty() && !is_port(port)) return std::nullopt;
    if (!port.empty()) address.port = port;
    const std::optional<std::string> host = host_of(rest);
    if (!host || (host->empty() && !address.listens)) return std::nullopt;
    address.host = *host;
    return address;
}

}  // namespace millrace::nf::flow_switch
