#include "millrace/isolation/ptx/reader.hpp"

#include <fmt/format.h>

#include "millrace/isolation/ptx/parser.hpp"

namespace millrace::isolation::ptx {
namespace {

/// Reads what stands outside of functions.
class ModuleReader {
public:
    ModuleReader(std::string_view text, const std::string& file, const Limits& limits)
        : words_(text, file, limits.reserved_names), limits_(limits) {
        module_.file = file;
    }

    Module read() {
        while (words_.now().kind != Token::Kind::end) statement();
        check_heading();
        check_own_names();
        return std::move(module_);
    }

private:
    struct Linking {
        bool visible = false, external = false;
    };

    void statement() {
        const Token word = words_.expect(Token::Kind::dotted, "a directive");
        if (word.text == "version") return version(word);
        if (word.text == "target") return target(word);
        if (word.text == "address_size") return address_size();
        if (word.text == "file") return source_file();
        if (word.text == "section") return section();
        if (word.text == "pragma") return pragma();
        if (word.text == "alias")
            words_.fail(word.place, "a second name of a function is not permitted", "call it by its own name");
        Linking linking;
        Token kind = word;
        for (;; kind = words_.expect(Token::Kind::dotted, "a declaration")) {
            if (kind.text == "visible") linking.visible = true;
            else if (kind.text == "extern") linking.external = true;
            else if (kind.text != "weak" && kind.text != "common") break;
        }
        if (kind.text == "entry" || kind.text == "func") return function(kind.text == "entry", linking);
        Space space;
        if (kind.text == "global") space = Space::global;
        else if (kind.text == "const") space = Space::constant;
        else if (kind.text == "shared") space = Space::shared;
        else words_.fail(kind.place, fmt::format("'.{}' is not understood outside of functions", kind.text));
        variable(space, linking);
    }

    void version(const Token& word) {
        if (!module_.version.empty()) words_.fail(word.place, ".version stands twice");
        const Token major = words_.expect(Token::Kind::integer, "a version");
        const Token minor = words_.expect(Token::Kind::dotted, "a version with a dot");
        module_.version = fmt::format("{}.{}", major.value, minor.text);
        if (minor.text.find_first_not_of("0123456789") != std::string_view::npos || minor.text.size() > 2)
            words_.fail(minor.place, "a version is a number such as 9.0");
        if (major.value < 7 || major.value > 9)
            words_.fail(major.place, fmt::format("PTX {} is not known", module_.version), "versions 7.0 to 9.x are");
    }

    void target(const Token& word) {
        if (!module_.target.empty()) words_.fail(word.place, ".target stands twice");
        const Token name = words_.expect(Token::Kind::word, "an architecture such as sm_90");
        module_.target = name.text;
        if (!name.text.starts_with("sm_") || name.text.size() < 5 || name.text.size() > 7)
            words_.fail(name.place, fmt::format("'{}' is no architecture such as sm_90", name.text));
        while (words_.take_mark(',')) {
            const Token option = words_.expect(Token::Kind::word, "an option of .target");
            if (option.text != "debug") words_.fail(option.place, fmt::format("'{}' is not permitted", option.text));
        }
    }

    void address_size() {
        const Token size = words_.expect(Token::Kind::integer, "64");
        if (size.value != 64) words_.fail(size.place, "addresses must have 64 bits", "write .address_size 64");
        sized_ = true;
    }

    void source_file() {
        const uint64_t number = words_.expect(Token::Kind::integer, "a number").value;
        const Token name = words_.expect(Token::Kind::string, "the name of a file");
        module_.sources.emplace_back(static_cast<uint32_t>(number), std::string(name.text));
        while (words_.take_mark(',')) words_.expect(Token::Kind::integer, "a number");
    }

    /// Debugger's data: nothing of it is kept.
    void section() {
        words_.expect(Token::Kind::dotted, "a section's name");
        words_.expect_mark('{', "behind a section's name");
        while (!words_.now().is_mark('}')) {
            if (words_.now().kind == Token::Kind::end || words_.now().is_mark('{'))
                words_.fail_here("a section without an end");
            words_.take();
        }
        words_.take();
    }

    void pragma() {
        words_.expect(Token::Kind::string, "a pragma's text");
        words_.expect_mark(';', "behind a pragma");
    }

    void variable(Space space, Linking linking) {
        do {
            Variable made = read_declaration(words_, space);
            made.external = linking.external;
            const auto index = static_cast<uint32_t>(module_.variables.size());
            name_variable(made, index);
            if (words_.take_mark('=')) {
                initialise(made);
                if (made.count == 0) made.count = made.initials.size();
            }
            if (made.count == 0 && !(space == Space::shared && linking.external))
                words_.fail(made.place, fmt::format("'{}' has no size", made.name));
            if (made.initials.size() > made.count)
                words_.fail(made.place, fmt::format("'{}' has {} elements and {} values", made.name, made.count,
                                                    made.initials.size()));
            module_.variables.push_back(std::move(made));
        } while (words_.take_mark(','));
        words_.expect_mark(';', "behind a declaration");
    }

    void name_variable(const Variable& variable, uint32_t index) {
        if (names_.functions.contains(variable.name) || !names_.variables.emplace(variable.name, index).second)
            words_.fail(variable.place, fmt::format("'{}' is declared twice", variable.name));
    }

    void initialise(Variable& variable) {
        if (variable.space == Space::shared)
            words_.fail(variable.place, "a block's memory has no values to begin with");
        if (!words_.now().is_mark('{')) return initial(variable);
        unsigned depth = 0;
        do {
            if (words_.take_mark('{')) {
                if (++depth > 8) words_.fail_here("braces too deep");
            } else if (words_.take_mark('}')) {
                --depth;
                if (depth > 0) words_.take_mark(',');
            } else {
                initial(variable);
                if (!words_.now().is_mark('}')) words_.expect_mark(',', "between values");
            }
        } while (depth > 0);
    }

    void initial(Variable& variable) {
        if (++initials_ > limits_.initials) words_.fail_here("more values than are read");
        Initial made;
        const Token& now = words_.now();
        if (now.kind == Token::Kind::real32 || now.kind == Token::Kind::real64) {
            made.real_bits = true;
            made.value = words_.take().value;
        } else if (now.kind == Token::Kind::word) {
            if (now.text == "generic" && words_.then().is_mark('(')) {
                made.generic = true;
                words_.take();
                words_.take();
            }
            const Token name = words_.expect(Token::Kind::word, "the name of a variable");
            const auto found = names_.variables.find(std::string(name.text));
            if (found == names_.variables.end())
                words_.fail(name.place, fmt::format("there is no variable '{}' before this", name.text));
            made.variable = static_cast<int32_t>(found->second);
            if (made.generic) words_.expect_mark(')', "behind a variable");
            if (words_.take_mark('+')) made.value = words_.expect_integer("an offset");
        } else {
            made.value = words_.expect_integer("a value");
        }
        variable.initials.push_back(made);
    }

    std::vector<uint32_t> parameters(Function& made, const char* what) {
        std::vector<uint32_t> indices;
        words_.expect_mark('(', "before parameters");
        if (words_.take_mark(')')) return indices;
        do {
            if (words_.now().is_dotted("reg"))
                words_.fail_here(fmt::format("{} in a register is not read", what), "pass it as .param");
            if (!words_.take_dotted("param")) words_.fail_here(fmt::format("expected .param of {}", what));
            Variable variable = read_declaration(words_, Space::param);
            if (variable.count == 0) words_.fail(variable.place, fmt::format("{} has no size", what));
            for (const Variable& other : made.variables)
                if (other.name == variable.name)
                    words_.fail(variable.place, fmt::format("'{}' is declared twice", variable.name));
            indices.push_back(static_cast<uint32_t>(made.variables.size()));
            made.variables.push_back(std::move(variable));
        } while (words_.take_mark(','));
        words_.expect_mark(')', "behind parameters");
        return indices;
    }

    void function(bool entry, Linking linking) {
        Function made;
        made.entry = entry;
        made.visible = linking.visible || entry;
        if (!entry && words_.now().is_mark('(')) made.results = parameters(made, "a result");
        if (made.results.size() > 1) words_.fail_here("a function has at most one result");
        const Token name = words_.expect(Token::Kind::word, "the name of a function");
        words_.check_symbol(name);
        made.name = name.text;
        made.place = name.place;
        if (words_.now().is_mark('(')) made.parameters = parameters(made, "a parameter");
        while (words_.now().kind == Token::Kind::dotted) directive(made);
        const size_t index = place_function(made);
        Function& kept = module_.functions[index];
        if (words_.take_mark(';')) return;
        if (kept.defined) words_.fail(name.place, fmt::format("'{}' is defined twice", made.name));
        // Parameters go by the names that the definition gives them.
        made.visible |= kept.visible;
        kept = std::move(made);
        kept.defined = true;
        read_body(words_, names_, kept, limits_, statements_);
    }

    void directive(Function& made) {
        const Token word = words_.take();
        if (word.text == "noreturn")
            words_.fail(word.place, "a function that does not return is not permitted", "let it return");
        if (!made.entry ||
            (word.text != "maxntid" && word.text != "reqntid" && word.text != "minnctapersm" && word.text != "maxnreg"))
            words_.fail(word.place, fmt::format("'.{}' is not permitted of a function", word.text));
        std::string text = fmt::format(".{} ", word.text);
        do {
            const uint64_t number = words_.expect(Token::Kind::integer, "a number").value;
            text += fmt::format("{}{}", text.ends_with(' ') ? "" : ", ", number);
        } while (words_.take_mark(','));
        made.directives.push_back(text);
    }

    /// Where a function is kept: at what was declared before under its name, or at the end.
    size_t place_function(const Function& made) {
        if (names_.variables.contains(made.name))
            words_.fail(made.place, fmt::format("'{}' is declared twice", made.name));
        const auto [found, fresh] = names_.functions.emplace(made.name, module_.functions.size());
        if (fresh) {
            module_.functions.push_back(made);
            return found->second;
        }
        const Function& before = module_.functions[found->second];
        const auto shapes = [](const Function& f) {
            std::string text = f.entry ? "entry" : "func";
            for (const auto* list : {&f.results, &f.parameters}) {
                text += "|";
                for (const uint32_t i : *list)
                    text += fmt::format(" {} {}", f.variables[i].bytes(), f.variables[i].aligned_to());
            }
            return text;
        };
        if (shapes(before) != shapes(made))
            words_.fail(made.place, fmt::format("'{}' was declared with other parameters", made.name));
        return found->second;
    }

    void check_heading() const {
        if (module_.version.empty() || module_.target.empty() || !sized_)
            words_.fail({1, 1}, "a module begins with .version, .target and .address_size");
    }

    void check_own_names() const {
        for (const Function& function : module_.functions)
            for (const Variable& own : function.variables)
                if (names_.variables.contains(own.name) || names_.functions.contains(own.name))
                    words_.fail(own.place, fmt::format("'{}' is declared twice", own.name));
    }

    Words words_;
    const Limits limits_;
    Module module_;
    ModuleNames names_;
    bool sized_ = false;
    size_t statements_ = 0, initials_ = 0;
};

}  // namespace

Module read(std::string_view text, const std::string& file, const Limits& limits) {
    if (text.size() > limits.text_bytes)
        throw ConfigError(Diagnostic{{file, 0, 0},
                                     fmt::format("{} bytes are more than are read", text.size()),
                                     fmt::format("at most {}", limits.text_bytes)});
    return ModuleReader(text, file, limits).read();
}

}  // namespace millrace::isolation::ptx
