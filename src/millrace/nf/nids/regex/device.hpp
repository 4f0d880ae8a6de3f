// Searches packet bytes for a compiled regular expression: a backtracking machine without recursion
// and without allocation, the same code on CPU and GPU.
//
// A thread needs kStackEntries * 8 + kRegisters * 4 bytes of local memory (2,240). All functions are
// inlined: call regex_search from one place of a device half. All lanes of a packet call it: each steps through the
// program, and they share the runs over many bytes.
#pragma once

#include "millrace/nf/nids/regex/bytecode.hpp"
#include "millrace/nf/nids/scan.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::nids::regex {

/// The programs and their sets of bytes: a member of the Tables of an NF, filled by RegexSet::attach.
struct RegexTables {
    View<uint32_t> code;
    View<uint32_t> sets;
};

/// `limit`: the step budget or the stack was spent. The same bytes give the same result on every device.
enum class RegexResult : uint8_t { no_match, match, limit };

namespace detail {

MILLRACE_DEVICE uint8_t fold(uint8_t byte) {
    return static_cast<uint8_t>(byte >= 'A' && byte <= 'Z' ? byte + ('a' - 'A') : byte);
}
MILLRACE_DEVICE bool is_word(uint8_t byte) {
    return (byte >= '0' && byte <= '9') || (fold(byte) >= 'a' && fold(byte) <= 'z') || byte == '_';
}

/// A choice to return to or a register's former value. The top four bits of `what` are the kind.
struct Entry {
    uint32_t what, value;
};

/// The state of one search, but for what is reached by a computed index: on a GPU that lies in memory, and all that is
/// of one object with it would, too. `pc` counts words from the start of the program.
template <class Lanes>
struct Machine {
    static constexpr uint32_t kKindShift = 28;
    static constexpr uint32_t kOperand = (1u << kKindShift) - 1;
    static constexpr uint32_t kUndoLook = 4;  ///< entries that `restorable` looks at
    enum Kind : uint32_t { kChoiceEntry, kUndoEntry, kGreedyEntry, kLazyEntry, kBoundEntry };

    const uint8_t* data;
    uint32_t bytes;
    uint32_t search_start;
    const uint32_t* code;  ///< of the program
    const uint32_t* sets;
    uint32_t pc = 0;
    uint32_t position = 0;
    uint32_t height = 0;
    uint32_t budget = kStepBudget;
    bool overflow = false;
    uint32_t* registers = nullptr;  ///< kRegisters
    Entry* stack = nullptr;         ///< kStackEntries
    Lanes lanes{};

    MILLRACE_DEVICE bool in_set(uint32_t set, uint8_t byte) const {
        return (sets[set * kSetWords + (byte >> 5)] >> (byte & 31)) & 1;
    }
    /// Whether what follows at `at` can match, as far as the next byte tells.
    MILLRACE_DEVICE bool admits(uint32_t set, uint32_t at) const {
        return set == 0 || (at < bytes && in_set(set, data[at]));
    }

    MILLRACE_DEVICE void spend(uint32_t steps) { budget = budget > steps ? budget - steps : 0; }

    MILLRACE_DEVICE void push(Kind kind, uint32_t operand, uint32_t value) {
        if (height == kStackEntries) {
            overflow = true;
            return;
        }
        stack[height].what = (static_cast<uint32_t>(kind) << kKindShift) | operand;
        stack[height].value = value;
        ++height;
    }
    /// Whether going back to the latest choice restores the register already, as far as the top of the
    /// stack shows. With no choice open, there is nowhere to go back to.
    MILLRACE_DEVICE bool restorable(uint32_t index) const {
        for (uint32_t i = height; i > 0 && height - i < kUndoLook; --i) {
            if (stack[i - 1].what >> kKindShift != kUndoEntry) return false;
            if ((stack[i - 1].what & kOperand) == index) return true;
        }
        return height == 0;
    }
    /// Changes a register such that going back restores it.
    MILLRACE_DEVICE void store(uint32_t index, uint32_t value) {
        if (!restorable(index)) push(kUndoEntry, index, registers[index]);
        registers[index] = value;
    }
    /// Forgets the choices above `mark`, but not the former values of registers.
    MILLRACE_DEVICE void cut(uint32_t mark) {
        uint32_t kept = mark;
        for (uint32_t i = mark; i < height; ++i)
            if (stack[i].what >> kKindShift == kUndoEntry) stack[kept++] = stack[i];
        spend((height - mark) / 16);
        height = mark == 0 ? 0 : kept;
    }
    /// Undoes everything above `mark`.
    MILLRACE_DEVICE void unwind(uint32_t mark) {
        spend((height - mark) / 16);
        while (height > mark) {
            const Entry entry = stack[--height];
            if (entry.what >> kKindShift == kUndoEntry) registers[entry.what & kOperand] = entry.value;
        }
    }

    /// Ends a greedy run at the last place in [least, at] from which the rest may match.
    MILLRACE_DEVICE bool settle_greedy(uint32_t run, uint32_t at, uint32_t least) {
        const uint32_t next = code[run + 3];
        const uint32_t tries = at - least + 1;
        const uint32_t back = first_where(lanes, 0, tries, [&](uint32_t k) { return admits(next, at - k); });
        spend(smaller(back, tries - 1) / 16);
        if (back == tries) return false;
        at -= back;
        if (at > least) {
            push(kBoundEntry, 0, least);
            push(kGreedyEntry, run, at);
        }
        position = at;
        pc = run + 4;
        return true;
    }
    /// Ends a lazy run at the first place in [at, most] from which the rest may match.
    MILLRACE_DEVICE bool settle_lazy(uint32_t run, uint32_t at, uint32_t most) {
        const uint32_t set = code[run] >> 8, next = code[run + 3];
        const uint32_t from = at;
        at = first_where(lanes, at, most, [&](uint32_t k) { return admits(next, k) || !in_set(set, data[k]); });
        spend((at - from) / 16);
        if (!admits(next, at)) return false;
        if (at < most && in_set(set, data[at])) {
            push(kBoundEntry, 0, most);
            push(kLazyEntry, run, at);
        }
        position = at;
        pc = run + 4;
        return true;
    }

    /// Returns to the latest choice; false when there is none.
    MILLRACE_DEVICE bool retreat() {
        while (height > 0) {
            const Entry entry = stack[--height];
            const uint32_t kind = entry.what >> kKindShift, operand = entry.what & kOperand;
            spend(1);
            if (kind == kChoiceEntry) {
                pc = operand;
                position = entry.value;
                return true;
            }
            if (kind == kUndoEntry) {
                registers[operand] = entry.value;
                continue;
            }
            // A run: its bound lies below it.
            const uint32_t bound = stack[--height].value;
            if (kind == kGreedyEntry) {
                if (settle_greedy(operand, entry.value - 1, bound)) return true;
            } else if (settle_lazy(operand, entry.value + 1, bound)) {
                return true;
            }
        }
        return false;
    }

    MILLRACE_DEVICE bool literal(uint32_t count, bool folded) {
        if (bytes - position < count) return false;
        for (uint32_t i = 0; i < count; ++i) {
            const uint8_t wanted = static_cast<uint8_t>(code[pc + 1 + (i >> 2)] >> (8 * (i & 3)));
            const uint8_t byte = data[position + i];
            if ((folded ? fold(byte) : byte) != wanted) return false;
        }
        position += count;
        pc += 1 + (count + 3) / 4;
        return true;
    }

    MILLRACE_DEVICE bool run(uint32_t op, uint32_t set) {
        const uint32_t least = code[pc + 1], most = code[pc + 2];
        const uint32_t start = position;
        if (bytes - start < least) return false;
        const uint32_t most_end = bytes - start < most ? bytes : start + most;
        // A lazy run goes to its least here and further in settle_lazy.
        const uint32_t end = op == kRunLazy ? start + least : most_end;
        const uint32_t at = first_where(lanes, start, end, [&](uint32_t k) { return !in_set(set, data[k]); });
        spend((at - start) / 16);
        if (at - start < least) return false;
        if (op == kRunLazy) return settle_lazy(pc, at, most_end);
        return settle_greedy(pc, at, op == kRunPossessive ? at : start + least);
    }

    /// Goes on at `preferred`, keeping `other` for later, unless the next byte rules one of them out.
    MILLRACE_DEVICE bool choose(uint32_t preferred, uint32_t preferred_set, uint32_t other, uint32_t other_set) {
        const bool other_may = admits(other_set, position);
        if (!admits(preferred_set, position)) {
            pc = other;
            return other_may;
        }
        if (other_may) push(kChoiceEntry, other, position);
        pc = preferred;
        return true;
    }

    MILLRACE_DEVICE bool counter_next(uint32_t index) {
        const uint32_t least = code[pc + 1], most = code[pc + 2], body = code[pc + 3];
        const uint32_t body_set = code[pc + 4], exit_set = code[pc + 5];
        const uint32_t empty = code[pc + 6], lazy = code[pc + 7], exit = pc + 8;
        const uint32_t count = registers[index] + 1;
        if (count < least) {
            store(index, count);
            pc = body;
            return true;
        }
        const bool idle = empty != kNone && registers[empty] == position;
        if (idle || count >= most) {
            pc = exit;
            return true;
        }
        // Beyond the least, only a bounded repetition needs its count.
        if (most != kUnlimited) store(index, count);
        return lazy != 0 ? choose(exit, exit_set, body, body_set) : choose(body, body_set, exit, exit_set);
    }

    MILLRACE_DEVICE bool back_reference(uint32_t start, bool folded) {
        if (registers[start + 1] == kNone) return false;
        const uint32_t from = registers[start], count = registers[start + 1] - from;
        if (bytes - position < count) return false;
        for (uint32_t i = 0; i < count; ++i) {
            const uint8_t a = data[from + i], b = data[position + i];
            if (a != b && !(folded && fold(a) == fold(b))) return false;
        }
        spend(count / 16);
        position += count;
        pc += 2;
        return true;
    }

    MILLRACE_DEVICE bool assertion(uint32_t op) const {
        const bool at_end = position == bytes;
        switch (op) {
            case kSubjectStart: return position == 0;
            case kLineStart: return position == 0 || (!at_end && data[position - 1] == '\n');
            case kSubjectEnd: return at_end;
            case kLastLineEnd: return at_end || (position + 1 == bytes && data[position] == '\n');
            case kLineEnd: return at_end || data[position] == '\n';
            case kSearchStart: return position == search_start;
            default: break;
        }
        const bool before = position > 0 && is_word(data[position - 1]);
        const bool after = !at_end && is_word(data[position]);
        return (before != after) == (op == kWordBoundary);
    }

    /// Begins a lookaround or an atomic group, which has no use for the position.
    MILLRACE_DEVICE void look_begin(uint32_t index) {
        registers[index] = height;
        registers[index + 1] = position;
    }

    /// The instructions that end or guard a lookaround or an atomic group, open and close groups.
    MILLRACE_DEVICE bool control(uint32_t op, uint32_t operand) {
        switch (op) {
            case kCaptureClose:
                if (code[pc + 1] != operand) store(operand, registers[code[pc + 1]]);
                store(operand + 1, position);
                pc += 2;
                return true;
            case kIfUnset: pc = registers[operand + 1] == kNone ? code[pc + 1] : pc + 2; return true;
            case kIfEmpty: pc = registers[operand] == position ? code[pc + 1] : pc + 2; return true;
            case kLookEnd: position = registers[operand + 1]; [[fallthrough]];
            case kAtomicEnd:
                cut(registers[operand]);
                pc += 1;
                return true;
            case kBranchBegin:
                look_begin(operand);
                push(kChoiceEntry, code[pc + 1], position);
                pc += 2;
                return true;
            case kNegativeEnd: unwind(registers[operand]); return false;
            case kBack:
                if (position < operand) return false;
                position -= operand;
                pc += 1;
                return true;
            default:
                if (!assertion(op)) return false;
                pc += 1;
                return true;
        }
    }

    /// Carries out the instruction at `pc`; false when it doesn't match.
    MILLRACE_DEVICE bool step(uint32_t op, uint32_t operand) {
        switch (op) {
            case kLiteral: return literal(operand, false);
            case kLiteralFolded: return literal(operand, true);
            case kAny:
            case kSet:
                if (position == bytes || (op == kSet && !in_set(operand, data[position]))) return false;
                ++position;
                ++pc;
                return true;
            case kRunGreedy:
            case kRunLazy:
            case kRunPossessive: return run(op, operand);
            case kJump: pc = code[pc + 1]; return true;
            case kChoice: return choose(pc + 4, code[pc + 2], code[pc + 1], code[pc + 3]);
            case kChoiceLazy: return choose(code[pc + 1], code[pc + 3], pc + 4, code[pc + 2]);
            case kStorePosition:
                store(operand, position);
                ++pc;
                return true;
            case kCounterInit:
                store(operand, 0);
                ++pc;
                return true;
            case kCounterNext: return counter_next(operand);
            case kBackReference: return back_reference(operand, code[pc + 1] != 0);
            case kAtomicBegin:
            case kLookBegin:
                look_begin(operand);
                ++pc;
                return true;
            default: return control(op, operand);
        }
    }

    /// Tries to match at `start`; on a match `position` is its end.
    MILLRACE_DEVICE RegexResult match_at(uint32_t start) {
        for (uint32_t i = 0; i < code[kHeaderFlags] >> 8; ++i) registers[i] = kNone;
        pc = kHeaderWords;
        position = start;
        height = 0;
        while (true) {
            const uint32_t word = code[pc];
            if ((word & 0xff) == kMatch) return RegexResult::match;
            spend(1);
            if (budget == 0) return RegexResult::limit;
            if (!step(word & 0xff, word >> 8) && !overflow && !retreat()) return RegexResult::no_match;
            if (overflow) return RegexResult::limit;
        }
    }

    /// The first place from `at` on where a match can start; kNone when there is none.
    MILLRACE_DEVICE uint32_t next_start(uint32_t at) {
        const uint32_t flags = code[kHeaderFlags], first = code[kHeaderFirst];
        const uint32_t least = code[kHeaderLeast], behind = code[kHeaderBehind];
        if ((flags & kOnlyAtZero) != 0 && at != 0) return kNone;
        if (bytes < least || at > bytes - least) return kNone;
        // One place alone where it is tied to its start.
        const uint32_t end = (flags & kOnlyAtZero) != 0    ? 1
                             : (flags & kOnlyAtStart) != 0 ? search_start + 1
                                                           : bytes - least + 1;
        const uint32_t found = first_where(lanes, at, end, [&](uint32_t k) {
            if ((flags & kOnlyAtLines) != 0 && k != 0 && data[k - 1] != '\n') return false;
            return admits(first, k) && (behind == 0 || k == search_start || !in_set(behind, data[k - 1]));
        });
        if (found >= end) return kNone;
        spend((found - at) / 16);
        return found;
    }
};

}  // namespace detail

/// Searches data[0, bytes) for the program at `program` (its offset in `tables.code`), the first place
/// being `start`; what lies before `start` is there for lookbehind, \b and ^. A match is the one that
/// Perl finds: the leftmost, and of these the first in the order of alternatives. On a match `*match_end`
/// is the offset behind it; else it is left alone.
template <class Lanes = millrace::Lanes<1>>
MILLRACE_DEVICE RegexResult regex_search(const uint8_t* data, uint32_t bytes, uint32_t start, uint32_t program,
                                         const RegexTables& tables, uint32_t* match_end, Lanes lanes = {}) {
    uint32_t registers[kRegisters];
    detail::Entry stack[kStackEntries];
    detail::Machine<Lanes> machine;
    machine.registers = registers;
    machine.stack = stack;
    machine.lanes = lanes;
    machine.data = data;
    machine.bytes = bytes;
    machine.search_start = start;
    machine.code = tables.code.data() + program;
    machine.sets = tables.sets.data();
    for (uint32_t at = start; (at = machine.next_start(at)) != kNone; ++at) {
        const RegexResult result = machine.match_at(at);
        if (result == RegexResult::match) *match_end = machine.position;
        if (result != RegexResult::no_match) return result;
    }
    return RegexResult::no_match;
}

}  // namespace millrace::nf::nids::regex
