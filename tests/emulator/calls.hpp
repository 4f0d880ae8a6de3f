// What lies between emulated kernels and the emulator. Included by both; the kernels' sources define their integer
// types themselves, so that this takes none of a header's.
#pragma once

namespace emulator {

struct Index {
    unsigned x = 1, y = 1, z = 1;
};

/// What one thread of a kernel sees of its place.
struct ThreadView {
    Index thread, block, block_size, grid;
    unsigned char* block_memory = nullptr;  ///< what the launch has asked for besides the kernel's own
};

/// What a thread asks for.
struct Calls {
    /// Waits until all lanes of `mask` are here; `values[lane]` is then what that lane has brought, kNothing of lanes
    /// outside.
    void (*exchange)(unsigned mask, unsigned long long own, unsigned long long* values);
    /// Waits until all threads of the block are here; the sum of what they have brought.
    unsigned (*barrier)(unsigned own);
    /// Called where a thread waits for memory to change, so that other kernels come to run.
    void (*pause)();
    /// The GPU's clock. A pause, too.
    unsigned long long (*time_ns)();
    /// Calls a function of PTX that the kernels were linked with: `module` is one of their library's
    /// `emulated_foreign`.
    unsigned long long (*foreign)(const void* module, const char* name, void* handle, const void* tables);
    /// Ends the kernel as a fault of the GPU's would.
    void (*fault)(const char* what);
};

/// A kernel as its library gives it out, under the name `emulated_` and its own.
struct KernelEntry {
    static constexpr unsigned kMaxParameters = 8;
    void (*run)(void** parameters);  ///< one thread's run, from beginning to end
    unsigned parameters;             ///< how many
    unsigned bytes[kMaxParameters];  ///< of each
};
/// The library's own function `emulated_connect`: called once before its first kernel.
using Connect = void (*)(const Calls*);
/// `emulated_enter`: what the kernels' code that runs next on this thread of the host takes for its place.
using Enter = void (*)(const ThreadView*);

inline constexpr unsigned long long kNothing = 0xdeaddeaddeaddeadull;

}  // namespace emulator
