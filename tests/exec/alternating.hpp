// One stream of packets over several engines, in an order that is known, and tunnels whose order it shows.
#pragma once

#include <functional>

#include "support/devices.hpp"
#include "support/engine_runner.hpp"

namespace millrace::test {

using Devices = std::vector<std::shared_ptr<device::Device>>;

/// Every packet into one ESP tunnel; as YAML, and as a whole.
std::string into_tunnel_nfs();
chain::Configuration into_tunnel(const std::string& device);
/// The far end of the same tunnel.
chain::Configuration out_of_tunnel(const std::string& device);
/// Every frame of the run as it left, some again and some late: as far as the window reaches, and farther.
std::vector<Frame> with_replays(const EngineRun& run);

/// How many sequence numbers of the first tunnel of the gateway `node` of chain `chain` the host knows to have been
/// given out.
uint64_t numbers_given_out(const chain::Configuration& configuration, size_t chain, size_t node);
/// The capture holds `packets` ESP packets of one tunnel: each sequence number once, none left out.
void expect_each_number_once(const std::string& capture, uint32_t packets);

/// Called before each burst, with its number; the second polls all engines.
using Between = std::function<void(size_t, const std::function<void()>&)>;

/// Bursts of frames to the devices in turn, an engine each; each burst is a batch, so that batches are put on the
/// devices in the order of the frames. A device that is there twice has two engines, as those of two workers. They do
/// `work` of it.
EngineRun run_alternating(const Devices& devices, const chain::Configuration& configuration,
                          const std::vector<Frame>& frames, size_t burst, exec::OffloadOptions options = {},
                          const Between& between = {}, Work work = Work::device_alone);

}  // namespace millrace::test
