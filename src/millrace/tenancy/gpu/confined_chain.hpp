// Batches of a chain in one piece, through the functions of its tenants.
#pragma once

#include <memory>
#include <vector>

#include "millrace/tenancy/gpu/confined.hpp"

namespace millrace::tenancy {

/// Functions of a chain's tenants, each in its window, linked with the kernels that take packets through them. Any
/// thread.
class ConfinedChain {
public:
    using Functions = std::vector<std::shared_ptr<ConfinedFunction>>;
    /// `functions`: in the order of the program, each with room for batches of the chain. Takes as long as they take to
    /// link. Throws device::DeviceError.
    ConfinedChain(device::Device& device, const chain::Program& program, Functions functions);
    ConfinedChain(const ConfinedChain&) = delete;
    ConfinedChain& operator=(const ConfinedChain&) = delete;

    const Functions& functions() const { return functions_; }
    /// Puts all packets of the batch through the functions of a step, as many at once as each has room for.
    device::Status run(device::StreamId stream, const device::Step& step, const device::BatchView& batch,
                       unsigned worker, unsigned place) const;

private:
    device::Device& device_;
    const Functions functions_;
    std::vector<uint16_t> function_of_;  // by stage of the program
    std::shared_ptr<device::LoadedConfined> loaded_;
};

}  // namespace millrace::tenancy
