#include <malloc.h>

#include <cstdlib>

#include "support/data.hpp"
#include "support/device_work.hpp"

namespace {

/// NVRTC of the tree's Python environment, where the environment names no other.
void find_cuda() {
    std::error_code error;
    for (const auto& python : std::filesystem::directory_iterator(millrace::test::source_path(".venv/lib"), error))
        setenv("MILLRACE_CUDA", (python.path() / "site-packages/nvidia/cu13/lib").c_str(), 0);
}

/// Tables of many megabytes come and go with each case. What goes back to the system meanwhile comes again page by
/// page, which takes as long as many cases take otherwise.
void keep_memory() {
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
}

}  // namespace

int main(int argc, char** argv) {
    find_cuda();
    keep_memory();
    return millrace::test::run_all_tests(argc, argv);
}
