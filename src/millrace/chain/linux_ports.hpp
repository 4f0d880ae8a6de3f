// `linux:` of a port: an interface of Linux' stands for it, with all that this takes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/text/config.hpp"

namespace millrace::chain {

/// A port that an interface of Linux' stands for: a tap that Millrace makes, and serves as a port of its own.
struct LinuxPort {
    std::string interface;
    uint16_t port = 0, tap = 0;  ///< numbers of both ports
    Config where;                ///< what stands behind `linux:`
};

/// Those of a `ports:` map, in its order. Throws ConfigError with all mistakes.
std::vector<LinuxPort> find_linux_ports(const Config& ports);

/// The map with their taps as ports behind the others, each by the name of its interface. Throws ConfigError where a
/// port is called so already.
Config with_taps(const Config& ports, const std::vector<LinuxPort>& linux_ports);

/// Names and options of chains, and behind them one for each of these ports: it sends by the port what Linux sends by
/// the interface. Throws ConfigError where one is called so already.
std::vector<std::pair<Config, Config>> with_chains(std::vector<std::pair<Config, Config>> chains,
                                                   const std::vector<LinuxPort>& linux_ports,
                                                   const std::vector<std::string>& port_names);

/// Interfaces, and the numbers of the ports that they stand for: nf::Environment::linux_ports.
std::vector<std::pair<std::string, uint16_t>> interfaces_of(const std::vector<LinuxPort>& linux_ports);

/// By port number, for so many ports: the tap that stands for the port, or kNoPort. Null where there is none.
std::shared_ptr<const std::vector<uint16_t>> taps_by_port(const std::vector<LinuxPort>& linux_ports, size_t ports);

}  // namespace millrace::chain
