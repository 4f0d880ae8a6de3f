#include "millrace/isolation/analysis/objects.hpp"

namespace millrace::isolation {
namespace {

using ptx::Operand;
using ptx::Statement;
using Kind = Origin::Kind;

class Tracker {
public:
    Tracker(const ptx::Function& function, const Flow& flow) : function_(function), flow_(flow) {
        origins_.of.resize(function.registers.size());
        origins_.fixed.resize(function.registers.size());
        origins_.distance.resize(function.registers.size());
        origins_.defined_at.resize(function.registers.size());
    }

    Origins run() {
        // Each register's origin only ever rises, so this ends; a function made to take long gets no answer.
        constexpr int kMaxPasses = 200;
        int passes = 0;
        while (pass())
            if (++passes == kMaxPasses) {
                origins_.of.assign(origins_.of.size(), mixed());
                return std::move(origins_);
            }
        find_fixed();
        return std::move(origins_);
    }

private:
    template <class F>
    void for_each_compute(F&& f) const {
        for (const uint32_t b : flow_.in_order)
            for (size_t i = flow_.blocks[b].begin; i < flow_.blocks[b].end; ++i)
                if (function_.body[i].is_instruction()) f(i, function_.body[i], *find_opcode(function_.body[i].opcode));
    }

    bool pass() {
        bool changed = false;
        for_each_compute([&](size_t, const Statement& statement, const Opcode& opcode) {
            if (opcode.effect == Effect::compute && simple_result(statement)) {
                changed |= raise(statement.operands[0].index, result_of(statement));
            } else {
                for_each_written(statement, opcode, [&](uint32_t r) { changed |= raise(r, number()); });
            }
        });
        return changed;
    }

    static bool simple_result(const Statement& statement) { return statement.operands[0].is(Operand::Kind::reg); }
    static Origin number() { return {Kind::number, false, {}}; }
    static Origin mixed() { return {Kind::mixed, false, {}}; }

    static Origin join(const Origin& a, const Origin& b) {
        if (a.kind == Kind::unset || a == b) return b;
        if (b.kind == Kind::unset) return a;
        // A pointer that is null until it points to something.
        if (a.kind == Kind::constant) return b;
        if (b.kind == Kind::constant) return a;
        return mixed();
    }

    bool raise(uint32_t reg, const Origin& origin) {
        const Origin joined = join(origins_.of[reg], origin);
        if (joined == origins_.of[reg]) return false;
        origins_.of[reg] = joined;
        return true;
    }

    Origin of(const Operand& operand) const {
        switch (operand.kind) {
            case Operand::Kind::reg: return origins_.of[operand.index];
            case Operand::Kind::variable: return {Kind::object, false, {false, operand.index}};
            case Operand::Kind::own: return {Kind::object, false, {true, operand.index}};
            case Operand::Kind::integer: return {Kind::constant, false, {}};
            default: return number();
        }
    }

    /// A sum keeps the object of its one address.
    static Origin sum(const Origin& a, const Origin& b) {
        if (a.kind == Kind::unset || b.kind == Kind::unset) return {};
        const bool first = a.kind == Kind::object, second = b.kind == Kind::object;
        if (a.kind == Kind::mixed || b.kind == Kind::mixed) return mixed();
        if (first && second) return number();
        if (first) return a;
        if (second) return b;
        return number();
    }

    Origin result_of(const Statement& s) const {
        const auto operand = [&](size_t i) { return of(s.operands[i]); };
        if (s.opcode == "mov") return operand(1);
        if (s.opcode == "cvta") return converted(s, operand(1));
        if (s.opcode == "cvt") {
            const Origin from = operand(1);
            // Half of a generic address says nothing.
            return from.kind == Kind::object && from.generic && !keeps_width(s) ? number() : from;
        }
        if (s.opcode == "add" || s.opcode == "or") return sum(operand(1), operand(2));
        if (s.opcode == "sub") {
            const Origin taken = operand(2);
            if (taken.kind == Kind::unset) return {};
            return taken.kind == Kind::object ? number() : sum(operand(1), taken);
        }
        if (s.opcode == "and") return sum(operand(1), operand(2));
        if (s.opcode == "mad" && !s.has("hi")) return mad(operand(1), operand(2), operand(3));
        if (s.opcode == "selp" || s.opcode == "slct") return join(operand(1), operand(2));
        return number();
    }

    static Origin mad(const Origin& a, const Origin& b, const Origin& c) {
        if (a.kind == Kind::object || b.kind == Kind::object) return number();
        return sum(number(), c);
    }

    static bool keeps_width(const Statement& s) {
        ptx::Type to, from;
        return s.modifiers.size() >= 2 && ptx::parse_type(s.modifiers[s.modifiers.size() - 2], to) &&
               ptx::parse_type(s.modifiers.back(), from) && to.bits == from.bits;
    }

    static Origin converted(const Statement& s, Origin from) {
        if (from.kind == Kind::object) from.generic = !s.has("to");
        return from;
    }

    // --- distances that are always the same ---

    void find_fixed() {
        std::vector<uint8_t> definitions(function_.registers.size());
        for_each_compute([&](size_t, const Statement& s, const Opcode& opcode) {
            for_each_written(s, opcode, [&](uint32_t r) {
                definitions[r] = static_cast<uint8_t>(definitions[r] + (definitions[r] < 2 ? 1 : 0));
            });
        });
        // What a definition reads was defined in a block before it, or it is not fixed: one pass in order is enough.
        for_each_compute([&](size_t i, const Statement& s, const Opcode& opcode) {
            if (opcode.effect != Effect::compute || !simple_result(s) || s.guarded) return;
            const uint32_t reg = s.operands[0].index;
            if (definitions[reg] != 1 || origins_.of[reg].kind != Kind::object) return;
            int64_t distance = 0;
            if (!fixed_distance(i, s, distance)) return;
            origins_.fixed[reg] = true;
            origins_.distance[reg] = distance;
            origins_.defined_at[reg] = i;
        });
    }

    bool fixed_operand(size_t at, const Operand& operand, int64_t& distance) const {
        if (operand.is(Operand::Kind::variable) || operand.is(Operand::Kind::own)) {
            distance = operand.offset;
            return true;
        }
        if (!operand.is(Operand::Kind::reg) || !origins_.fixed[operand.index] ||
            !origins_.holds_at(flow_, operand.index, at))
            return false;
        distance = origins_.distance[operand.index];
        return true;
    }

    bool fixed_distance(size_t at, const Statement& s, int64_t& distance) const {
        if (!s.has("u64") && !s.has("s64") && !s.has("b64")) return false;
        if (s.opcode == "mov" || s.opcode == "cvta") return fixed_operand(at, s.operands[1], distance);
        if (s.opcode != "add" || s.has("sat")) return false;
        const Operand& second = s.operands[2];
        if (!second.is(Operand::Kind::integer) || !fixed_operand(at, s.operands[1], distance)) return false;
        const auto more = static_cast<int64_t>(second.value);
        constexpr int64_t kFar = int64_t{1} << 40;
        if (more > kFar || more < -kFar || distance > kFar || distance < -kFar) return false;
        distance += more;
        return true;
    }

    const ptx::Function& function_;
    const Flow& flow_;
    Origins origins_;
};

}  // namespace

bool Origins::holds_at(const Flow& flow, uint32_t reg, size_t statement) const {
    const uint32_t from = flow.block_of[defined_at[reg]], to = flow.block_of[statement];
    return from == to ? defined_at[reg] < statement : flow.dominates(from, to);
}

Origins origins_of(const ptx::Function& function, const Flow& flow) { return Tracker(function, flow).run(); }

const ptx::Variable& variable_of(const ptx::Module& module, const ptx::Function& function, Object object) {
    return object.own ? function.variables[object.index] : module.variables[object.index];
}

}  // namespace millrace::isolation
