#include "millrace/isolation/ptx/writer.hpp"

#include <fmt/format.h>

#include <map>

namespace millrace::isolation::ptx {
namespace {

const char* space_name(Space space) {
    switch (space) {
        case Space::global: return "global";
        case Space::constant: return "const";
        case Space::shared: return "shared";
        case Space::local: return "local";
        case Space::param: return "param";
    }
    return "";
}

/// Whether a register keeps its name: one that compilers give, and that PTX has for nothing else.
bool is_usual(const std::string& name) {
    if (name.starts_with("%fence_") || name == "%SP" || name == "%SPL") return true;
    size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    const std::string stem = name.substr(0, digits);
    for (const char* usual : {"%p", "%rs", "%r", "%rd", "%f", "%fd"})
        if (stem == usual && digits < name.size()) return true;
    return false;
}

std::string register_name(const Function& function, uint32_t index) {
    const std::string& name = function.registers[index].name;
    return is_usual(name) ? name : fmt::format("%x{}", index);
}

std::string declaration(const Variable& variable) {
    std::string text = fmt::format(".{} ", space_name(variable.space));
    if (variable.alignment != 0) text += fmt::format(".align {} ", variable.alignment);
    text += fmt::format(".{} {}", type_name(variable.type), variable.name);
    if (variable.array) text += variable.count == 0 ? "[]" : fmt::format("[{}]", variable.count);
    return text;
}

class Writer {
public:
    explicit Writer(const Module& module) : module_(module) {}

    std::string all() {
        text_ = fmt::format(".version {}\n.target {}\n.address_size 64\n\n", module_.version, module_.target);
        for (const Variable& variable : module_.variables) module_variable(variable);
        for (const Function& function : module_.functions)
            if (!function.entry) text_ += head(function) + ";\n";
        for (const Function& function : module_.functions)
            if (function.defined) body(function);
        return std::move(text_);
    }

    std::string line(const Function& function, const Statement& statement) {
        std::string text;
        if (statement.guarded)
            text += fmt::format("@{}{} ", statement.guard_negated ? "!" : "", register_name(function, statement.guard));
        text += statement.full_opcode();
        for (size_t i = 0; i < statement.operands.size(); ++i)
            text += (i == 0 ? " " : ", ") + operand(function, statement.operands[i]);
        return text + ";";
    }

private:
    void module_variable(const Variable& variable) {
        text_ += (variable.external ? ".extern " : "") + declaration(variable);
        if (!variable.initials.empty()) {
            text_ += variable.array ? " = {" : " = ";
            for (size_t i = 0; i < variable.initials.size(); ++i)
                text_ += (i == 0 ? "" : ", ") + initial(variable, variable.initials[i]);
            if (variable.array) text_ += "}";
        }
        text_ += ";\n";
    }

    std::string initial(const Variable& variable, const Initial& value) const {
        if (value.variable >= 0) {
            const std::string& name = module_.variables[static_cast<size_t>(value.variable)].name;
            std::string text = value.generic ? fmt::format("generic({})", name) : name;
            if (value.value != 0) text += fmt::format("+{}", value.value);
            return text;
        }
        if (value.real_bits)
            return variable.type.bits == 64 ? fmt::format("0d{:016X}", value.value)
                                            : fmt::format("0f{:08X}", value.value & 0xffffffffu);
        return fmt::format("{}", static_cast<int64_t>(value.value));
    }

    std::string parameter_list(const Function& function, const std::vector<uint32_t>& indices) const {
        std::string text = "(";
        for (size_t i = 0; i < indices.size(); ++i)
            text += (i == 0 ? "" : ", ") + declaration(function.variables[indices[i]]);
        return text + ")";
    }

    std::string head(const Function& function) const {
        std::string text = function.visible ? ".visible " : "";
        text += function.entry ? ".entry " : ".func ";
        if (!function.results.empty()) text += parameter_list(function, function.results) + " ";
        text += function.name + parameter_list(function, function.parameters);
        for (const std::string& directive : function.directives) text += " " + directive;
        return text;
    }

    void body(const Function& function) {
        text_ += "\n" + head(function) + "\n{\n";
        std::map<std::string, std::string> by_type;
        for (uint32_t i = 0; i < function.registers.size(); ++i) {
            std::string& list = by_type[type_name(function.registers[i].type)];
            list += (list.empty() ? " " : ", ") + register_name(function, i);
        }
        for (const auto& [type, list] : by_type) text_ += fmt::format("\t.reg .{}{};\n", type, list);
        for (const Variable& variable : function.variables)
            if (variable.space != Space::param) text_ += fmt::format("\t{};\n", declaration(variable));
        for (const Statement& statement : function.body) {
            switch (statement.kind) {
                case Statement::Kind::open: text_ += "\t{\n"; break;
                case Statement::Kind::close: text_ += "\t}\n"; break;
                case Statement::Kind::label: text_ += fmt::format("$fence_{}:\n", statement.index); break;
                case Statement::Kind::declare:
                    text_ += fmt::format("\t{};\n", declaration(function.variables[statement.index]));
                    break;
                case Statement::Kind::instruction: text_ += "\t" + line(function, statement) + "\n"; break;
            }
        }
        text_ += "}\n";
    }

    std::string group(const Function& function, const Operand& whole, const char* begin, const char* end) const {
        std::string text = begin;
        for (size_t i = 0; i < whole.elements.size(); ++i)
            text += (i == 0 ? "" : ", ") + operand(function, whole.elements[i]);
        return text + end;
    }

    std::string operand(const Function& function, const Operand& o) const {
        using Kind = Operand::Kind;
        const std::string offset = o.offset == 0 ? "" : fmt::format("+{}", o.offset);
        switch (o.kind) {
            case Kind::none: return "";
            case Kind::reg: return (o.negated ? "!" : "") + register_name(function, o.index);
            case Kind::integer: return fmt::format("{}", static_cast<int64_t>(o.value));
            case Kind::real32: return fmt::format("0f{:08X}", o.value);
            case Kind::real64: return fmt::format("0d{:016X}", o.value);
            case Kind::special: return o.text;
            case Kind::variable: return module_.variables[o.index].name + offset;
            case Kind::own: return function.variables[o.index].name + offset;
            case Kind::function: return module_.functions[o.index].name;
            case Kind::label: return fmt::format("$fence_{}", o.index);
            case Kind::sink: return "_";
            case Kind::vector: return group(function, o, "{", "}");
            case Kind::list: return group(function, o, "(", ")");
            case Kind::pair: return operand(function, o.elements[0]) + "|" + operand(function, o.elements[1]);
            case Kind::address: return "[" + operand(function, o.elements[0]) + offset + "]";
        }
        return "";
    }

    const Module& module_;
    std::string text_;
};

}  // namespace

std::string write(const Module& module) { return Writer(module).all(); }

std::string write(const Module& module, const Function& function, const Statement& statement) {
    return Writer(module).line(function, statement);
}

}  // namespace millrace::isolation::ptx
