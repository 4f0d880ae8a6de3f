#include "nf/crypto/vectors.hpp"

#include <gtest/gtest.h>

#include "millrace/base/files/file.hpp"

namespace millrace::test {

Bytes from_hex(const std::string& text) {
    Bytes bytes;
    for (size_t i = 0; i + 1 < text.size(); i += 2)
        bytes.push_back(static_cast<uint8_t>(std::stoul(text.substr(i, 2), nullptr, 16)));
    return bytes;
}

std::vector<KnownAnswer> read_known_answers(const std::string& path) {
    std::vector<KnownAnswer> answers;
    KnownAnswer current;
    const auto finish = [&] {
        if (!current.fields.empty()) answers.push_back(current);
        current.fields.clear();
    };
    for_each_line(read_file(path), [&](std::string_view line, uint32_t) {
        while (line.ends_with(' ')) line.remove_suffix(1);
        if (line.starts_with('#')) return;
        if (line.starts_with('[')) {
            finish();
            current.section = std::string(line.substr(1, line.size() - 2));
        }
        const size_t sign = line.find(" = ");
        if (line.empty()) finish();
        else if (sign != std::string_view::npos && !line.starts_with('['))
            current.fields[std::string(line.substr(0, sign))] = std::string(line.substr(sign + 3));
    });
    finish();
    EXPECT_FALSE(answers.empty()) << path;
    return answers;
}

}  // namespace millrace::test
