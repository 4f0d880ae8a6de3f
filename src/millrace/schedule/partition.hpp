// What tenants that take turns on one partition of SMs get: G-NET's Eqs 2 to 4, for one tenant and for several.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "millrace/schedule/model.hpp"

namespace millrace::schedule {

/// A tenant or chain, as far as the time of its batches matters.
struct Load {
    Model model;
    double rate = 0;         ///< packets a second that it must be able to do
    double latency_ns = 0;   ///< that no packet may take longer than, with its wait for the batch; 0: no bound
    uint32_t max_batch = 0;  ///< packets; 0: no bound
    double overhead_ns = 0;  ///< C of the paper, each batch: messages, waits for the bus, errors of the model
    uint32_t least_sms = 0;  ///< fewer can't run it
    uint32_t queues = 1;     ///< of workers, each with batches of its own: one of each in a cycle

    /// Most packets of a batch on `sms`.
    uint32_t most_packets(uint32_t sms) const;
    /// Of each packet, in ns, if batches were without end.
    double packet_ns(uint32_t sms) const { return model.kernel.slope / sms + model.transfer.slope; }
    /// What a cycle's batches take, of so many packets together; kernels of several queues' batches run beside each
    /// other, copies one after the other.
    double batches_ns(uint32_t packets, uint32_t sms) const {
        return model.kernel_ns(packets, sms) + transfers_ns(packets) + queues * overhead_ns;
    }
    double transfers_ns(uint32_t packets) const {
        return model.transfer_ns(packets) + (queues - 1) * model.transfer.start;
    }
    /// Of a cycle without packets.
    double start_ns() const { return model.kernel.start + queues * (model.transfer.start + overhead_ns); }
};

/// What stops a promise.
enum class Limit : uint8_t {
    none,
    rate,     ///< packets come faster than they can be done
    latency,  ///< each takes longer than it may
    batch,    ///< the batch that is needed is larger than batches may be
    sms,      ///< there are not so many SMs
    bus,      ///< transfers would take more time than there is
};
inline constexpr const char* kLimitNames[] = {"none", "rate", "latency", "batch", "sms", "bus"};
inline const char* name_of(Limit limit) { return kLimitNames[static_cast<int>(limit)]; }

/// Tenants that take turns: a batch of each, one behind the other, over and over.
struct Turn {
    double cycle_ns = 0;            ///< from a batch's start to the next one of the same tenant
    std::vector<uint32_t> batches;  ///< the smallest that keep up, in packets: those of all queues together
};

/// Why there is none, with the figures that say so.
struct Stop {
    Limit limit = Limit::none;
    size_t load = 0;                 ///< whose promise it is
    double asked = 0, possible = 0;  ///< packets a second; ns; packets
};

/// The smallest batches with which all keep their rate and latency on `sms` SMs, in cycles of `least_cycle_ns` at
/// least; nothing where there are none.
///
/// Within a cycle of Z come rate·Z packets, and a batch of B of them takes k1·⌈B/N⌉ + b1 + k2·B + b2 + C. For one
/// tenant, and with numbers that are not whole, that is Eq 3; here B is the least whole number that solves it. A packet
/// waits for a cycle at most until its batch starts, and for another until it is back: 2·Z is what a promise is held
/// against, where the paper's latency is that of the GPU alone (Eq 4).
std::optional<Turn> settle(std::span<const Load* const> loads, uint32_t sms, Stop* stop = nullptr,
                           double least_cycle_ns = 0);

/// Share of the bus's time that the transfers of a load take in cycles of `packets`.
double bus_share(const Load& load, uint32_t packets);

}  // namespace millrace::schedule
