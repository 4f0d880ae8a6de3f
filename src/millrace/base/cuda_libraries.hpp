// Where NVIDIA's run-time libraries may lie.
#pragma once

#include <string>
#include <vector>

namespace millrace {

struct CudaFolders {
    /// With a '/' behind, in the order of the search: $MILLRACE_CUDA, the system's ("": the dynamic linker looks), and
    /// the CUDA toolkit's.
    std::vector<std::string> folders;
    /// Why others are left out. Root takes code only from where nobody but root can put any.
    std::vector<std::string> refused;
};

CudaFolders cuda_library_folders();

}  // namespace millrace
