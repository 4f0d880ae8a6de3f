// What instructions are as far as it does not depend on values: worked out once, as threads run them thousands of
// times.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "millrace/isolation/analysis/opcodes.hpp"
#include "millrace/isolation/ptx/module.hpp"

namespace millrace::test::ptx_machine {

struct Context;
/// What an instruction with one register as result makes of its sources.
using Operation = std::function<uint64_t(const Context&)>;

struct Decoded {
    enum class Does : uint8_t {
        ends,
        goes_on,
        calls,
        loads,
        stores,
        exchanges,
        waits,
        moves,
        compares,
        converts,
        computes
    };
    Does does = Does::computes;
    std::vector<isolation::ptx::Type> types;  ///< that it names, in their order
    bool real = false;                        ///< floating point
    isolation::Access access;                 ///< of what reaches memory
    const Operation* operation = nullptr;     ///< null: there is none of this name
};

/// All instructions of a module. It must not change meanwhile; any thread may look.
class Decodings {
public:
    explicit Decodings(const isolation::ptx::Module& module);

    struct Body {
        std::vector<Decoded> statements;
        std::vector<size_t> labels;  ///< where each stands
    };
    const Body& of(const isolation::ptx::Function& function) const {
        return bodies_[static_cast<size_t>(&function - functions_)];
    }

private:
    const isolation::ptx::Function* functions_;
    std::vector<Body> bodies_;
};

}  // namespace millrace::test::ptx_machine
