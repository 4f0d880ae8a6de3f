// The blocks of a function, which of them follow which, and where it goes in circles.
#pragma once

#include "millrace/isolation/analysis/opcodes.hpp"

namespace millrace::isolation {

/// Statements that run one after the other.
struct Block {
    size_t begin = 0, end = 0;  ///< of the function's statements
    std::vector<uint32_t> next, before;
    bool reached = false;
    uint32_t order = 0;  ///< in reverse postorder, of those that are reached
};

struct Flow {
    std::vector<Block> blocks;
    std::vector<uint32_t> in_order;  ///< blocks that are reached, in reverse postorder
    /// Blocks that a back edge leads to: every circle has at least one of them.
    std::vector<uint32_t> loop_heads;
    /// The end of the function can be reached without a `ret`; that statement, or the first.
    bool falls_off = false;
    std::vector<uint32_t> block_of;  ///< by statement
    /// By block: the block through which every way to it goes last; -1: it is not reached.
    std::vector<int32_t> dominator;
    std::vector<uint32_t> tree_begin, tree_end;  ///< by block: the blocks below it in the tree of dominators
    /// Whether every way to `b` goes through `a`; both are reached.
    bool dominates(uint32_t a, uint32_t b) const {
        return tree_begin[a] <= tree_begin[b] && tree_end[b] <= tree_end[a];
    }
};

/// Of a function whose instructions are all of the list.
Flow flow_of(const ptx::Function& function);

/// By register: whether some way reads it before anything wrote it. Where that would take long to find out, true of
/// all.
std::vector<bool> read_before_written(const ptx::Function& function, const Flow& flow);

}  // namespace millrace::isolation
