// What an NF's host half is told when it is made.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/reporter.hpp"

namespace millrace::nf {

/// What functions at the same place of chains that are written alike have in common, whatever their options, in this
/// generation and the ones behind it. Where they have all of their state in the same arrays (Image::attach_state), and
/// keys that tell whose each is, a device runs them as one stage.
struct Siblings {
    std::map<std::string, std::weak_ptr<void>> state;  ///< by a name that the NF chooses; it lives as long as they do
};

/// What an NF's host half is told when it is made.
struct Environment {
    std::string node_name;  ///< unique in its chain
    std::string chain_name;
    std::string output_folder;       ///< for files that the NF writes (alerts)
    std::vector<std::string> ports;  ///< names by port number, for NFs that choose a port
    /// Interfaces of Linux' that stand for ports (`linux:`), with the ports' numbers.
    std::vector<std::pair<std::string, uint16_t>> linux_ports;
    /// The same node of the generation before, or null: take its state over from here.
    class NetworkFunction* previous = nullptr;
    /// Another node of this generation with the same options, or null: tables of its may serve this one, too. Told to
    /// kinds that say `shares_tables`.
    const class NetworkFunction* twin = nullptr;
    /// Null: the node is alone.
    Siblings* siblings = nullptr;
    /// Told of what works but deserves a look, such as a rule that is not supported: while the NF is made, and while it
    /// works.
    Reporter warn = {};
    bool on_device = false;  ///< a device with memory of its own runs it, and not the CPU's cores
    bool live = false;       ///< packets will flow: only then an NF opens what tells it of changes, such as sockets
};

}  // namespace millrace::nf
