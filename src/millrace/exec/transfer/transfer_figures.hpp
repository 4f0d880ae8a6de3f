// What a machine's transfers take, kept from one run to the next.
#pragma once

#include <memory>
#include <string>

#include "millrace/exec/transfer/cost_model.hpp"

namespace millrace::exec {

/// The figures as JSON, for `read_figures`.
std::string figures_json(const TransferFigures& figures);

/// Reads figures of the device `model` (device::Device::model()). Throws ConfigError, with line and column, when the
/// file is malformed or of another device.
TransferFigures read_figures(const std::string& path, const std::string& model);

/// The file in cache_folder() that figures of `model` are kept in; empty without a home.
std::string figures_path(const std::string& model);

/// The figures kept of `model`, else the built-in ones. A file that is no good is warned of and left alone.
std::shared_ptr<const TransferFigures> figures_of(const std::string& model);

}  // namespace millrace::exec
