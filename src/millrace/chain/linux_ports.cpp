#include "millrace/chain/linux_ports.hpp"

#include "millrace/packet/packet.hpp"

namespace millrace::chain {
namespace {

/// The interface's name: `linux: lan0`, or `linux: {tap: lan0, mtu: 9000}`.
Config interface_of(const Config& value) { return value.is_map() ? value.at("tap") : value; }

}  // namespace

std::vector<LinuxPort> find_linux_ports(const Config& ports) {
    const auto entries = ports.entries();
    std::vector<LinuxPort> found;
    std::vector<Diagnostic> mistakes;
    for (size_t i = 0; i < entries.size(); ++i) try {
            if (!entries[i].second.is_map()) continue;
            const auto value = entries[i].second.find("linux");
            if (!value) continue;
            if (entries[i].second.has("tap"))
                value->fail("port '" + entries[i].first.text() + "' is an interface of Linux' already",
                            "'linux' belongs to the port that the interface stands for");
            const Config interface = interface_of(*value);
            const auto tap = static_cast<uint16_t>(entries.size() + found.size());
            found.push_back({interface.text(), static_cast<uint16_t>(i), tap, *value});
        } catch (const ConfigError& e) {
            mistakes.insert(mistakes.end(), e.diagnostics().begin(), e.diagnostics().end());
        }
    if (!mistakes.empty()) throw ConfigError(std::move(mistakes));
    return found;
}

Config with_taps(const Config& ports, const std::vector<LinuxPort>& linux_ports) {
    if (linux_ports.empty()) return ports;
    auto entries = ports.entries();
    for (const LinuxPort& linux_port : linux_ports) {
        const Config interface = interface_of(linux_port.where);
        entries.emplace_back(interface, linux_port.where.is_map()
                                            ? linux_port.where
                                            : interface.as({{interface.as("tap"), interface}}));
    }
    return ports.as(entries);
}

std::pair<Config, Config> chain_to(const LinuxPort& linux_port, const std::string& port_name) {
    const Config& at = linux_port.where;
    return {at.as("to-" + port_name),
            at.as({{at.as("input"), at.as(linux_port.interface)}, {at.as("output"), at.as(port_name)}})};
}

std::shared_ptr<const std::vector<uint16_t>> taps_by_port(const std::vector<LinuxPort>& linux_ports, size_t ports) {
    if (linux_ports.empty()) return nullptr;
    auto taps = std::make_shared<std::vector<uint16_t>>(ports, kNoPort);
    for (const LinuxPort& linux_port : linux_ports) (*taps)[linux_port.port] = linux_port.tap;
    return taps;
}

}  // namespace millrace::chain
