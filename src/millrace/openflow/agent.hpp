// The OpenFlow agents of a runtime: sockets, and threads beside the packet path.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "millrace/chain/configuration.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/openflow/datapath.hpp"

namespace millrace::openflow {

class Peer;
class Socket;
struct Roles;

/// Connects a switch with its controllers, in a thread of its own.
class Agent {
public:
    /// Throws std::runtime_error where an address cannot be listened on.
    Agent(std::unique_ptr<Datapath> datapath, const std::vector<nf::flow_switch::ControllerAddress>& controllers,
          const std::shared_ptr<const TlsContext>& tls = nullptr);
    ~Agent();

    /// The port that is listened on, for those who left the choice to the kernel with ptcp:0; 0: none.
    uint16_t listens_on() const;

private:
    void run();
    void bring_in_changes();
    void pass_on_packets();
    void watch_ports();

    std::unique_ptr<Datapath> datapath_;
    std::unique_ptr<Roles> roles_;
    std::unique_ptr<Socket> progress_;  // readable when changes have come to work
    std::vector<std::unique_ptr<Peer>> peers_;
    std::optional<std::map<uint32_t, PortView>> last_ports_;  // by number
    std::chrono::steady_clock::time_point brought_in_;        // when changes that no barrier waited for were last
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

/// An agent for each switch that names a controller.
class Agents {
public:
    explicit Agents(exec::Runtime& runtime) : runtime_(runtime) {}
    /// Starts and ends agents as the runtime's configuration says now. Throws std::runtime_error where one can't be
    /// started; the others are.
    void follow();
    /// Tells switches whose groups go around links that are down which ones are: also those without a controller.
    void watch_links();

private:
    struct Entry {
        std::shared_ptr<nf::flow_switch::Control> control;
        nf::flow_switch::Control::Address address;
        std::unique_ptr<Agent> agent;
    };
    std::unique_ptr<Agent> agent_for(const Entry& wanted, const std::string& chain, const std::string& node);

    exec::Runtime& runtime_;
    std::vector<Entry> agents_;
};

}  // namespace millrace::openflow
