// Files that options of the command line name for writing.
#pragma once

#include <string>
#include <vector>

#include "millrace/base/files/file_ledger.hpp"

namespace millrace::cli {

/// An option and the file that it names: empty where the option was not given, "-" for the standard output.
struct OutputOption {
    const char* option;
    std::string file;
};

/// Notes the files in a ledger. Throws as `cannot_write` does where something else reads or writes one of them, or
/// where it can't be written: before hours of work, not after them. `made_folder` may have to be made first.
void note_outputs(FileLedger& ledger, const std::vector<OutputOption>& outputs, const std::string& made_folder = {});
/// The same of files beside which nothing else is read or written.
void note_outputs(const std::vector<OutputOption>& outputs);

}  // namespace millrace::cli
