// Network functions and GPUs as command lines name them.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "millrace/nf/nf.hpp"

namespace millrace::cli {

/// The network function that an argument names: by its name, or by the file of a plugin that has one. Throws
/// std::runtime_error.
const nf::Type& named_function(const std::string& name);

/// "sm_90"
CLI::Validator architecture_check();

}  // namespace millrace::cli
