#include "millrace/chain/linux_ports.hpp"

#include <map>

#include "millrace/chain/names.hpp"
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
            found.push_back({name_of(interface, "a port"), static_cast<uint16_t>(i), tap, *value});
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
        // Of new values alone: one of the file's would take all of the file along, into each of these maps.
        entries.emplace_back(interface,
                             linux_port.where.is_map()
                                 ? linux_port.where
                                 : interface.as({{interface.as("tap"), interface.as(linux_port.interface)}}));
    }
    Config all = ports.as(entries);
    all.entries();  // throws where a name is given twice
    return all;
}

std::vector<std::pair<std::string, uint16_t>> interfaces_of(const std::vector<LinuxPort>& linux_ports) {
    std::vector<std::pair<std::string, uint16_t>> interfaces;
    for (const LinuxPort& linux_port : linux_ports) interfaces.emplace_back(linux_port.interface, linux_port.port);
    return interfaces;
}

std::vector<std::pair<Config, Config>> with_chains(std::vector<std::pair<Config, Config>> chains,
                                                   const std::vector<LinuxPort>& linux_ports,
                                                   const std::vector<std::string>& port_names) {
    if (linux_ports.empty()) return chains;
    std::map<std::string, Config> own;
    for (const auto& [name, options] : chains) own.emplace(name.text(), name);
    for (const LinuxPort& linux_port : linux_ports) {
        const Config& at = linux_port.where;
        const std::string& port = port_names[linux_port.port];
        const Config name = at.as("to-" + port);
        if (const auto found = own.find(name.text()); found != own.end())
            found->second.fail("chain '" + name.text() + "' is the one that 'linux:' of port '" + port + "' adds",
                               "take it out, or give it another name");
        chains.emplace_back(name,
                            at.as({{at.as("input"), at.as(linux_port.interface)}, {at.as("output"), at.as(port)}}));
    }
    return chains;
}

std::shared_ptr<const std::vector<uint16_t>> taps_by_port(const std::vector<LinuxPort>& linux_ports, size_t ports) {
    if (linux_ports.empty()) return nullptr;
    auto taps = std::make_shared<std::vector<uint16_t>>(ports, kNoPort);
    for (const LinuxPort& linux_port : linux_ports) (*taps)[linux_port.port] = linux_port.tap;
    return taps;
}

}  // namespace millrace::chain
