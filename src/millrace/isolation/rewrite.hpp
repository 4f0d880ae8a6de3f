// Makes of verified PTX what a domain may run: every address that it can form lies in its window or in its own
// variables, no access is misaligned, and every loop comes to an end.
#pragma once

#include "millrace/isolation/verify.hpp"
#include "millrace/packet/decision.hpp"

namespace millrace::isolation {

enum class Isolation : uint8_t {
    none,     ///< verified, and left as it is
    checked,  ///< each address is compared with the window's bounds; beyond them the function is left (G-NET,
              ///< isoPointer)
    fenced,   ///< each address is forced into the window
};

inline constexpr uint64_t kWindowBytes = uint64_t{1} << 32;

struct RewriteOptions {
    Isolation isolation = Isolation::fenced;
    /// A multiple of kWindowBytes, and not 0.
    uint64_t window = uint64_t{0x7000} << 32;
    /// Memory on both sides of the window that the domain may touch, too: an offset that is smaller stays in the
    /// instruction. A multiple of 16.
    uint32_t guard_bytes = 2u << 20;
    /// Most instructions that a call may run; counted where loops begin again and functions are called, and by the
    /// longest way to the next such place, so that it may run fewer.
    uint32_t budget = 1u << 20;
    /// Of the block's memory that the domain has, as in Bounds.
    uint32_t shared_bytes = 0;
    /// What a function returns whose budget is spent, or whose check fails: the first eight bytes of its result.
    uint64_t verdict = uint64_t{kUndeclaredOutcome} << 32 | kNoDetail;
};

/// What became of a function.
struct FunctionReport {
    std::string name;
    size_t instructions = 0;  ///< before
    size_t for_window = 0;    ///< instructions added for accesses by pointers
    size_t for_objects = 0;   ///< … within variables
    size_t for_budget = 0;
    size_t for_clearing = 0;  ///< … so that nobody's old bytes are read
    size_t window_accesses = 0, object_accesses = 0, proven_accesses = 0;
    size_t loops = 0;

    size_t added() const { return for_window + for_objects + for_budget + for_clearing; }
};

struct Rewritten {
    ptx::Module module;
    std::vector<FunctionReport> functions;
};

/// `verdict` is that of `module`, and sound.
Rewritten rewrite(const ptx::Module& module, const Verdict& verdict, const RewriteOptions& options);

}  // namespace millrace::isolation
