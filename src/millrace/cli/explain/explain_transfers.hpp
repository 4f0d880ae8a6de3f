// Which ways across the bus a chain's batches take, what they cost, and why.
#pragma once

#include <string>

#include "millrace/exec/transfer/cost_model.hpp"

namespace millrace::cli {

/// For batches of frames of a few sizes, in order as a NIC leaves them, and `workers` on the device.
std::string transfers_text(const chain::Program& program, const chain::FieldPlan& plan,
                           const exec::TransferFigures& figures, unsigned workers);

}  // namespace millrace::cli
