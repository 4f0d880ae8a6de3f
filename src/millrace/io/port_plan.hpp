// How the kinds of ports are made: options are read and checked first (a plan), opened afterwards.
// Private to io/.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/io/port.hpp"

namespace millrace::io {

/// What every kind is handed: the options all ports share are read already.
struct PortPlan {
    PortInfo info;   ///< name, kind and index are set
    Config options;  ///< the port's whole map
    Config value;    ///< what stands behind the key that names the kind
    uint16_t queues = 1;
    uint32_t max_frame_bytes = 0;  ///< `max-frame`, 0 when not given
    bool buffers_given = false;
    PoolOptions pool;
    std::function<void(Diagnostic)> warn;
    size_t pool_memory_bytes = 0;
    SourceDelivery sources = {};
    /// Of a tap: the MTU of the port that it stands for, when that is open; 0: it stands for none.
    std::shared_ptr<uint32_t> port_mtu = std::make_shared<uint32_t>(0);
    std::string output_folder = {};  ///< where relative names of output files start, see PortEnvironment

    /// The pool for frames of that length: within the memory limit unless `buffers` was given.
    PoolOptions pool_for(uint32_t frame_bytes) const;
    /// Where the file that `value` names is to be written.
    std::string output_path(const Config& value) const;
    /// Refuses options other than these and the ones that all ports share.
    void only(std::vector<std::string> own) const;
};

/// Opens the planned port. Throws ConfigError or std::runtime_error.
using OpenPort = std::function<std::unique_ptr<Port>()>;

OpenPort plan_null(const PortPlan& plan);
OpenPort plan_sink(const PortPlan& plan);
OpenPort plan_source(const PortPlan& plan);
OpenPort plan_pcap(const PortPlan& plan);  ///< `pcap:` and `output:`
OpenPort plan_capture(const PortPlan& plan);
OpenPort plan_packet_socket(const PortPlan& plan);  ///< `af_packet:`
OpenPort plan_xdp(const PortPlan& plan);            ///< `af_xdp:`
OpenPort plan_tap(const PortPlan& plan);
OpenPort plan_ethdev(const PortPlan& plan);  ///< `dpdk:`

/// Makes both ends of rings. Lives while ports are being made.
class RingPlans {
public:
    RingPlans();
    ~RingPlans();
    OpenPort plan(const PortPlan& plan);
    /// Throws ConfigError when a ring has one end only.
    void check_pairs() const;

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace millrace::io
