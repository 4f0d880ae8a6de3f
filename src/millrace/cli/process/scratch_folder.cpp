#include "millrace/cli/process/scratch_folder.hpp"

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>

namespace millrace::cli {

ScratchFolder::ScratchFolder() {
    path_ = (std::filesystem::temp_directory_path() / "millrace-XXXXXX").string();
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error("there is no room for temporary files");
}
ScratchFolder::~ScratchFolder() { remove(); }

void ScratchFolder::remove() const {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
}

}  // namespace millrace::cli
