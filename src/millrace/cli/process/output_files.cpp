#include "millrace/cli/process/output_files.hpp"

#include "millrace/base/files/output_file.hpp"

namespace millrace::cli {

void note_outputs(FileLedger& ledger, const std::vector<OutputOption>& outputs, const std::string& made_folder) {
    for (const auto& [option, file] : outputs) {
        if (file.empty() || file == "-") continue;
        ledger.note(FileLedger::Use::write, file, {option, 0, 0});
        check_output(file, {option, 0, 0}, made_folder);
    }
}

void note_outputs(const std::vector<OutputOption>& outputs) {
    FileLedger ledger;
    note_outputs(ledger, outputs);
}

}  // namespace millrace::cli
