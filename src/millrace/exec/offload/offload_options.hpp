// How an offload engine works.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "millrace/device/order_gate.hpp"
#include "millrace/device/device.hpp"
#include "millrace/exec/cpu/event_line.hpp"
#include "millrace/exec/engine.hpp"
#include "millrace/exec/hybrid/placement.hpp"
#include "millrace/exec/offload/submit/call_thread.hpp"
#include "millrace/exec/report/timeline.hpp"
#include "millrace/exec/transfer/cost_model.hpp"

namespace millrace::exec {

class TenantsInChain;

struct OffloadOptions {
    unsigned depth = 4;                     ///< batches in flight
    size_t batch_bytes = size_t{16} << 20;  ///< most packet-buffer bytes of one batch
    /// Frames of so many bytes make a batch long: kernels that have an order are not put on its stream before those
    /// that have none are done. Else they wait for batches before them on the GPU, in a queue of its hardware, of which
    /// streams have few, and what stands behind them there waits, too.
    size_t long_batch_bytes = size_t{12} << 20;
    device::Mode mode = device::Mode::fused;
    TransferIn transfer_in = TransferIn::automatic;
    TransferOut transfer_out = TransferOut::automatic;
    std::shared_ptr<const TransferFigures> figures;  ///< what the automatic ways are chosen by; null:
                                                     ///< built_in_figures()
    unsigned workers = 1;                            ///< that share the device, this one among them
    TimelineTrack* track = nullptr;                  ///< what happens when is told there; null: nowhere
    EventLine* events = nullptr;                     ///< the worker's; null: events are told at once
    std::shared_ptr<device::OrderGate> gate;         ///< of all devices that run these chains; null: there is one
    size_t full_burst = SIZE_MAX;          ///< so many packets submitted at once say that more are there to be received
    std::shared_ptr<Placement> placement;  ///< of chains that the CPU shares with the device; null: all packets go
                                           ///< there
    size_t most_waiting = size_t{1} << 14;  ///< packets of a chain that may wait: memory for so many is set aside
    bool pinned = false;                    ///< all receive buffers are known to the device (Device::pin)
    bool blocks = false;                    ///< frames may come in receive blocks; then `frames` takes them
    FrameDelivery* frames = nullptr;
    /// Those in the engine's chain, for its next batches; null: it has none. The worker's.
    const std::shared_ptr<TenantsInChain>* tenants = nullptr;
    bool calls_by_thread = false;  ///< one thread for each device makes the calls of its driver for all workers
    std::shared_ptr<CallThread> call_thread;                     ///< that one; null: the worker makes its own
    std::chrono::nanoseconds patience{std::chrono::seconds(5)};  ///< a batch that takes longer means that the device is
                                                                 ///< gone
};

}  // namespace millrace::exec
