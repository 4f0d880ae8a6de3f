// The instructions of a compiled regular expression, shared by the compiler and the machine.
//
// A program is a header of kHeaderWords words and instructions behind it. The low byte of an
// instruction's first word is its Op, the upper 24 bits its first operand; further operands follow, one
// a word. Targets are words from the start of the program. A "set" is the index of a 256-bit set of
// bytes in RegexTables::sets (8 words each); set 0 stands for "nothing is known, don't check".
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace::nf::nids::regex {

enum Op : uint32_t {
    kMatch,          ///< the search ends here
    kLiteral,        ///< (bytes) then the bytes, four a word, the first one lowest
    kLiteralFolded,  ///< the same without regard to the case of A-Z; the bytes are lower case
    kAny,            ///< one byte
    kSet,            ///< (set) one byte of the set
    kRunGreedy,      ///< (set) min, max, next: a run of bytes of the set, the longest first; behind it a byte of `next`
    kRunLazy,        ///< the same, the shortest first
    kRunPossessive,  ///< the same, the longest only
    kJump,           ///< target
    kChoice,         ///< target, set here, set there: goes on here; later, perhaps, at the target
    kChoiceLazy,     ///< the same with the target first
    kStorePosition,  ///< (register) := position
    kCaptureClose,   ///< (register of the start) register that holds the start; the end goes one register higher
    kBackReference,  ///< (register of the start) folded
    kIfUnset,        ///< (register of the start) target: jumps when the group has not matched
    kIfEmpty,        ///< (register) target: jumps when the position is still the register's
    kCounterInit,    ///< (register) := 0
    kCounterNext,    ///< (register) min, max, body, set of body, set of exit, register of kIfEmpty or kNone, lazy
    kAtomicBegin,    ///< (register) := height of the stack
    kAtomicEnd,      ///< (register) drops the choices made since
    kLookBegin,      ///< (register) := height of the stack, the next register := position
    kLookEnd,        ///< (register) drops the choices made since and goes back to the position
    kBranchBegin,    ///< (register) target: like kLookBegin; should what follows fail, goes on at the target
    kNegativeEnd,    ///< (register) undoes all since kBranchBegin and fails
    kBack,           ///< (bytes) steps back
    kSubjectStart,   ///< ^ \A
    kLineStart,      ///< ^ with m
    kSubjectEnd,     ///< \z, $ with E
    kLastLineEnd,    ///< $ \Z
    kLineEnd,        ///< $ with m
    kWordBoundary,   ///< \b
    kNotWordBoundary,  ///< \B
    kSearchStart,      ///< \G
};

inline constexpr uint32_t kNone = 0xffffffffu;       ///< no target, no register
inline constexpr uint32_t kUnlimited = 0xffffffffu;  ///< no upper bound of a repetition
inline constexpr uint32_t kSetWords = 8;

// The header.
inline constexpr uint32_t kHeaderFlags = 0;   ///< below; from bit 8 on the number of registers to reset
inline constexpr uint32_t kHeaderFirst = 1;   ///< set of the bytes that a match can start with
inline constexpr uint32_t kHeaderLeast = 2;   ///< bytes of the shortest match
inline constexpr uint32_t kHeaderBehind = 3;  ///< a start behind a byte of this set need not be tried; 0: all must
inline constexpr uint32_t kHeaderWords = 4;

inline constexpr uint32_t kOnlyAtZero = 1;   ///< starts with ^
inline constexpr uint32_t kOnlyAtStart = 2;  ///< flag A: matches where the search starts or not at all
inline constexpr uint32_t kOnlyAtLines = 4;  ///< starts with ^ under m

/// Steps that one search may take, over all its starts: an instruction is one step, a retreat to a
/// choice another, and sixteen bytes of a run or of skipped starts one more.
inline constexpr uint32_t kStepBudget = 100000;
/// Choices and undo records that can be open at a time; 8 bytes each, in the thread's local memory.
inline constexpr uint32_t kStackEntries = 256;
/// Positions of groups, counters and marks of a program; 4 bytes each, in the thread's local memory.
inline constexpr uint32_t kRegisters = 48;

}  // namespace millrace::nf::nids::regex
