#include <fmt/format.h>

#include <unordered_set>

#include "millrace/isolation/ptx/parser.hpp"

namespace millrace::isolation::ptx {
namespace {

using Kind = Operand::Kind;

/// Reads what stands between the braces of a function. Names of inner braces get names of their own, so that the
/// function needs no braces to be understood.
class BodyReader {
public:
    BodyReader(Words& words, const ModuleNames& names, Function& function, const Limits& limits, size_t& statements)
        : words_(words), names_(names), function_(function), limits_(limits), statements_(statements) {}

    void read() {
        words_.expect_mark('{', "before the statements of a function");
        open();
        for (uint32_t i = 0; i < function_.variables.size(); ++i) {
            scopes_[0].names[function_.variables[i].name] = {Kind::own, i};
            taken_.insert(function_.variables[i].name);
        }
        while (!path_.empty()) statement();
        resolve_labels();
    }

private:
    struct Entity {
        Kind kind = Kind::none;
        uint32_t index = 0;
    };
    struct Scope {
        int parent = -1;
        std::unordered_map<std::string, Entity> names;
        std::unordered_map<std::string, uint32_t> labels;
    };
    struct Reference {
        size_t statement;
        int scope;
        std::string name;
        Place place;
    };

    void open() {
        if (path_.size() >= limits_.depth) words_.fail_here("braces too deep");
        scopes_.push_back({path_.empty() ? -1 : path_.back(), {}, {}});
        path_.push_back(static_cast<int>(scopes_.size() - 1));
    }

    Statement& add(Statement::Kind kind, Place place) {
        if (++statements_ > limits_.statements) words_.fail(place, "more statements than are read");
        Statement& made = function_.body.emplace_back();
        made.kind = kind;
        made.place = place;
        made.source_file = source_file_;
        made.source_line = source_line_;
        return made;
    }

    void statement() {
        const Token now = words_.now();
        if (now.kind == Token::Kind::end) words_.fail_here("a function without an end", "close it with }");
        if (words_.take_mark('{')) {
            open();
            add(Statement::Kind::open, now.place);
        } else if (words_.take_mark('}')) {
            path_.pop_back();
            if (!path_.empty()) add(Statement::Kind::close, now.place);
        } else if (words_.take_mark(';')) {
            // An empty statement.
        } else if (now.kind == Token::Kind::dotted) {
            directive();
        } else if (now.kind == Token::Kind::word && words_.then().is_mark(':')) {
            label();
        } else {
            instruction();
        }
    }

    void directive() {
        const Token word = words_.take();
        if (word.text == "reg") return registers();
        if (word.text == "loc") return location();
        if (word.text == "pragma") {
            words_.expect(Token::Kind::string, "a pragma's text");
            return words_.expect_mark(';', "behind a pragma");
        }
        if (word.text == "local") return variables(Space::local);
        if (word.text == "shared") return variables(Space::shared);
        if (word.text == "param") return variables(Space::param);
        if (word.text == "branchtargets" || word.text == "calltargets" || word.text == "callprototype")
            words_.fail(word.place,
                        fmt::format("'.{}' serves indirect branches and calls, which are not permitted", word.text),
                        "branch to labels and call functions by name");
        words_.fail(word.place, fmt::format("'.{}' is not understood in a function", word.text));
    }

    void location() {
        source_file_ = static_cast<uint32_t>(words_.expect(Token::Kind::integer, "a file's number").value);
        source_line_ = static_cast<uint32_t>(words_.expect(Token::Kind::integer, "a line").value);
        words_.expect(Token::Kind::integer, "a column");
        while (words_.take_mark(',')) {
            const Token what = words_.expect(Token::Kind::word, "function_name or inlined_at");
            if (what.text == "function_name") {
                words_.expect(Token::Kind::word, "a label");
                if (words_.take_mark('+')) words_.expect(Token::Kind::integer, "an offset");
            } else if (what.text == "inlined_at") {
                for (int i = 0; i < 3; ++i) words_.expect(Token::Kind::integer, "a place");
            } else {
                words_.fail(what.place, fmt::format("'{}' is not understood in .loc", what.text));
            }
        }
    }

    std::string unique(const std::string& name) {
        std::string made = name;
        for (uint32_t n = 1; !taken_.insert(made).second; ++n) made = fmt::format("{}_{}", name, n);
        return made;
    }

    void declare(const Token& name, const std::string& text, Entity entity) {
        if (!scopes_[path_.back()].names.emplace(text, entity).second)
            words_.fail(name.place, fmt::format("'{}' is declared twice", text));
    }

    void registers() {
        Type type;
        const Token word = words_.expect(Token::Kind::dotted, "a type");
        if (!parse_type(word.text, type) || type.bits == 8)
            words_.fail(word.place, fmt::format("no register is of '.{}'", word.text));
        do {
            const Token name = words_.expect(Token::Kind::word, "the name of a register");
            words_.check_name(name);
            if (!words_.take_mark('<')) {
                one_register(name, std::string(name.text), type);
                continue;
            }
            const Token count = words_.expect(Token::Kind::integer, "how many registers");
            words_.expect_mark('>', "behind how many registers");
            if (count.value == 0 || count.value > limits_.registers)
                words_.fail(count.place, "so many registers are not read");
            for (uint64_t i = 0; i < count.value; ++i) one_register(name, fmt::format("{}{}", name.text, i), type);
        } while (words_.take_mark(','));
        words_.expect_mark(';', "behind registers");
    }

    void one_register(const Token& name, const std::string& text, Type type) {
        if (function_.registers.size() >= limits_.registers) words_.fail(name.place, "more registers than are read");
        declare(name, text, {Kind::reg, static_cast<uint32_t>(function_.registers.size())});
        function_.registers.push_back({unique(text), type, name.place});
    }

    void variables(Space space) {
        do {
            const Token name = words_.now();
            Variable variable = read_declaration(words_, space);
            if (variable.count == 0) words_.fail(variable.place, fmt::format("'{}' has no size", variable.name));
            const auto index = static_cast<uint32_t>(function_.variables.size());
            declare(name, variable.name, {Kind::own, index});
            variable.name = unique(variable.name);
            function_.variables.push_back(std::move(variable));
            if (space == Space::param) add(Statement::Kind::declare, name.place).index = index;
        } while (words_.take_mark(','));
        words_.expect_mark(';', "behind a declaration");
    }

    void label() {
        const Token name = words_.take();
        words_.take();
        words_.check_name(name);
        const uint32_t index = function_.labels++;
        if (!scopes_[path_.back()].labels.emplace(std::string(name.text), index).second)
            words_.fail(name.place, fmt::format("label '{}' stands twice", name.text));
        add(Statement::Kind::label, name.place).index = index;
    }

    void resolve_labels() {
        for (const Reference& reference : references_) {
            Operand& operand = function_.body[reference.statement].operands[0];
            int scope = reference.scope;
            while (scope >= 0 && !scopes_[scope].labels.contains(reference.name)) scope = scopes_[scope].parent;
            if (scope < 0)
                words_.fail(reference.place, fmt::format("there is no label '{}' in this function", reference.name));
            operand.index = scopes_[scope].labels.at(reference.name);
        }
    }

    const Entity* find(const std::string& name) const {
        for (int scope = path_.back(); scope >= 0; scope = scopes_[scope].parent) {
            const auto found = scopes_[scope].names.find(name);
            if (found != scopes_[scope].names.end()) return &found->second;
        }
        return nullptr;
    }

    void instruction() {
        Statement made;
        made.place = words_.now().place;
        if (words_.take_mark('@')) {
            made.guarded = true;
            made.guard_negated = words_.take_mark('!');
            const Operand guard = operand();
            if (!guard.is(Kind::reg) || function_.registers[guard.index].type.kind != Type::Kind::predicate)
                words_.fail(made.place, "what stands behind @ must be a predicate");
            made.guard = guard.index;
        }
        made.opcode = words_.expect(Token::Kind::word, "an instruction").text;
        while (words_.now().kind == Token::Kind::dotted) made.modifiers.emplace_back(words_.take().text);
        if (made.opcode == "bra" && words_.now().kind == Token::Kind::word &&
            find(std::string(words_.now().text)) == nullptr) {
            const Token name = words_.take();
            references_.push_back({function_.body.size(), path_.back(), std::string(name.text), name.place});
            Operand target;
            target.kind = Kind::label;
            made.operands.push_back(target);
        } else if (!words_.now().is_mark(';')) {
            do made.operands.push_back(operand());
            while (words_.take_mark(','));
        }
        words_.expect_mark(';', fmt::format("behind '{}'", made.opcode.substr(0, 40)));
        Statement& kept = add(Statement::Kind::instruction, made.place);
        made.source_file = kept.source_file;
        made.source_line = kept.source_line;
        kept = std::move(made);
    }

    Operand group(char end, Kind kind, size_t most) {
        Operand made;
        made.kind = kind;
        const Place place = words_.take().place;
        if (words_.take_mark(end)) return made;
        do {
            if (made.elements.size() >= most) words_.fail(place, "a group of more operands than are read");
            made.elements.push_back(simple());
        } while (words_.take_mark(','));
        words_.expect_mark(end, "behind a group of operands");
        return made;
    }

    Operand operand() {
        const Token& now = words_.now();
        if (now.is_mark('{')) return group('}', Kind::vector, 8);
        if (now.is_mark('(')) return group(')', Kind::list, 256);
        if (now.is_mark('[')) return address();
        Operand made = simple();
        if (!words_.take_mark('|')) return made;
        Operand both;
        both.kind = Kind::pair;
        both.elements = {made, simple()};
        return both;
    }

    Operand address() {
        words_.take();
        Operand made;
        made.kind = Kind::address;
        made.elements.push_back(simple());
        Operand& base = made.elements[0];
        made.offset = base.offset;
        base.offset = 0;
        while (words_.now().is_mark('+')) {
            words_.take();
            const Token place = words_.now();
            const auto more = static_cast<int64_t>(words_.expect_integer("an offset"));
            if (more > INT32_MAX || more < INT32_MIN || made.offset > INT32_MAX || made.offset < INT32_MIN)
                words_.fail(place.place, "an offset has 32 bits");
            made.offset += more;
        }
        words_.expect_mark(']', "behind an address");
        return made;
    }

    Operand simple() {
        Operand made;
        const Token now = words_.now();
        if (words_.take_mark('!')) {
            made = named();
            made.negated = true;
            return made;
        }
        if (now.kind == Token::Kind::real32 || now.kind == Token::Kind::real64) {
            made.kind = now.kind == Token::Kind::real32 ? Kind::real32 : Kind::real64;
            made.value = words_.take().value;
            return made;
        }
        if (now.kind == Token::Kind::integer || now.is_mark('-')) {
            made.kind = Kind::integer;
            made.value = words_.expect_integer("a number");
            return made;
        }
        return named();
    }

    Operand named() {
        const Token name = words_.expect(Token::Kind::word, "an operand");
        const std::string text(name.text);
        Operand made;
        if (text == "_") {
            made.kind = Kind::sink;
            return made;
        }
        if (const Entity* entity = find(text)) {
            made.kind = entity->kind;
            made.index = entity->index;
        } else if (const auto variable = names_.variables.find(text); variable != names_.variables.end()) {
            made.kind = Kind::variable;
            made.index = variable->second;
        } else if (const auto called = names_.functions.find(text); called != names_.functions.end()) {
            made.kind = Kind::function;
            made.index = called->second;
        } else if (text[0] == '%') {
            made.kind = Kind::special;
            made.text = text;
            if (words_.now().kind == Token::Kind::dotted) made.text += fmt::format(".{}", words_.take().text);
            return made;
        } else {
            words_.fail(name.place, fmt::format("'{}' is declared nowhere", text));
        }
        const bool addressable = made.is(Kind::variable) || made.is(Kind::own);
        if (addressable && words_.now().is_mark('+') && words_.then().kind == Token::Kind::integer) {
            words_.take();
            made.offset = static_cast<int64_t>(words_.take().value);
            if (made.offset > INT32_MAX || made.offset < 0) words_.fail(name.place, "an offset has 32 bits");
        }
        return made;
    }

    Words& words_;
    const ModuleNames& names_;
    Function& function_;
    const Limits& limits_;
    size_t& statements_;
    std::vector<Scope> scopes_;
    std::vector<int> path_;
    std::unordered_set<std::string> taken_;
    std::vector<Reference> references_;
    uint32_t source_file_ = 0, source_line_ = 0;
};

}  // namespace

void read_body(Words& words, const ModuleNames& names, Function& function, const Limits& limits, size_t& statements) {
    BodyReader(words, names, function, limits, statements).read();
}

}  // namespace millrace::isolation::ptx
