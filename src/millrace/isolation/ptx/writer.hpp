// From a Module to PTX text.
#pragma once

#include "millrace/isolation/ptx/module.hpp"

namespace millrace::isolation::ptx {

/// All of a module. Names of variables and functions stay; labels get numbers, and registers of unusual names, too.
/// Only functions that others may call are visible, and no variable is.
std::string write(const Module& module);
/// One instruction on one line, as messages show it.
std::string write(const Module& module, const Function& function, const Statement& statement);

}  // namespace millrace::isolation::ptx
