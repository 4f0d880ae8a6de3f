// Says of PTX whether a domain may run it, and what the rewriter has to fence. Needs no GPU.
#pragma once

#include "millrace/base/text/diagnostic.hpp"
#include "millrace/isolation/analysis/objects.hpp"

namespace millrace::isolation {

struct Bounds {
    uint32_t shared_bytes = 0;     ///< of the block's memory that the domain gets; 0: none
    uint32_t local_bytes = 16384;  ///< a function's own variables, together
    uint32_t call_depth = 16;      ///< functions that call each other
    size_t most_refusals = 50;     ///< that are told
};

/// What has to be done about an access.
struct AccessPlan {
    enum class Kind : uint8_t {
        proven,  ///< always within its variable
        window,  ///< by a pointer that came from outside
        object,  ///< somewhere in `object`, which it must not leave
    };
    size_t statement = 0;
    Access access;
    Kind kind = Kind::proven;
    Object object;
    bool generic = false;  ///< the address of `object` is a generic one
};

struct FunctionPlan {
    Flow flow;
    std::vector<AccessPlan> accesses;           ///< by statement
    std::vector<uint32_t> read_before_written;  ///< registers
    std::vector<size_t> calls;                  ///< statements
    std::vector<uint32_t> unfilled;             ///< own variables: arguments of calls with bytes that nothing stores
    bool fills_result = false;                  ///< every way stores the whole result just before it returns
    bool counted = false;                       ///< has loops or calls, and so a budget
    /// Most instructions from where it begins, and from each head of a loop, to the next head or to the end; those of
    /// called functions that are not counted themselves are among them.
    uint32_t entry_cost = 0;
    std::vector<uint32_t> head_costs;  ///< in the order of flow.loop_heads
    bool called = false;               ///< by a function of the module
};

struct Verdict {
    std::vector<Diagnostic> refusals;  ///< empty: it may run, when it is fenced
    std::vector<FunctionPlan> plans;   ///< by function; empty of those without a body

    bool sound() const { return refusals.empty(); }
};

Verdict verify(const ptx::Module& module, const Bounds& bounds = {});

}  // namespace millrace::isolation
