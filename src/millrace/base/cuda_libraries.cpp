#include "millrace/base/cuda_libraries.hpp"

#include <cstdlib>
#include <filesystem>

namespace millrace {

std::vector<std::string> cuda_library_folders() {
    std::vector<std::string> folders;
    if (const char* own = std::getenv("MILLRACE_CUDA")) folders.push_back(std::string(own) + "/");
    folders.push_back("");
    folders.push_back("/usr/local/cuda/lib64/");
    std::error_code error;
    for (const auto& python : std::filesystem::directory_iterator(".venv/lib", error))
        for (const char* package : {"cu13/lib/", "cuda_nvrtc/lib/", "nvjitlink/lib/"})
            folders.push_back((std::filesystem::absolute(python.path()) / "site-packages/nvidia" / package).string());
    return folders;
}

}  // namespace millrace
