#include "isolation/interpreter/machine.hpp"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "isolation/interpreter/compute.hpp"
#include "millrace/isolation/ptx/writer.hpp"

namespace millrace::test::ptx_machine {

using isolation::Access;
using isolation::ptx::Space;
using isolation::ptx::Type;
using Kind = isolation::ptx::Operand::Kind;
using Does = Decoded::Does;

namespace {

constexpr uint64_t kGlobals = uint64_t{0x4000} << 32;
constexpr uint64_t kApart = 4096;

}  // namespace

Machine::Machine(const isolation::ptx::Module& module, GlobalMemory& memory, const MachineOptions& options,
                 std::shared_ptr<const Decodings> decodings)
    : module_(module), memory_(memory), options_(options),
      decodings_(decodings != nullptr ? std::move(decodings) : std::make_shared<const Decodings>(module)),
      shared_(0, options.shared_bytes, true) {
    place_variables();
}

void Machine::begin_anew(uint32_t thread) {
    options_.thread = thread;
    shared_ = Region(0, options_.shared_bytes, true);
    if (globals_.empty()) return;  // what is constant is as it was
    globals_.clear();
    constants_.clear();
    places_.clear();
    place_variables();
}

void Machine::place_variables() {
    uint64_t global = kGlobals, constant = kApart;
    for (const Variable& variable : module_.variables) {
        const bool is_constant = variable.space == Space::constant;
        uint64_t& next = is_constant ? constant : global;
        places_.push_back(variable.space == Space::shared ? 0 : next);
        if (variable.space == Space::shared) continue;
        auto& region = (is_constant ? constants_ : globals_)
                           .emplace_back(std::make_unique<Region>(next, variable.bytes(), true));
        region->constant = is_constant;
        next = (next + variable.bytes() + 2 * kApart) & ~(kApart - 1);
        for (size_t i = 0; i < variable.initials.size(); ++i) {
            const auto& initial = variable.initials[i];
            uint64_t value = initial.value;
            if (initial.variable >= 0) value += places_.at(static_cast<size_t>(initial.variable));
            std::memcpy(region->bytes.data() + i * variable.type.bytes(), &value, variable.type.bytes());
        }
    }
}

void Machine::stop(Violation::Kind kind, const std::string& what) const {
    std::string text = what;
    if (frame_ != nullptr && frame_->now != nullptr)
        text += fmt::format(" at line {}: {}", frame_->now->place.line,
                            isolation::ptx::write(module_, frame_->function, *frame_->now));
    throw Stop{{kind, text}};
}

Outcome Machine::run(const std::string& name, const std::vector<uint64_t>& arguments) {
    outcome_ = {};
    for (const Function& function : module_.functions) {
        if (function.name != name || !function.defined) continue;
        Frame frame(function);
        for (size_t i = 0; i < function.parameters.size(); ++i) {
            const uint32_t index = function.parameters[i];
            Region region(0, function.variables[index].bytes(), true);
            if (i < arguments.size())
                std::memcpy(region.bytes.data(), &arguments[i], std::min<size_t>(8, region.bytes.size()));
            frame.parameters.emplace(index, region);
        }
        try {
            call_function(function, frame, 0);
            if (!function.results.empty()) outcome_.result = frame.parameters.at(function.results[0]).bytes;
        } catch (const Stop& stopped) {
            outcome_.violation = stopped.violation;
        }
        locals_.clear();
        local_end_ = 0;
        frame_ = nullptr;
        return outcome_;
    }
    throw std::runtime_error("there is no function " + name);
}

void Machine::call_function(const Function& function, Frame& frame, uint32_t depth) {
    constexpr uint32_t kDeepest = 64;
    if (depth > kDeepest) stop(Violation::Kind::deep, "calls too deep");
    Frame* const before = std::exchange(frame_, &frame);
    for (const uint32_t index : function.results)
        frame.parameters.emplace(index, Region(0, function.variables[index].bytes(), false));
    const size_t locals = locals_.size();
    for (uint32_t i = 0; i < function.variables.size(); ++i) {
        if (function.variables[i].space != Space::local) continue;
        local_end_ += kApart;
        frame.locals[i] = local_end_;
        locals_.push_back(std::make_unique<Region>(local_end_, function.variables[i].bytes(), false));
        local_end_ = (local_end_ + function.variables[i].bytes() + kApart - 1) & ~(kApart - 1);
    }
    const Decodings::Body& body = decodings_->of(function);
    for (size_t at = 0;;) {
        if (at >= function.body.size()) stop(Violation::Kind::outside, "runs beyond the function's end");
        const Decoded& decoded = body.statements[at];
        const Statement& statement = function.body[at++];
        if (statement.kind == Statement::Kind::declare) {
            frame.parameters.insert_or_assign(statement.index,
                                              Region(0, function.variables[statement.index].bytes(), false));
            continue;
        }
        if (!statement.is_instruction()) continue;
        frame.now = &statement;
        if (++outcome_.steps > options_.most_steps) stop(Violation::Kind::endless, "takes too many steps");
        if (statement.guarded) {
            Operand guard;
            guard.kind = Kind::reg;
            guard.index = statement.guard;
            if ((value(frame, guard) != 0) == statement.guard_negated) continue;
        }
        if (decoded.does == Does::ends) break;
        if (decoded.does == Does::goes_on) at = body.labels.at(statement.operands[0].index);
        else if (decoded.does == Does::calls) call(frame, statement, depth);
        else step(frame, statement, decoded);
    }
    for (const uint32_t index : function.results)
        for (const bool written : frame.parameters.at(index).written)
            if (!written && options_.checks_unset) stop(Violation::Kind::unset, "returns what it never wrote");
    locals_.resize(locals);
    frame_ = before;
}

void Machine::call(Frame& frame, const Statement& statement, uint32_t depth) {
    size_t name = 0;
    while (!statement.operands[name].is(Kind::function)) ++name;
    const Function& callee = module_.functions[statement.operands[name].index];
    Frame inner(callee);
    if (name + 1 < statement.operands.size())
        for (size_t i = 0; i < callee.parameters.size(); ++i)
            inner.parameters.emplace(callee.parameters[i],
                                     frame.parameters.at(statement.operands[name + 1].elements.at(i).index));
    call_function(callee, inner, depth + 1);
    if (name > 0)
        frame.parameters.at(statement.operands[0].elements.at(0).index) = inner.parameters.at(callee.results.at(0));
}

void Machine::step(Frame& frame, const Statement& statement, const Decoded& decoded) {
    switch (decoded.does) {
        case Does::loads: return load(frame, statement, decoded);
        case Does::stores: return store(frame, statement, decoded);
        case Does::exchanges: return exchange(frame, statement, decoded);
        case Does::waits: return;
        case Does::moves: return move(frame, statement, decoded);
        case Does::compares: return set_predicates(frame, statement, decoded);
        case Does::converts: return convert_address(frame, statement);
        default: break;
    }
    in_.clear();
    for (size_t i = 1; i < statement.operands.size(); ++i) in_.push_back(value(frame, statement.operands[i]));
    write(frame, statement.operands[0], compute(statement, decoded, in_));
}

void Machine::move(Frame& frame, const Statement& statement, const Decoded& decoded) {
    const Operand& to = statement.operands[0];
    const Operand& from = statement.operands[1];
    const unsigned bits = decoded.types.at(0).bits;
    uint64_t whole = 0;
    if (from.is(Kind::vector)) {
        const auto part = static_cast<unsigned>(bits / from.elements.size());
        for (size_t i = 0; i < from.elements.size(); ++i)
            whole |= low_bits(value(frame, from.elements[i]), part) << part * i;
    } else {
        whole = value(frame, from);
    }
    if (!to.is(Kind::vector)) return write(frame, to, low_bits(whole, bits));
    const auto part = static_cast<unsigned>(bits / to.elements.size());
    for (size_t i = 0; i < to.elements.size(); ++i) write(frame, to.elements[i], low_bits(whole >> part * i, part));
}

void Machine::set_predicates(Frame& frame, const Statement& statement, const Decoded& decoded) {
    in_.clear();
    for (const size_t source : {1, 2}) in_.push_back(value(frame, statement.operands[source]));
    const bool holds = compute(statement, decoded, in_);
    bool first = holds, second = !holds;
    if (statement.operands.size() > 3) {
        const bool other = value(frame, statement.operands[3]) != 0;
        const auto joined = [&](bool one) {
            return statement.has("and") ? one && other : statement.has("or") ? one || other : one != other;
        };
        first = joined(first);
        second = joined(second);
    }
    const Operand& to = statement.operands[0];
    write(frame, to.is(Kind::pair) ? to.elements[0] : to, first);
    if (to.is(Kind::pair)) write(frame, to.elements[1], second);
}

void Machine::convert_address(Frame& frame, const Statement& statement) {
    uint64_t base = 0;
    if (statement.has("shared")) base = kGenericShared;
    else if (statement.has("local")) base = kGenericLocal;
    else if (statement.has("const")) base = kGenericConstant;
    const uint64_t from = value(frame, statement.operands[1]);
    if (statement.opcode == "cvta") {
        write(frame, statement.operands[0], statement.has("to") ? from - base : from + base);
    } else {
        const bool own = in_4_gib(from, kGenericShared) || in_4_gib(from, kGenericLocal) ||
                         in_4_gib(from, kGenericConstant);
        write(frame, statement.operands[0], base == 0 ? !own : in_4_gib(from, base));
    }
}

uint64_t Machine::special(const std::string& name) const {
    if (name == "%tid.x") return options_.thread;
    if (name == "%ntid.x") return options_.threads;
    if (name == "%ctaid.x") return options_.block;
    if (name == "%nctaid.x") return options_.blocks;
    if (name == "%laneid") return options_.thread % 32;
    const uint64_t bit = uint64_t{1} << options_.thread % 32;
    if (name == "%lanemask_eq") return bit;
    if (name == "%lanemask_lt") return bit - 1;
    if (name == "%lanemask_le") return bit | (bit - 1);
    if (name == "%lanemask_gt") return low_bits(~(bit | (bit - 1)), 32);
    if (name == "%lanemask_ge") return low_bits(~(bit - 1), 32);
    return name.starts_with("%n") ? 1 : 0;
}

uint64_t Machine::address_of(Frame& frame, const Operand& operand) const {
    const uint64_t begin = operand.is(Kind::own) ? frame.locals.at(operand.index) : places_.at(operand.index);
    return begin + static_cast<uint64_t>(operand.offset);
}

uint64_t Machine::value(Frame& frame, const Operand& operand) {
    switch (operand.kind) {
        case Kind::reg: {
            if (!frame.set[operand.index] && options_.checks_unset)
                stop(Violation::Kind::unset,
                     fmt::format("reads register {} that nothing wrote", frame.function.registers[operand.index].name));
            const uint64_t held = frame.registers[operand.index];
            return operand.negated ? held == 0 : held;
        }
        case Kind::integer:
        case Kind::real32:
        case Kind::real64: return operand.value;
        case Kind::special: return special(operand.text);
        case Kind::variable:
        case Kind::own: return address_of(frame, operand);
        default: throw UnknownInstruction("an operand without a value");
    }
}

void Machine::write(Frame& frame, const Operand& operand, uint64_t value) {
    if (operand.is(Kind::sink)) return;
    if (!operand.is(Kind::reg)) throw UnknownInstruction("a result that is no register");
    frame.registers[operand.index] = low_bits(value, frame.function.registers[operand.index].type.bits);
    frame.set[operand.index] = true;
}

}  // namespace millrace::test::ptx_machine
