// Runs the test or benchmark by whose name it is called: bin/NAME, a link to this program, loads lib/NAME.so and runs
// its main().
#include <dlfcn.h>

#include <cstdio>
#include <filesystem>

int main(int argc, char** argv) {
    const auto self = std::filesystem::read_symlink("/proc/self/exe");
    const auto name = std::filesystem::path(argc > 0 ? argv[0] : "").filename();
    const auto module = self.parent_path().parent_path() / "lib" / (name.string() + ".so");
    void* loaded = dlopen(module.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (loaded == nullptr) {
        std::fprintf(stderr, "%s\nmillrace-host: call it by a link with the name of a program in lib/\n", dlerror());
        return 2;
    }
    const auto run = reinterpret_cast<int (*)(int, char**)>(dlsym(loaded, "main"));
    if (run == nullptr) {
        std::fprintf(stderr, "%s: %s\n", module.c_str(), dlerror());
        return 2;
    }
    return run(argc, argv);
}
