// Loaded before a program, it sends it the signal INTERRUPT_WITH when it asks the system for something for the
// INTERRUPT_AT-th time, and writes to the file INTERRUPT_COUNT how often it asked.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

std::atomic<long> asked{0};

/// Of the environment as the program was given it: its own functions may not be ready yet.
long number(const char* name, long otherwise) {
    const size_t length = std::strlen(name);
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
        if (std::strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return std::atol(*entry + length + 1);
    return otherwise;
}

void tick() {
    if (++asked == number("INTERRUPT_AT", -1)) kill(getpid(), static_cast<int>(number("INTERRUPT_WITH", SIGHUP)));
}

__attribute__((destructor)) void tell() {
    const char* const file = std::getenv("INTERRUPT_COUNT");
    std::FILE* const out = file != nullptr ? std::fopen(file, "w") : nullptr;
    if (out == nullptr) return;
    std::fprintf(out, "%ld\n", asked.load());
    std::fclose(out);
}

template <class Function>
Function* next(const char* name, Function*) {
    return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

mode_t mode_behind(int flags, va_list more) { return (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0; }

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = mode_behind(flags, more);
    va_end(more);
    tick();
    return next("open", &open)(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = mode_behind(flags, more);
    va_end(more);
    tick();
    return next("open64", &open64)(path, flags, mode);
}

std::FILE* fopen(const char* path, const char* mode) {
    tick();
    return next("fopen", &fopen)(path, mode);
}

std::FILE* fopen64(const char* path, const char* mode) {
    tick();
    return next("fopen64", &fopen64)(path, mode);
}

int access(const char* path, int mode) noexcept {
    tick();
    return next("access", &access)(path, mode);
}

void* mmap(void* at, size_t length, int protection, int flags, int file, off_t offset) noexcept {
    tick();
    return next("mmap", &mmap)(at, length, protection, flags, file, offset);
}

}  // extern "C"
