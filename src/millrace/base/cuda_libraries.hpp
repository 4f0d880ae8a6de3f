// Where NVIDIA's run-time libraries may lie.
#pragma once

#include <string>
#include <vector>

namespace millrace {

/// Folders with a '/' behind, in the order of the search: $MILLRACE_CUDA, the system's ("": the dynamic linker
/// looks), the CUDA toolkit's, and the Python wheels' in `.venv` of the working directory.
std::vector<std::string> cuda_library_folders();

}  // namespace millrace
