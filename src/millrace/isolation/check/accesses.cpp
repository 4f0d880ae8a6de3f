#include <fmt/format.h>

#include "millrace/isolation/check/checker.hpp"

namespace millrace::isolation {
namespace {

using ptx::Operand;
using ptx::Space;
using ptx::Statement;
using Way = Access::Way;

const char* name_of(Space space) {
    switch (space) {
        case Space::global: return "global";
        case Space::constant: return "constant";
        case Space::shared: return "shared";
        case Space::local: return "local";
        case Space::param: return "parameter";
    }
    return "";
}

class AccessCheck {
public:
    AccessCheck(const Subject& subject, FunctionPlan& plan)
        : s_(subject), plan_(plan), origins_(origins_of(subject.function, plan.flow)) {}

    void run() {
        for (const uint32_t b : plan_.flow.in_order)
            for (size_t i = plan_.flow.blocks[b].begin; i < plan_.flow.blocks[b].end; ++i)
                if (s_.function.body[i].is_instruction() && !s_.refusals.full()) check(i);
    }

private:
    void refuse(const std::string& why, const std::string& mend) {
        s_.refusals.add(s_.function, *statement_, why, mend);
    }

    void check(size_t at) {
        statement_ = &s_.function.body[at];
        const auto access = access_of(*statement_);
        if (!access) return;
        check_stored_values(*access);
        AccessPlan made;
        made.statement = at;
        made.access = *access;
        if (access->way == Way::param) return;  // check_calls
        const Operand& address = statement_->operands[access->operand];
        if (plan(made, address)) plan_.accesses.push_back(made);
    }

    /// What leaves a register by a store must not be an address that only means something here.
    void check_stored_values(const Access& access) {
        if (!access.writes) return;
        for (size_t i = access.operand + 1; i < statement_->operands.size(); ++i)
            for_each_read(statement_->operands[i], [&](uint32_t r) {
                const Origin& origin = origins_.of[r];
                if (origin.kind == Origin::Kind::mixed)
                    return refuse(
                        "it stores what is a variable's address on one way and not on another, and whoever "
                        "loads it gets a generic address that nothing resolves",
                        "store an index in place of an address");
                if (origin.kind != Origin::Kind::object) return;
                const ptx::Variable& variable = variable_of(s_.module, s_.function, origin.object);
                refuse(fmt::format("the address of {} variable '{}' is stored, and whoever loads it gets a generic "
                                   "address that nothing resolves",
                                   name_of(variable.space), variable.name),
                       access.way == Way::param ? "have the called function inlined, or pass the values"
                                                : "store an index in place of an address");
            });
    }

    bool plan(AccessPlan& made, const Operand& address) {
        const Operand& base = address.elements[0];
        switch (base.kind) {
            case Operand::Kind::variable: return plan_direct(made, {false, base.index}, address.offset);
            case Operand::Kind::own: return plan_direct(made, {true, base.index}, address.offset);
            case Operand::Kind::integer: return plan_number(made);
            case Operand::Kind::reg: return plan_register(made, base.index, address.offset);
            default:
                refuse("its address is neither a register nor a variable", "write [register+offset]");
                return false;
        }
    }

    bool plan_direct(AccessPlan& made, Object object, int64_t offset) {
        if (made.access.way == Way::generic) {
            refuse("a variable is named without its state space", "write .global, .const, .shared or .local");
            return false;
        }
        return same_space(made, object, false) && within(made, object, offset);
    }

    bool plan_number(AccessPlan& made) {
        if (made.access.way == Way::generic || made.access.way == Way::global) {
            made.kind = AccessPlan::Kind::window;
            return true;
        }
        refuse("its address is a number", "name a variable");
        return false;
    }

    bool plan_register(AccessPlan& made, uint32_t reg, int64_t offset) {
        const Origin& origin = origins_.of[reg];
        const ptx::Type type = s_.function.registers[reg].type;
        const bool wide = made.access.way == Way::generic || made.access.way == Way::global;
        if (type.kind == ptx::Type::Kind::real || type.kind == ptx::Type::Kind::predicate ||
            (type.bits != 64 && (wide || type.bits != 32))) {
            refuse("its address is in a register of the wrong size", "addresses have 64 bits");
            return false;
        }
        if (origin.kind == Origin::Kind::mixed) {
            refuse("its generic address is not resolved: on one way it is a variable's, on another it is not",
                   "load by one pointer for each, or copy what is pointed to into one variable");
            return false;
        }
        if (origin.kind != Origin::Kind::object) return plan_pointer(made);
        if (!same_space(made, origin.object, origin.generic)) return false;
        if (origins_.fixed[reg] && origins_.holds_at(plan_.flow, reg, made.statement))
            return within(made, origin.object, origins_.distance[reg] + offset);
        made.kind = AccessPlan::Kind::object;
        made.object = origin.object;
        made.generic = origin.generic;
        return large_enough(made);
    }

    /// A pointer that came from outside; or, in a space of the thread's own, one of which nothing else is known.
    bool plan_pointer(AccessPlan& made) {
        if (made.access.way == Way::generic || made.access.way == Way::global) {
            made.kind = AccessPlan::Kind::window;
            return true;
        }
        const Space space = made.access.way == Way::shared     ? Space::shared
                            : made.access.way == Way::constant ? Space::constant
                                                               : Space::local;
        const auto only = only_object(space);
        if (!only) {
            refuse(fmt::format("nothing says which {} variable its address is in", name_of(space)),
                   "compute the address from the variable's, in this function");
            return false;
        }
        made.kind = AccessPlan::Kind::object;
        made.object = *only;
        return large_enough(made);
    }

    std::optional<Object> only_object(Space space) const {
        std::optional<Object> found;
        for (const bool own : {false, true}) {
            const auto& variables = own ? s_.function.variables : s_.module.variables;
            for (uint32_t i = 0; i < variables.size(); ++i) {
                if (variables[i].space != space) continue;
                if (found) return std::nullopt;
                found = Object{own, i};
            }
        }
        return found;
    }

    uint64_t bytes_of(Object object) const {
        const ptx::Variable& variable = variable_of(s_.module, s_.function, object);
        return variable.count == 0 ? s_.bounds.shared_bytes : variable.bytes();
    }

    bool same_space(const AccessPlan& made, Object object, bool generic) {
        const ptx::Variable& variable = variable_of(s_.module, s_.function, object);
        const Space space = variable.space;
        const bool atomic = made.access.reads && made.access.writes;
        if (space == Space::param) {
            refuse("a parameter is not reached by ld.param or st.param", "write .param");
            return false;
        }
        if (made.access.writes && space == Space::constant) {
            refuse(fmt::format("'{}' is constant", variable.name), "declare it .global");
            return false;
        }
        if (atomic && space == Space::local) {
            refuse("local memory has no atomic accesses", "load and store: nobody else sees it");
            return false;
        }
        // Generic and global addresses of the same byte are the same number.
        const bool fits = space == Space::global ? made.access.way == Way::global || made.access.way == Way::generic
                          : made.access.way == Way::generic ? generic
                                                            : !generic && way_of(space) == made.access.way;
        if (!fits)
            refuse(fmt::format("an address of {} variable '{}' is used as one of another space", name_of(space),
                               variable.name),
                   "convert it with cvta, or name its space");
        return fits;
    }

    static Way way_of(Space space) {
        return space == Space::shared ? Way::shared : space == Space::local ? Way::local : Way::constant;
    }

    bool within(AccessPlan& made, Object object, int64_t distance) {
        const ptx::Variable& variable = variable_of(s_.module, s_.function, object);
        const auto bytes = static_cast<int64_t>(bytes_of(object));
        if (distance < 0 || distance + made.access.bytes > bytes) {
            refuse(fmt::format("it touches bytes {} to {} of {} variable '{}', which has {}", distance,
                               distance + made.access.bytes - 1, name_of(variable.space), variable.name, bytes),
                   variable.count == 0 ? "ask for more of the block's memory: --shared"
                                       : "stay within it, or declare it larger");
            return false;
        }
        if (distance % made.access.bytes != 0) {
            refuse(fmt::format("{} bytes at distance {} are misaligned", made.access.bytes, distance),
                   "access smaller pieces");
            return false;
        }
        made.kind = AccessPlan::Kind::proven;
        made.object = object;
        return true;
    }

    bool large_enough(const AccessPlan& made) {
        if (bytes_of(made.object) >= made.access.bytes) return true;
        const ptx::Variable& variable = variable_of(s_.module, s_.function, made.object);
        refuse(fmt::format("{} bytes do not lie in {} variable '{}', which has {}", made.access.bytes,
                           name_of(variable.space), variable.name, bytes_of(made.object)),
               "access smaller pieces, or declare it larger");
        return false;
    }

    const Subject& s_;
    FunctionPlan& plan_;
    const Origins origins_;
    const Statement* statement_ = nullptr;
};

}  // namespace

void check_accesses(const Subject& subject, FunctionPlan& plan) { AccessCheck(subject, plan).run(); }

}  // namespace millrace::isolation
