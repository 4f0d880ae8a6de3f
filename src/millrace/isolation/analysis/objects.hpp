// Which variable the address in a register comes from. Addresses that come from none are somebody's pointers, and those
// are fenced into the window; addresses of a function's own variables stay within these.
#pragma once

#include "millrace/isolation/analysis/flow.hpp"

namespace millrace::isolation {

/// A variable, of the module or of the function.
struct Object {
    bool own = false;
    uint32_t index = 0;
    friend bool operator==(const Object&, const Object&) = default;
};

/// Where a register's value comes from, on all ways together.
struct Origin {
    enum class Kind : uint8_t {
        unset,
        constant,  ///< numbers of the text
        number,    ///< anything: a pointer that came from outside, too
        object,    ///< an address in `object`
        mixed,     ///< in an object on one way, and anything or in another one on the next
    };
    Kind kind = Kind::unset;
    bool generic = false;  ///< of an object: as a generic address
    Object object;
    friend bool operator==(const Origin&, const Origin&) = default;
};

struct Origins {
    std::vector<Origin> of;  ///< by register
    /// By register: whether it always holds the same distance from its object's begin, and which. Such a register has
    /// one definition.
    std::vector<bool> fixed;
    std::vector<int64_t> distance;
    std::vector<size_t> defined_at;  ///< statement, of those that are fixed
    /// Whether `reg`'s fixed distance holds at a statement.
    bool holds_at(const Flow& flow, uint32_t reg, size_t statement) const;
};

Origins origins_of(const ptx::Function& function, const Flow& flow);

const ptx::Variable& variable_of(const ptx::Module& module, const ptx::Function& function, Object object);

}  // namespace millrace::isolation
