// From PTX text to a Module.
#pragma once

#include "millrace/isolation/ptx/module.hpp"

namespace millrace::isolation::ptx {

/// A text beyond these is refused before it costs memory.
struct Limits {
    size_t text_bytes = size_t{64} << 20;
    size_t statements = 2'000'000;  ///< of all functions
    size_t registers = 1'000'000;   ///< of a function
    size_t initials = 4'000'000;    ///< elements of all initialisers
    unsigned depth = 64;            ///< braces in braces
    bool reserved_names = false;    ///< reads what the rewriter wrote, too
};

/// Reads all of a module; `file` is what messages call it. Throws ConfigError at the first word that is not understood,
/// with its line and column.
Module read(std::string_view text, const std::string& file, const Limits& limits = {});

}  // namespace millrace::isolation::ptx
