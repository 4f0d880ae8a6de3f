#include "host_text.hpp"

#include <cctype>
#include <map>
#include <mutex>
#include <regex>

namespace emulator {
namespace {

/// The end of the balanced parenthesis that opens at `open`, behind it.
size_t behind(const std::string& text, size_t open) {
    int depth = 0;
    bool quoted = false;
    for (size_t at = open; at < text.size(); ++at) {
        if (text[at] == '"' && text[at - 1] != '\\') quoted = !quoted;
        if (quoted) continue;
        depth += text[at] == '(' ? 1 : text[at] == ')' ? -1 : 0;
        if (depth == 0) return at + 1;
    }
    return text.size();
}

/// `asm volatile("ld.acquire.gpu.u64 %0, [%1];" : "=l"(last) : "l"(at) : "memory");` as a call of cuda_words.hpp's
/// ptx:: functions.
std::string ptx_call(const std::string& statement) {
    const size_t from = statement.find('"') + 1;
    const std::string instruction = statement.substr(from, statement.find('"', from) - from);
    if (instruction.empty()) return ";";
    std::string name = instruction.substr(0, instruction.find(' '));
    if (const size_t special = instruction.find(", %g"); special != std::string::npos)
        name += "_" + instruction.substr(special + 3, instruction.find(';') - special - 3);
    for (char& c : name)
        if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
    std::string operands;
    for (size_t at = statement.find(':'); at < statement.size(); ++at) {
        if (statement[at] != '(') continue;
        const size_t end = behind(statement, at);
        operands += (operands.empty() ? "" : ", ") + statement.substr(at + 1, end - at - 2);
        at = end - 1;
    }
    return "::ptx::" + name + "(" + operands + ");";
}

std::string without_asm(std::string text) {
    const std::string word = "asm volatile(";
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
        const size_t end = text.find(';', behind(text, at + word.size() - 1)) + 1;
        text.replace(at, end - at, ptx_call(text.substr(at, end - at)));
    }
    return text;
}

/// What no header can say in C++: where a block's memory lies, and that whoever looks at memory again and again lets
/// others run.
std::string changed_for_the_host(const std::string& text) {
    static const std::regex block_memory(R"(extern __shared__ (?:__align__\(\d+\) )?(\w+) (\w+)\[\];)"),
        waiting(R"((while \([^;{}]*\)) \{\s*\})"), look(R"(return \*static_cast<const volatile T\*>)");
    std::string changed = std::regex_replace(without_asm(text), block_memory,
                                             "\n#define $2 (reinterpret_cast<$1*>(emulator::self->block_memory))\n");
    changed = std::regex_replace(changed, waiting, "$1 emulator::calls->pause();");
    return std::regex_replace(changed, look, "emulator::calls->pause(); $&");
}

}  // namespace

std::string for_the_host(const std::string& text) {
    // Chains have most headers in common, and tests make the same ones again and again.
    static std::mutex mutex;
    static auto& known = *new std::map<std::string, std::string>;
    const std::lock_guard lock(mutex);
    const auto [place, is_new] = known.try_emplace(text);
    if (is_new) place->second = changed_for_the_host(text);
    return place->second;
}

std::string entries(const std::string& text) {
    static const std::regex kernel(R"(__global__ void __launch_bounds__\([^)]*\) (\w+)\()");
    std::string all;
    for (std::sregex_iterator found(text.begin(), text.end(), kernel), end; found != end; ++found) {
        const std::string name = (*found)[1];
        all += "extern \"C\" __attribute__((visibility(\"default\"))) const emulator::KernelEntry emulated_" + name +
               " = emulator::entry(" + name + ", [](void** parameters) { emulator::run(" + name +
               ", parameters); });\n";
    }
    return all;
}

}  // namespace emulator
