// Network functions that work on the CPU around each batch of their device half: tenants' functions (docs/tenants.md).
//
// What a batch goes through are the five operations of G-NET (section 6): `before`, the way to the device, the
// arguments, the way from the device, `after`. One thread of the tenant's process calls both stages, so they need no
// locks; the device works on other batches meanwhile. Nothing of the manager's waits for them.
#pragma once

#include <cstdint>
#include <span>

#include "millrace/packet/packet.hpp"

namespace millrace::nf {

class NetworkFunction;

/// A NetworkFunction derives from it, too, when it has something to find out of packets that the device half can't.
class BeforeDevice {
public:
    virtual ~BeforeDevice() = default;
    /// Looks at packets (at most kCpuVector, in order of arrival), changes none, and gives each an argument, which the
    /// device half has by argument_of (packet/argument.hpp).
    virtual void before(std::span<const Packet* const> packets, uint32_t* arguments) = 0;
};

/// A NetworkFunction derives from it, too, when it has something to do about what its device half has written and
/// decided. It tells events in place of the device half, whose events go nowhere then.
class AfterDevice {
public:
    virtual ~AfterDevice() = default;
    /// Sees packets as the device half has left them (at most kCpuVector, in order of arrival), and its decisions with
    /// the whole detail. May change the decisions, and the fields that the type writes. Emits by Packet::emit_once.
    virtual void after(std::span<Packet* const> packets, Decision* decisions) = 0;
};

/// Which of them a function has.
struct CpuStages {
    bool before = false, after = false;
    bool any() const { return before || after; }
    friend bool operator==(const CpuStages&, const CpuStages&) = default;
};
CpuStages cpu_stages_of(const NetworkFunction& function);

}  // namespace millrace::nf
