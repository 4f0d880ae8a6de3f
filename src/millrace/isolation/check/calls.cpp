#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "millrace/isolation/check/checker.hpp"

namespace millrace::isolation {
namespace {

using ptx::Function;
using ptx::Operand;
using ptx::Statement;
using ptx::Variable;

/// Parameters of a function and of the calls in it. Their memory is registers and stack of this thread: what is read
/// there without having been written was somebody else's.
class CallCheck {
public:
    CallCheck(const Subject& subject, FunctionPlan& plan) : s_(subject), plan_(plan) {}

    void run() {
        const Function& function = s_.function;
        for (const uint32_t b : plan_.flow.in_order) {
            prepared_.clear();
            stored_result_.clear();
            for (size_t i = plan_.flow.blocks[b].begin; i < plan_.flow.blocks[b].end; ++i) {
                const Statement& statement = function.body[i];
                if (s_.refusals.full()) return;
                if (statement.kind == Statement::Kind::declare) declared(statement);
                if (!statement.is_instruction()) continue;
                if (statement.opcode == "call") call(i, statement);
                else if (statement.opcode == "ret") returned();
                else if (const auto access = access_of(statement); access && access->way == Access::Way::param)
                    parameter(statement, *access);
            }
        }
        plan_.fills_result = !function.results.empty() && fills_result_;
    }

private:
    struct Prepared {
        std::vector<bool> filled;  ///< by byte
        bool passed = false;       ///< an argument of a call that was made
        bool result = false;       ///< of a call that was made
    };

    void refuse(const Statement& statement, const std::string& why, const std::string& mend) {
        s_.refusals.add(s_.function, statement, why, mend);
    }

    void declared(const Statement& statement) {
        constexpr uint64_t kMaxBytes = 4096;
        const Variable& variable = s_.function.variables[statement.index];
        if (variable.bytes() > kMaxBytes)
            s_.refusals.add(
                statement.place,
                fmt::format("'{}' has {} bytes; a call passes at most {}", variable.name, variable.bytes(), kMaxBytes),
                "pass an address");
        else prepared_[statement.index].filled.resize(variable.bytes());
    }

    bool is(const std::vector<uint32_t>& list, uint32_t index) const { return std::ranges::count(list, index) > 0; }

    void parameter(const Statement& statement, const Access& access) {
        const Operand& address = statement.operands[access.operand];
        const Operand& base = address.elements[0];
        if (!base.is(Operand::Kind::own) || s_.function.variables[base.index].space != ptx::Space::param)
            return refuse(statement, "a parameter is reached by its name and nothing else", "name the parameter");
        const Variable& variable = s_.function.variables[base.index];
        const int64_t begin = address.offset, end = begin + access.bytes;
        if (begin < 0 || end > static_cast<int64_t>(variable.bytes()))
            return refuse(statement,
                          fmt::format("it touches bytes {} to {} of '{}', which has {}", begin, end - 1, variable.name,
                                      variable.bytes()),
                          "stay within the parameter");
        if (begin % access.bytes != 0 || variable.aligned_to() % std::min<uint32_t>(access.bytes, 16) != 0)
            return refuse(statement,
                          fmt::format("{} bytes at byte {} of '{}', which is aligned to {}, are misaligned",
                                      access.bytes, begin, variable.name, variable.aligned_to()),
                          "access smaller pieces");
        if (access.writes) stored(statement, base.index, begin, end);
        else loaded(statement, base.index);
    }

    void stored(const Statement& statement, uint32_t index, int64_t begin, int64_t end) {
        if (is(s_.function.results, index)) {
            stored_result_.resize(s_.function.variables[index].bytes());
            if (!statement.guarded) std::fill(stored_result_.begin() + begin, stored_result_.begin() + end, true);
            return;
        }
        const auto found = prepared_.find(index);
        if (found == prepared_.end() || found->second.passed || found->second.result)
            return refuse(statement,
                          "what it stores into is no argument of a call that follows in the same straight line",
                          "declare, fill and pass arguments without a label or branch between");
        if (!statement.guarded)
            std::fill(found->second.filled.begin() + begin, found->second.filled.begin() + end, true);
    }

    void loaded(const Statement& statement, uint32_t index) {
        if (is(s_.function.parameters, index)) return;
        const auto found = prepared_.find(index);
        if (found == prepared_.end() || !found->second.result)
            refuse(statement, "it reads what no call has returned before it in the same straight line",
                   "load results right behind the call");
    }

    void returned() {
        if (s_.function.results.empty()) return;
        stored_result_.resize(s_.function.variables[s_.function.results[0]].bytes());
        fills_result_ &= std::ranges::count(stored_result_, false) == 0;
    }

    void call(size_t at, const Statement& statement) {
        const std::vector<Operand>& operands = statement.operands;
        size_t name = 0;
        while (!operands[name].is(Operand::Kind::function)) ++name;
        const Function& callee = s_.module.functions[operands[name].index];
        if (!callee.defined)
            return refuse(statement, fmt::format("'{}' is not a function of this module", callee.name),
                          "link it in, or do without");
        if (callee.entry) return refuse(statement, "it calls a kernel", "call a function");
        if (statement.guarded)
            return refuse(statement, "a call that some lanes leave out is not read", "branch around the call");
        static const std::vector<Operand> kNone;
        const auto& results = name > 0 ? operands[0].elements : kNone;
        const auto& arguments = name + 1 < operands.size() ? operands[name + 1].elements : kNone;
        if (!matches(statement, callee, results, callee.results) ||
            !matches(statement, callee, arguments, callee.parameters))
            return;
        for (const Operand& argument : arguments) {
            Prepared& prepared = prepared_.at(argument.index);
            prepared.passed = true;
            if (std::ranges::count(prepared.filled, false) > 0) plan_.unfilled.push_back(argument.index);
        }
        for (const Operand& result : results) prepared_.at(result.index).result = true;
        plan_.calls.push_back(at);
    }

    bool matches(const Statement& statement, const Function& callee, const std::vector<Operand>& given,
                 const std::vector<uint32_t>& wanted) {
        bool same = given.size() == wanted.size();
        for (size_t i = 0; same && i < given.size(); ++i) {
            const Variable& a = s_.function.variables[given[i].index];
            const Variable& b = callee.variables[wanted[i]];
            same = a.bytes() == b.bytes() && a.aligned_to() == b.aligned_to() && a.space == ptx::Space::param;
            const auto found = prepared_.find(given[i].index);
            if (found == prepared_.end() || found->second.passed || found->second.result) {
                refuse(statement, fmt::format("'{}' is not declared for this call in the same straight line", a.name),
                       "declare, fill and pass arguments without a label or branch between");
                return false;
            }
        }
        for (size_t i = 0; i < given.size(); ++i)
            for (size_t k = 0; k < i; ++k) same &= given[i].index != given[k].index;
        if (!same)
            refuse(statement, fmt::format("'{}' is defined with other parameters", callee.name),
                   "pass what it is defined with, in the same sizes");
        return same;
    }

    const Subject& s_;
    FunctionPlan& plan_;
    std::unordered_map<uint32_t, Prepared> prepared_;  ///< by own variable, of this block
    std::vector<bool> stored_result_;
    bool fills_result_ = true;
};

/// Depth first along calls.
class CallGraph {
public:
    CallGraph(const ptx::Module& module, const Bounds& bounds, std::vector<FunctionPlan>& plans, Refusals& refusals)
        : module_(module), bounds_(bounds), plans_(plans), refusals_(refusals), depth_(module.functions.size()),
          state_(module.functions.size()) {}

    void run() {
        for (uint32_t f = 0; f < module_.functions.size(); ++f) visit(f, 1);
    }

private:
    /// How many functions deep `f` calls, itself among them; `above`: those that are on the way here.
    uint32_t visit(uint32_t f, uint32_t above) {
        if (state_[f] == done) return depth_[f];
        state_[f] = open;
        uint32_t deepest = 0;
        plans_[f].counted = !plans_[f].flow.loop_heads.empty() || !plans_[f].calls.empty();
        for (const size_t at : plans_[f].calls) {
            const Statement& call = module_.functions[f].body[at];
            const uint32_t callee = callee_of(call);
            plans_[callee].called = true;
            if (state_[callee] == open) {
                refusals_.add(module_.functions[f], call,
                              "the function comes back to itself, and recursion needs a "
                              "stack that nobody can bound",
                              "use a loop");
            } else if (above >= bounds_.call_depth) {
                refusals_.add(module_.functions[f], call,
                              fmt::format("functions call each other more than {} deep", bounds_.call_depth),
                              "have some of them inlined");
            } else {
                deepest = std::max(deepest, visit(callee, above + 1));
                if (deepest + 1 > bounds_.call_depth && refusals_.empty())
                    refusals_.add(module_.functions[f], call,
                                  fmt::format("functions call each other more than {} deep", bounds_.call_depth),
                                  "have some of them inlined");
            }
        }
        state_[f] = done;
        if (!find_costs(module_, f, plans_))
            refusals_.add(module_.functions[f].place,
                          fmt::format("'{}' runs more than {} instructions without coming to a loop",
                                      module_.functions[f].name, kMaxStraightOn),
                          "make a loop of what repeats");
        return depth_[f] = deepest + 1;
    }

    enum : uint8_t { fresh, open, done };
    const ptx::Module& module_;
    const Bounds& bounds_;
    std::vector<FunctionPlan>& plans_;
    Refusals& refusals_;
    std::vector<uint32_t> depth_;
    std::vector<uint8_t> state_;
};

}  // namespace

void check_calls(const Subject& subject, FunctionPlan& plan) { CallCheck(subject, plan).run(); }

void check_call_graph(const ptx::Module& module, const Bounds& bounds, std::vector<FunctionPlan>& plans,
                      Refusals& refusals) {
    CallGraph(module, bounds, plans, refusals).run();
}

void check_variables(const ptx::Module& module, const Bounds& bounds, Refusals& refusals) {
    constexpr uint64_t kMaxBytes = uint64_t{64} << 20;
    uint64_t bytes = 0;
    unsigned blocks_memory = 0;
    for (const Variable& variable : module.variables) {
        bytes += variable.space == ptx::Space::shared ? 0 : variable.bytes();
        if (variable.space == ptx::Space::shared) {
            if (!variable.external || variable.count != 0)
                refusals.add(variable.place,
                             fmt::format("'{}' is in shared memory, where others' bytes may still lie", variable.name),
                             "take the block's memory, which is cleared: extern __shared__ without a size");
            else if (bounds.shared_bytes == 0)
                refusals.add(variable.place,
                             fmt::format("'{}' is the block's memory, and the domain has none of it", variable.name),
                             "ask for some: --shared");
            else if (++blocks_memory > 1)
                refusals.add(variable.place, "the block's memory has two names", "declare it once");
        } else if (variable.external) {
            refusals.add(variable.place, fmt::format("'{}' is a variable of another module", variable.name),
                         "get at it through the tables that the function is handed");
        }
    }
    if (bytes > kMaxBytes)
        refusals.add({1, 1}, fmt::format("the module's variables have {} bytes", bytes),
                     fmt::format("at most {}; tables come by pointers", kMaxBytes));
}

}  // namespace millrace::isolation
