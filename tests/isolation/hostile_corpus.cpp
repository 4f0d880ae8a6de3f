#include "isolation/hostile_corpus.hpp"

#include <algorithm>
#include <filesystem>
#include <stdexcept>

#include "millrace/base/files/file.hpp"
#include "support/data.hpp"

namespace millrace::test {
namespace {

constexpr const char* kHead = ".version 9.0\n.target sm_90\n.address_size 64\n";

void replace_all(std::string& text, const std::string& what, const std::string& by) {
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
        text.replace(at, what.size(), by);
}

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts;
    size_t begin = 0;
    for (size_t end; (end = text.find(" | ", begin)) != std::string::npos; begin = end + 3)
        parts.push_back(text.substr(begin, end - begin));
    parts.push_back(text.substr(begin));
    for (std::string& part : parts) replace_all(part, "\\n", "\n");
    return parts;
}

struct File {
    HostileCase common;
    std::vector<std::pair<std::string, std::vector<std::string>>> varied;
};

File read_case(const std::filesystem::path& path) {
    File file;
    file.common.name = path.stem().string();
    bool expected = false;
    for_each_line(read_file(path.string()), [&](std::string_view line, uint32_t) {
        const std::string text(line);
        const auto value_of = [&](const std::string& key) {
            return text.starts_with(key) ? text.substr(key.size()) : std::string();
        };
        if (const std::string expect = value_of("// expect: "); !expect.empty()) {
            expected = true;
            if (expect == "refused") file.common.refused = "error";
            else if (expect.starts_with("refused: ")) file.common.refused = expect.substr(9);
            else if (expect != "fenced") throw std::runtime_error(path.string() + ": expects '" + expect + "'");
        }
        if (const std::string unfenced = value_of("// unfenced: "); !unfenced.empty()) file.common.unfenced = unfenced;
        if (value_of("// result: ") == "spent") file.common.spent = true;
        if (!value_of("// writes: ").empty()) file.common.at_own_addresses = true;
        if (const std::string shared = value_of("// shared: "); !shared.empty())
            file.common.shared_bytes = static_cast<unsigned>(std::stoul(shared));
        if (const std::string vary = value_of("// vary "); !vary.empty()) {
            const size_t colon = vary.find(": ");
            file.varied.emplace_back(vary.substr(0, colon), split(vary.substr(colon + 2)));
        }
        file.common.text += text + "\n";
    });
    if (!expected || file.common.refused.empty() == file.common.unfenced.empty())
        throw std::runtime_error(path.string() + " says either why it is refused, or what it does without a fence");
    return file;
}

}  // namespace

std::string function_around(const std::string& body) {
    return std::string(kHead) +
           ".visible .func (.param .align 8 .b8 result[8]) hostile(.param .b64 packet, .param .b64 tables)\n{\n"
           ".reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<10>;\n.reg .b64 %rd<9>;\n.reg .f32 %f<4>;\n"
           ".reg .f64 %fd<4>;\nld.param.u64 %rd1, [packet];\nld.param.u64 %rd2, [tables];\n" +
           body + "\nmov.u64 %rd8, 0;\nst.param.b64 [result], %rd8;\nret;\n}\n";
}

std::string with_kernel(const std::string& text, const std::string& function) {
    // ".func (.param .align 8 .b8 result[8]) name("
    const size_t name = text.find(") " + function + "(");
    const size_t open = text.rfind('(', name), size = text.find('[', open), align = text.find(".align ", open);
    if (name == std::string::npos || size > name || align > name) throw std::runtime_error("no result: " + function);
    const unsigned long bytes = std::stoul(text.substr(size + 1));
    const std::string result = ".param .align " + std::to_string(std::stoul(text.substr(align + 7))) + " .b8 given[" +
                               std::to_string(bytes) + "];\n";
    return text +
           ".visible .entry kernel(.param .b64 a, .param .b64 b, .param .b64 c)\n{\n.reg .b64 %rd<4>;\n.reg .b32 "
           "%r<3>;\nld.param.b64 %rd1, [a];\nld.param.b64 %rd2, [b];\nld.param.b64 %rd3, [c];\n{\n.param .b64 p;\n"
           ".param .b64 t;\n" +
           result + "st.param.b64 [p], %rd1;\nst.param.b64 [t], %rd2;\ncall (given), " + function +
           ", (p, t);\nld.param.b32 %r1, [given];\n" +
           (bytes >= 8 ? "ld.param.b32 %r2, [given+4];\n" : "mov.u32 %r2, 0;\n") +
           "}\nst.global.b32 [%rd3], %r1;\nst.global.b32 [%rd3+4], %r2;\nret;\n}\n";
}

std::vector<HostileCase> hostile_cases() {
    std::vector<std::filesystem::path> paths;
    // Portable programs may stand where the tree does not.
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/isolation/hostile"), missing))
        if (entry.path().extension() == ".ptx") paths.push_back(entry.path());
    std::ranges::sort(paths);
    std::vector<HostileCase> cases;
    for (const auto& path : paths) {
        const File file = read_case(path);
        size_t count = 1;
        for (const auto& [name, values] : file.varied) count *= values.size();
        for (size_t n = 0; n < count; ++n) {
            HostileCase made = file.common;
            size_t rest = n;
            for (const auto& [name, values] : file.varied) {
                replace_all(made.text, "@" + name + "@", values[rest % values.size()]);
                rest /= values.size();
            }
            if (count > 1) made.name += "_" + std::to_string(n);
            const bool whole = made.text.find(".func") != std::string::npos;
            if (!whole) made.text = function_around(made.text);
            else if (made.text.find(".version") == std::string::npos) made.text = kHead + made.text;
            cases.push_back(std::move(made));
        }
    }
    return cases;
}

}  // namespace millrace::test
