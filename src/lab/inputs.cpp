#include "lab/inputs.hpp"

#include <fmt/format.h>

#include <fstream>
#include <set>
#include <stdexcept>

#include "millrace/base/files/file.hpp"

namespace millrace::lab {
namespace {

void finish(std::ofstream& out, const std::string& file) {
    if (!out.flush()) throw std::runtime_error(file + ": can't be written");
}

std::string dotted(uint32_t a) { return fmt::format("{}.{}.{}.{}", a >> 24, a >> 16 & 255, a >> 8 & 255, a & 255); }

uint32_t network(uint32_t address, unsigned length) {
    return length == 0 ? 0 : address & ~uint32_t{0} << (32 - length);
}

}  // namespace

std::vector<std::string> make_words(size_t count, std::mt19937& random) {
    std::vector<std::string> words;
    for (size_t i = 0; i < count; ++i) {
        std::string word;
        for (size_t n = 5 + random() % 12; n > 0; --n) word.push_back(static_cast<char>('a' + random() % 26));
        words.push_back(std::move(word));
    }
    return words;
}

void make_text(const std::string& file, const std::vector<std::string>& patterns, std::mt19937& random) {
    const std::vector<std::string> words = make_words(500, random);
    std::ofstream out(file, std::ios::binary);
    for (size_t bytes = 0; bytes < (1u << 20);) {
        const bool planted = random() % 300 == 0 && !patterns.empty();
        const std::string& word = planted ? patterns[random() % patterns.size()] : words[random() % words.size()];
        out << word << (random() % 9 == 0 ? ":\r\n" : " ");
        bytes += word.size() + 1;
    }
    finish(out, file);
}

void make_rules(const std::string& file, size_t count, std::mt19937& random) {
    std::ofstream out(file);
    for (size_t i = 0; i < count; ++i) {
        const unsigned src = 8 + static_cast<unsigned>(random() % 25), dst = 16 + static_cast<unsigned>(random() % 17);
        out << "permit " << (random() % 4 == 0 ? "udp" : "tcp") << " from "
            << dotted(network(static_cast<uint32_t>(random()), src)) << "/" << src << " to "
            << dotted(network(static_cast<uint32_t>(random()), dst)) << "/" << dst << " port " << random() % 10000
            << "\n";
    }
    finish(out, file);
}

void make_routes(const std::string& file, size_t count, std::mt19937& random) {
    // Of 20 prefixes so many are this long, about as in the tables of 2025.
    static constexpr unsigned kLengths[20] = {24, 24, 24, 24, 24, 24, 24, 24, 24, 24,
                                              24, 24, 23, 23, 22, 22, 21, 20, 19, 16};
    std::set<std::pair<uint32_t, unsigned>> prefixes;
    while (prefixes.size() < count) {
        const unsigned length = kLengths[random() % 20];
        const uint32_t address = (1 + static_cast<uint32_t>(random()) % 223) << 24 |
                                 static_cast<uint32_t>(random()) >> 8;
        prefixes.emplace(network(address, length), length);
    }
    std::ofstream out(file);
    for (const auto& [address, length] : prefixes) out << dotted(address) << "/" << length << "\n";
    finish(out, file);
}

std::vector<std::string> read_patterns(const std::string& file, size_t longest) {
    std::vector<std::string> patterns;
    for_each_line(read_file(file), [&](std::string_view line, uint32_t) {
        std::string bytes;
        for (size_t i = 2; i + 1 < line.size(); i += 2)
            bytes.push_back(static_cast<char>(std::stoi(std::string(line.substr(i, 2)), nullptr, 16)));
        if (!bytes.empty()) patterns.push_back(bytes.substr(0, longest));
    });
    return patterns;
}

}  // namespace millrace::lab
